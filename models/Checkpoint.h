//===- Checkpoint.h - What a safetensors checkpoint holds -------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Names, shapes, types and places of the tensors of a checkpoint, from the
/// headers of its files alone. Every length and offset is checked before it is
/// used, so a header that lies is found here and nowhere later.
///
/// A safetensors file: u64 length of the header, little-endian; the header, a
/// JSON object {name: {"dtype", "shape", "data_offsets": [begin, end]}}, with
/// offsets from the end of the header; the data, without gaps.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_MODELS_CHECKPOINT_H
#define DELTA_MODELS_CHECKPOINT_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace delta {

/// A tensor as it is stored.
struct StoredTensor {
  std::string dtype; ///< as the file says: BF16, F16, F32, I64, F8_E4M3, ...
  std::vector<int64_t> shape;
  size_t file = 0;    ///< row of Checkpoint::files
  uint64_t begin = 0; ///< first byte in the file
  uint64_t end = 0;
};

/// All tensors of a checkpoint.
struct Checkpoint {
  std::string path; ///< as the user gave it
  std::vector<std::string> files;
  std::map<std::string, StoredTensor> tensors;
};

/// Bytes of one element of a stored type; 0 for a type that is not known.
/// Types of less than a byte are not known.
uint64_t storedElementSize(const std::string &dtype);

/// Short name of a plain type (bf16, fp16, fp32, i64); empty for another one,
/// a quantized one say.
std::string plainTypeName(const std::string &dtype);

/// Reads the header of one safetensors file and adds its tensors. `text` is
/// the whole file or its beginning, `fileBytes` the size of the file. Returns
/// an error text, or nothing. For openCheckpoint and for fuzzing.
std::optional<std::string> readHeader(const char *text, uint64_t textBytes,
                                      uint64_t fileBytes, size_t file,
                                      Checkpoint &out);

/// Opens a safetensors file, an index (`*.index.json`), or a folder with an
/// index or else with safetensors files. On failure returns nothing and sets
/// `error` to one line that begins with the path of the file at fault.
std::optional<Checkpoint> openCheckpoint(const std::string &path,
                                         std::string &error);

} // namespace delta

#endif // DELTA_MODELS_CHECKPOINT_H
