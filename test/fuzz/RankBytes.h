//===- RankBytes.h - Memory of a rank for fuzzing ---------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The parameters of one rank, each in memory of exactly its size: a sanitizer
/// sees a byte that is read or written beside it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_FUZZ_RANKBYTES_H
#define DELTA_TEST_FUZZ_RANKBYTES_H

#include "runtime/Side.h"
#include "runtime/device/Device.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace delta::fuzz {

class RankBytes {
public:
  /// With a device, its memory, which the host must be able to read.
  RankBytes(const runtime::Side &side, uint32_t rank, uint8_t fill,
            std::shared_ptr<runtime::Device> device = nullptr) {
    for (const runtime::Param &param : side.params(rank)) {
      const delta_class_t &type = side.getClass(param.classIndex);
      const runtime::ParamShape shape =
          side.shapeOf(type, side.coordinates(rank));
      size_t size =
          size_t(shape.numElements) * runtime::elementSize(type.dtype);
      names.push_back(side.name(param));
      buffers.emplace_back();
      if (device && buffers.back().allocate(device, size).failed())
        abort();
      bytes.emplace_back(device ? nullptr : new uint8_t[size]);
      begins.push_back(device ? buffers.back().as() : bytes.back().get());
      sizes.push_back(size);
      for (size_t i = 0; i < size; ++i)
        begins.back()[i] = uint8_t(fill + i);
      delta_param_t out = {};
      out.chunk = side.chunkOf(type, param.layer);
      out.dtype = type.dtype;
      out.rank = type.rank;
      for (uint32_t dim = 0; dim < type.rank; ++dim) {
        out.shape[dim] = shape.shape[dim];
        out.stride[dim] = shape.stride[dim];
      }
      out.data = begins.back();
      params.push_back(out);
    }
    for (size_t i = 0; i < params.size(); ++i)
      params[i].name = names[i].c_str();
  }

  /// All bytes, one parameter after the other.
  std::vector<uint8_t> contents() const {
    std::vector<uint8_t> all;
    for (size_t i = 0; i < bytes.size(); ++i)
      all.insert(all.end(), begins[i], begins[i] + sizes[i]);
    return all;
  }
  void flip(size_t param, size_t byte) { begins[param][byte] ^= 1; }
  size_t getSize(size_t param) const { return sizes[param]; }

  std::vector<delta_param_t> params;

private:
  std::vector<std::string> names;
  std::vector<std::unique_ptr<uint8_t[]>> bytes;
  std::vector<runtime::DeviceBuffer> buffers;
  std::vector<uint8_t *> begins;
  std::vector<size_t> sizes;
};

} // namespace delta::fuzz

#endif // DELTA_TEST_FUZZ_RANKBYTES_H
