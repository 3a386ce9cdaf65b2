//===- SamplePlan.h - A small lowered plan, written by hand -----*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Two source ranks (TP2), two layers, whole tensors at one receiver.
///
///   class 0  "decoder.layers.{layer}.w" bf16, rows of [8, 6] over TP: each
///            rank holds [4, 6]; in the neutral tensor "layers.{layer}.w" the
///            rows of rank r are the rows 4r..4r+3
///   class 1  "norm" fp32 [5], replicated, the neutral tensor holds value + 1
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_CODEGEN_SAMPLEPLAN_H
#define DELTA_TEST_UNIT_CODEGEN_SAMPLEPLAN_H

#include "codegen/LoweredPlan.h"

namespace delta::test {

LoweredPlan samplePlan();

/// The same into an engine, with all that only engines have: slots of experts
/// with a part behind them, an order of memory, ops and a refresh.
LoweredPlan enginePlan();

/// The same with `numClasses` more classes of `numBoxes` boxes each, to see how
/// code generation grows.
LoweredPlan widePlan(unsigned numClasses, unsigned numBoxes);

} // namespace delta::test

#endif // DELTA_TEST_UNIT_CODEGEN_SAMPLEPLAN_H
