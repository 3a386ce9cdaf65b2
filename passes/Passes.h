//===- Passes.h - From a bound family to static maps ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_PASSES_PASSES_H
#define DELTA_PASSES_PASSES_H

// Every pass builds ops.
#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"

#include <string>

namespace delta {

class DeltaDialect;

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

/// Makes every pass known to the textual pipeline parser.
inline void registerDeltaPasses() { registerDeltaPassesPasses(); }

} // namespace delta

#endif // DELTA_PASSES_PASSES_H
