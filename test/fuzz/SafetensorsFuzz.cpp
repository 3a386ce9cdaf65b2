//===- SafetensorsFuzz.cpp - Any bytes as a safetensors file --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the header of a file. The first byte says how its length is told: as
/// it is, put right, or cut off. Tensors that are accepted lie inside the file.
///
//===----------------------------------------------------------------------===//

#include "models/Checkpoint.h"

#include <cstdlib>
#include <cstring>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  uint8_t kind = *data++;
  --size;
  std::string text(reinterpret_cast<const char *>(data), size);
  uint64_t fileBytes = size;
  if (kind % 3 == 1) {
    // A header alone; the data behind it is 1,024 bytes that are not read.
    uint64_t length = size;
    text.insert(0, reinterpret_cast<const char *>(&length), sizeof(length));
    fileBytes = text.size() + 1024;
  } else if (kind % 3 == 2) {
    fileBytes = uint64_t(kind) << 30;
  }
  delta::Checkpoint out;
  out.files = {"file"};
  std::optional<std::string> error =
      delta::readHeader(text.data(), text.size(), fileBytes, 0, out);
  if (error) {
    if (error->empty())
      abort();
    return 0;
  }
  for (const auto &[name, tensor] : out.tensors) {
    if (tensor.begin > tensor.end || tensor.end > fileBytes || tensor.file != 0)
      abort();
    uint64_t bytes = delta::storedElementSize(tensor.dtype);
    for (int64_t extent : tensor.shape)
      if (__builtin_mul_overflow(bytes, uint64_t(extent), &bytes))
        abort();
    if (delta::storedElementSize(tensor.dtype) &&
        bytes != tensor.end - tensor.begin)
      abort();
  }
  return 0;
}
