//===- Safetensors.h - Write tensors to a file ------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The safetensors format: eight bytes of header length, the header as JSON,
/// the tensors' bytes one after another.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_SAFETENSORS_H
#define DELTA_TOOLS_REFERENCE_SAFETENSORS_H

#include <cstdint>
#include <string>
#include <vector>

namespace delta::reference {

struct TensorData {
  std::string name;
  std::string dtype; ///< bf16, fp16, fp32, i64
  std::vector<int64_t> shape;
  const void *data = nullptr; ///< borrowed
};

/// Writes the tensors in their order. False, with `error` set, when the file
/// cannot be written or two tensors have one name.
bool writeSafetensors(const std::string &path,
                      const std::vector<TensorData> &tensors,
                      std::string &error);

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_SAFETENSORS_H
