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
#include <vector>

namespace delta {

/// Device code that a plan embeds. The bytes themselves are a symbol that the
/// linker finds (Toolchain.h): text would hold megabytes of numbers.
struct EmbeddedCubin {
  uint32_t major, minor; ///< compute capability
  std::string symbol;
  uint64_t numBytes;
};

/// Host C++: defines `delta_plan_tables` and `delta_plan_kernels`, which the
/// run time links. With `cubins` the plan is one for GPUs.
std::string emitHost(const LoweredPlan &plan,
                     const std::vector<EmbeddedCubin> &cubins = {});

/// CUDA C++ for the device: `delta_boxes` and `delta_images` in device memory,
/// and an entry point for each kernel of codegen/device/DeviceKernels.def over
/// the element types of the plan.
std::string emitCuda(const LoweredPlan &plan);

} // namespace delta

#endif // DELTA_CODEGEN_EMIT_H
