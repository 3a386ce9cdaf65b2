//===- Values.h - What a value becomes on its way ---------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The value op that a plan must have for an element, and, apart from it, the
/// value that an engine must hold for an element of a tensor.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_VALUES_H
#define DELTA_TOOLS_REFERENCE_VALUES_H

#include "runtime/delta_abi.h"
#include "tools/reference/Interpreter.h"

#include <functional>

namespace delta::reference {

/// How an engine holds a tensor.
struct EngineType {
  std::string tensorDtype; ///< of the tensor, on the source side
  std::string form;        ///< see Param
  std::string dtype;       ///< of the engine's parameter
};

/// The op from a source value to the neutral one: nothing, or one added. None
/// where no op stands for it.
std::optional<delta_value_op_t> neutralOp(const ValueFacts &source);

/// The op from a source value to what an engine holds: also a type on the way
/// and a form. None where no op stands for it.
std::optional<delta_value_op_t> engineOp(const ValueFacts &source,
                                         const std::string &sourceDtype,
                                         const EngineType &type);

/// "no value op", "value op +1 via bf16 -exp".
std::string valueOpText(delta_value_op_t op);

/// Gives the bits that the engine holds for the bits of an element of the
/// tensor; null where those are the same. -exp is that of the C library, in
/// double, rounded to float; a NaN keeps its payload and becomes quiet.
std::function<uint64_t(uint64_t)> engineValue(const EngineType &type);

/// The plan's number of a type, 0 for an unknown one.
delta_dtype_t dtypeNumber(const std::string &dtype);

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_VALUES_H
