//===- KeyList.h - A checkpoint's keys beside a family's -------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_COMPILE_KEYLIST_H
#define DELTA_TOOLS_DELTA_COMPILE_KEYLIST_H

#include "dialect/DeltaDialect.h"
#include "models/Checkpoint.h"

#include <string>

namespace delta {

/// The name that key lists and reference programs have for a type of bound
/// text: fp32, fp16, bf16, i64.
inline std::string fileTypeName(llvm::StringRef dtype) {
  return dtype == "f32" ? "fp32" : dtype == "f16" ? "fp16" : dtype.str();
}

/// The key list of a checkpoint as the instantiate pass reads it:
/// {name: {"shape", "dtype"}}. Fails, with `error` set, for a checkpoint that
/// is quantized: its tensors are not the trainer's numbers.
bool keyListOf(const Checkpoint &checkpoint, std::string &outKeys,
               std::string &error);

/// Compares the names, shapes and types that a bound module produces with the
/// checkpoint. Prints what the key list chose; on a difference prints every
/// kind of it by name, the first few and the number of the others, and returns
/// false.
bool matchesKeyList(mlir::ModuleOp module, const Checkpoint &checkpoint);

} // namespace delta

#endif // DELTA_TOOLS_DELTA_COMPILE_KEYLIST_H
