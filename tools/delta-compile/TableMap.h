//===- TableMap.h - The map of tables in memory -----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_COMPILE_TABLEMAP_H
#define DELTA_TOOLS_DELTA_COMPILE_TABLEMAP_H

#include "runtime/delta_abi.h"
#include "tools/reference/MapSource.h"

namespace delta {

/// Reads a map through the run time's own expansion of `tables`, which must
/// outlive it. Null, with `error` set, for tables that the run time refuses.
std::unique_ptr<reference::MapSource> mapOfTables(const delta_tables_t &tables,
                                                  std::string &error);

} // namespace delta

#endif // DELTA_TOOLS_DELTA_COMPILE_TABLEMAP_H
