//===- Drops.h - What a side leaves out, for the page -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_COMPILE_DROPS_H
#define DELTA_TOOLS_DELTA_COMPILE_DROPS_H

#include "dialect/DeltaDialect.h"
#include "tools/report/Report.h"

namespace delta {

/// The drops of a composed side, with their boxes. None for no side.
std::vector<report::Drop> dropsOf(SideOp side);

} // namespace delta

#endif // DELTA_TOOLS_DELTA_COMPILE_DROPS_H
