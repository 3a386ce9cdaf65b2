//===- RoundCases.h - Geometries of syncs in rounds -------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What the tests of rounds are run for, on the host and on a device.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_RUNTIME_ROUNDCASES_H
#define DELTA_TEST_UNIT_RUNTIME_ROUNDCASES_H

#include "TestPlan.h"

namespace delta::test {

/// A geometry of the axes that these tests vary.
inline Geometry geometryOf(uint32_t tp, uint32_t dp, uint32_t ep, uint32_t etp,
                           uint32_t pp) {
  return {tp, /*cp=*/1, dp, ep, etp, pp};
}

struct RoundCase {
  const char *name;
  Geometry source, destination;
  bool toHf;
};

inline const RoundCase RoundCases[] = {
    {"one_to_one", geometryOf(1, 1, 1, 1, 1), geometryOf(1, 1, 1, 1, 1), false},
    {"tp2_pp2_to_hf", geometryOf(2, 1, 2, 1, 2), geometryOf(1, 1, 1, 1, 1),
     true},
    {"ep4_to_ep2_etp2", geometryOf(2, 2, 4, 1, 1), geometryOf(2, 2, 2, 2, 1),
     false},
};

} // namespace delta::test

#endif // DELTA_TEST_UNIT_RUNTIME_ROUNDCASES_H
