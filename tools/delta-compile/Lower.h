//===- Lower.h - Out of the IR into plain values ----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_COMPILE_LOWER_H
#define DELTA_TOOLS_DELTA_COMPILE_LOWER_H

#include "codegen/LoweredPlan.h"
#include "dialect/DeltaDialect.h"
#include "tools/reference/Program.h"

namespace delta {

/// The reference program of a bound module, before any folding. Fails with an
/// error at the op if it is not bound.
mlir::FailureOr<reference::Program> referenceProgram(mlir::ModuleOp module,
                                                     int64_t replicas);

/// The plan of a module with routes. `fingerprint` and the texts are the
/// caller's. The version is that of an engine destination; empty: any.
mlir::FailureOr<LoweredPlan> lowerPlan(mlir::ModuleOp module, int64_t replicas,
                                       const std::string &engineVersion = {});

} // namespace delta

#endif // DELTA_TOOLS_DELTA_COMPILE_LOWER_H
