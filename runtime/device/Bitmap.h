//===- Bitmap.h - What was written since a sync -----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A sender without a snapshot: one bit for each element of the parameters of
/// 16 bits, set by who writes them. There are two sets of bits, each 1/16 of
/// the parameters. A compare moves what was written to what is being sent, so a
/// cast that comes before the acknowledgement is kept for the next sync; the
/// acknowledgement clears what is being sent, an abort leaves it.
///
/// A parameter of another type (a router's bias, a state in fp32) is not
/// written by a cast. It counts as written whole at every sync.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_BITMAP_H
#define DELTA_RUNTIME_DEVICE_BITMAP_H

#include "codegen/device/BitmapArguments.h"
#include "runtime/Shard.h"
#include "runtime/device/Device.h"

namespace delta::runtime {

class Bitmap {
public:
  /// Allocates and zeroes bits for all parameters of the rank.
  Status create(std::shared_ptr<Device> on, const delta_tables_t &tables,
                const Shard &shard, Stream stream);
  bool isUsed() const { return memory.getNumBytes() != 0; }

  /// For each row of `shard` the bits of its parameter that are being sent.
  std::vector<const uint32_t *> bitsOf(const Shard &shard) const;

  device::TakeArguments takeArguments() const;
  /// Fails where the parameter or its elements are not there, or have no bits.
  Status castArguments(const Shard &shard, uint32_t param, const float *values,
                       int64_t first, int64_t count,
                       device::CastArguments &out) const;
  /// As if the parameter had been written whole.
  Status mark(uint32_t param, Stream stream);
  /// What is being sent has arrived.
  Status clear(Stream stream);

private:
  struct Bits {
    uint64_t at;   ///< bytes
    uint64_t size; ///< bytes, a multiple of 16; 0: of another type
    int64_t numElements;
    delta_dtype_t dtype;
    std::string name;
  };
  Status findParam(uint32_t param) const;

  std::shared_ptr<Device> owner;
  std::vector<Bits> params;
  uint64_t numBytes = 0; ///< of one of the two sets
  DeviceBuffer memory;   ///< written, being sent
  DeviceBuffer ones;     ///< for parameters of other types
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_BITMAP_H
