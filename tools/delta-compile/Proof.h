//===- Proof.h - The certificate of a plan ----------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_COMPILE_PROOF_H
#define DELTA_TOOLS_DELTA_COMPILE_PROOF_H

#include "codegen/LoweredPlan.h"
#include "dialect/DeltaDialect.h"

#include <string>

namespace delta {

/// The certificate that tools/certificate checks against the plan, as JSON
/// text (passes/PROOF.md). `module` is the one that `plan` was lowered from.
std::string printCertificate(mlir::ModuleOp module, const LoweredPlan &plan);

} // namespace delta

#endif // DELTA_TOOLS_DELTA_COMPILE_PROOF_H
