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

/// `delta_plan_kernels`: host kernels of the element types in the plan.
void emitHostKernels(SourceText &out, const delta_tables_t &tables);

/// Entry points for the device.
void emitCudaKernels(SourceText &out, const delta_tables_t &tables);

/// Rows of delta_kernels_t that the boxes need (delta_kernel_row).
std::set<uint32_t> kernelRows(const delta_tables_t &tables);

} // namespace delta

#endif // DELTA_CODEGEN_EMITPARTS_H
