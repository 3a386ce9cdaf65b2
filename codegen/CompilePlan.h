//===- CompilePlan.h - From a lowered plan to a plan ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Emits a plan and runs the compilers on its text, for either target.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_COMPILEPLAN_H
#define DELTA_CODEGEN_COMPILEPLAN_H

#include "codegen/DeviceCode.h"
#include "codegen/LoweredPlan.h"

namespace delta {

/// Writes `plan` to `outputPath` as a shared library: for GPUs of the given
/// architectures, which are compiled first and embedded, or for the host where
/// none is given. Errors are those of compileCubins and compileHost.
MaybeError compilePlan(const LoweredPlan &plan,
                       const std::vector<Architecture> &architectures,
                       const std::string &outputPath,
                       const Installation &installation);

} // namespace delta

#endif // DELTA_CODEGEN_COMPILEPLAN_H
