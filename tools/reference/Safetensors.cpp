//===- Safetensors.cpp - Write tensors to a file --------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Tensors are written from where they lie; only the header is built.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/Safetensors.h"

#include "tools/reference/Moves.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

namespace delta::reference {

static const char *formatName(const std::string &dtype) {
  if (dtype == "bf16")
    return "BF16";
  if (dtype == "fp16")
    return "F16";
  return dtype == "fp32" ? "F32" : "I64";
}

/// Padded with spaces so that the data begins at a multiple of 8.
static bool headerOf(const std::vector<TensorData> &tensors,
                     std::string &header, std::string &error) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  uint64_t offset = 0;
  for (const TensorData &tensor : tensors) {
    if (json.contains(tensor.name)) {
      error = "two tensors are called \"" + tensor.name + "\"";
      return false;
    }
    const uint64_t end =
        offset + uint64_t(count(tensor.shape) * byteWidth(tensor.dtype));
    json[tensor.name] = {{"dtype", formatName(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, end}}};
    offset = end;
  }
  header = json.dump();
  header.append((8 - header.size() % 8) % 8, ' ');
  return true;
}

bool writeSafetensors(const std::string &path,
                      const std::vector<TensorData> &tensors,
                      std::string &error) {
  std::string header;
  if (!headerOf(tensors, header, error))
    return false;
  std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path.c_str(), "wb"),
                                              std::fclose);
  unsigned char length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
  bool good =
      file && std::fwrite(length, 1, 8, file.get()) == 8 &&
      std::fwrite(header.data(), 1, header.size(), file.get()) == header.size();
  for (const TensorData &tensor : tensors) {
    const size_t size = size_t(count(tensor.shape) * byteWidth(tensor.dtype));
    good = good && std::fwrite(tensor.data, 1, size, file.get()) == size;
  }
  if (good && std::fclose(file.release()) == 0)
    return true;
  error = "cannot write " + path + ": " + std::strerror(errno);
  return false;
}

} // namespace delta::reference
