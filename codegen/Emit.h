//===- Emit.h - From a lowered plan to source text --------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Entry point of code generation: one source file per target. The text holds
/// the tables of delta_abi.h as constants and names the kernels that work on
/// them; the kernels are headers in codegen/device. Its size grows with the
/// classes of a model, not with its tensors. The same plan gives the same
/// bytes, and nothing of the machine enters them.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_EMIT_H
#define DELTA_CODEGEN_EMIT_H

#include "codegen/LoweredPlan.h"

#include <string>

namespace delta {

/// Host C++: defines `delta_plan_tables` and `delta_plan_kernels`, which the
/// run time links.
std::string emitHost(const LoweredPlan &plan);

/// CUDA C++ for the device: `delta_boxes` and `delta_images` in device memory,
/// an entry point `delta_diff_<type>` for each element type of the plan, and
/// `delta_scatter` and `delta_advance` for all of them.
std::string emitCuda(const LoweredPlan &plan);

} // namespace delta

#endif // DELTA_CODEGEN_EMIT_H
