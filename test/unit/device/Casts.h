//===- Casts.h - Weights that an optimizer casts ----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What tests of a snapshot that is a bitmap share.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_DEVICE_CASTS_H
#define DELTA_TEST_UNIT_DEVICE_CASTS_H

#include "Twins.h"

namespace delta::test {

Geometry geometryOf(uint32_t tp, uint32_t dp, uint32_t ep);

/// What mixedModel has of 16 bits, or all of it.
std::vector<Matrix> bitmapModel(const Geometry &source,
                                const Geometry &destination, bool only16);

/// Gives elements [first, first + count) of a twin's parameter the values of
/// its host's, by the cast on the device.
void castElements(Twins &twins, const RankMemory &host, uint32_t rank,
                  uint32_t param, int64_t first, int64_t count);

} // namespace delta::test

#endif // DELTA_TEST_UNIT_DEVICE_CASTS_H
