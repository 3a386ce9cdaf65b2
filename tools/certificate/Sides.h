//===- Sides.h - Ranks, instances and classes of a side ---------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_CERTIFICATE_SIDES_H
#define DELTA_TOOLS_CERTIFICATE_SIDES_H

#include "runtime/delta_abi.h"

#include <string>

namespace delta::certificate {

/// Checks where the layers and experts of one side live, and that its classes
/// are possible.
void checkSide(const std::string &name, const delta_tables_t &tables,
               const delta_side_t &side);

/// Elements of one expert's slice of a class.
int64_t sliceSize(const delta_class_t &c);

} // namespace delta::certificate

#endif // DELTA_TOOLS_CERTIFICATE_SIDES_H
