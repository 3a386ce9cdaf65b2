//===- EmitParts.h - The parts of an emitted file ---------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Shared by the Emit*.cpp files, private to code generation.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_EMITPARTS_H
#define DELTA_CODEGEN_EMITPARTS_H

#include "codegen/Emit.h"
#include "codegen/SourceText.h"
#include "codegen/Tables.h"

#include <set>

namespace delta {

/// The tables `images` and `boxes`, with `qualifiers` in front of their types
/// and `prefix` in front of their names.
void emitBoxTables(SourceText &out, const LoweredPlan &plan,
                   const delta_tables_t &tables, const std::string &qualifiers,
                   const std::string &prefix);

/// All other tables, and `delta_plan_tables`.
void emitSideTables(SourceText &out, const delta_tables_t &tables);
void emitPlanTables(SourceText &out, const delta_tables_t &tables);

/// Declarations of the cubins' bytes, and the table `cubins`; nothing where
/// there are none.
void emitCubinNames(SourceText &out, const std::vector<EmbeddedCubin> &cubins);
void emitCubins(SourceText &out, const std::vector<EmbeddedCubin> &cubins);

/// `delta_plan_kernels`: host kernels of the element types in the plan, and the
/// cubins.
void emitHostKernels(SourceText &out, const delta_tables_t &tables,
                     const std::vector<EmbeddedCubin> &cubins);

/// The headers of all kernels of the device, and their entry points.
void emitCudaIncludes(SourceText &out);
void emitCudaKernels(SourceText &out, const delta_tables_t &tables);

/// Rows of delta_kernels_t that the boxes need (delta_kernel_row).
std::set<uint32_t> kernelRows(const delta_tables_t &tables);

} // namespace delta

#endif // DELTA_CODEGEN_EMITPARTS_H
