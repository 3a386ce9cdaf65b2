//===- FingerprintCases.h - Boxes of every kind, to be summed ---*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Boxes of which data and neutral tensor are given by strides, with random
/// memory and what the host's kernels say of it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_DEVICE_FINGERPRINTCASES_H
#define DELTA_TEST_UNIT_DEVICE_FINGERPRINTCASES_H

#include "codegen/device/HostKernels.h"
#include "runtime/Fingerprint.h"

#include <cstdint>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

namespace delta::test {

constexpr delta_kernels_t FingerprintKernels = device::allHostKernels();

/// A box of which data and neutral tensor are given by strides.
struct BoxCase {
  const char *name;
  std::vector<int64_t> extent, data, neutral;
  int64_t neutralOffset, numColumns;
  uint32_t tileRuns, tileColumns;
  int64_t dataOffset = 0;
  /// Pieces that are not WidePath are not for speed, but for what is odd.
  bool isWide = false, hasPlaces = false;
};

extern const std::vector<BoxCase> BoxCases;

/// GoogleTest prints the name of a case alone.
inline void PrintTo(const BoxCase &boxCase, std::ostream *out) {
  *out << boxCase.name;
}

inline delta_box_t boxOf(const BoxCase &from, bool isImage) {
  delta_box_t box = {};
  box.num_loops = uint32_t(from.extent.size());
  int64_t runs = 1;
  for (uint32_t loop = 0; loop < box.num_loops; ++loop) {
    box.extent[loop] = from.extent[loop];
    box.source_stride[loop] = isImage ? 0 : from.data[loop];
    runs *= loop + 1 < box.num_loops ? from.extent[loop] : 1;
  }
  box.source_offset = from.dataOffset;
  box.tile_runs = from.tileRuns;
  box.tile_columns = from.tileColumns;
  box.num_tiles =
      (runs + box.tile_runs - 1) / box.tile_runs *
      ((from.extent.back() + box.tile_columns - 1) / box.tile_columns);
  return box;
}

inline delta_image_t imageOf(const BoxCase &from) {
  delta_image_t image = {};
  image.offset = from.dataOffset;
  for (size_t loop = 0; loop < from.data.size(); ++loop)
    image.stride[loop] = from.data[loop];
  return image;
}

inline int64_t endOf(const BoxCase &from) {
  int64_t end = from.dataOffset + 1;
  for (size_t loop = 0; loop < from.data.size(); ++loop)
    end += (from.extent[loop] - 1) * from.data[loop];
  return end;
}

/// Random bits, `shift` bytes off a multiple of 64.
class Memory {
public:
  Memory(int64_t numBytes, size_t shift, uint64_t seed)
      : bytes(size_t(numBytes) + 128) {
    std::mt19937_64 random(seed);
    for (uint8_t &byte : bytes)
      byte = uint8_t(random());
    uint64_t base = reinterpret_cast<uintptr_t>(bytes.data());
    begin = bytes.data() + ((base + 63) / 64 * 64 - base) + shift;
  }
  uint8_t *begin;

private:
  std::vector<uint8_t> bytes;
};

/// What the host says.
inline uint64_t onHost(const runtime::FingerprintTerm &term) {
  uint64_t sum = 0;
  for (int64_t tile = term.tileBegin; tile < term.tileEnd; ++tile)
    sum += term.kernels->fingerprint(term.box, tile, term.image, term.data,
                                     term.op, &term.position);
  return sum;
}

} // namespace delta::test

#endif // DELTA_TEST_UNIT_DEVICE_FINGERPRINTCASES_H
