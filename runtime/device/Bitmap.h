//===- Bitmap.h - What was written since a sync -----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A sender without a snapshot: one bit, a mark, for each element of the
/// parameters of 16 bits, set by who writes them: 1/16 of the parameters.
/// A compare clears the marks of what it packs, so a cast that comes after it
/// is kept for the next sync. What did not arrive is marked again by the packed
/// delta (codegen/device/MarkKernel.cuh); runtime/README.md has the rule.
///
/// A parameter of another type (a router's bias, a state in fp32) is not
/// written by a cast. It counts as written whole at every sync.
///
/// Marks of parameters with experts lie behind those of the others, for they
/// have other replicas.
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
  /// Allocates and zeroes marks for all parameters of the rank.
  Status create(std::shared_ptr<Device> on, const delta_tables_t &tables,
                const Shard &shard, Stream stream);
  bool isUsed() const { return memory.getNumBytes() != 0; }

  /// For each row of `shard` the marks of its parameter.
  std::vector<const uint32_t *> bitsOf(const Shard &shard) const;
  /// What rows have there whose parameter has no marks.
  const uint32_t *getOnes() const { return ones.as<const uint32_t>(); }

  /// The marks of all parameters with experts, or without: bytes of them.
  Status marksOf(bool ofExperts, void *&out, uint64_t &outBytes) const;
  /// For the tiles that other ranks send; numTiles may be 0.
  device::DropArguments dropArguments() const;
  /// Fails where the parameter or its elements are not there, or have no bits.
  Status castArguments(const Shard &shard, uint32_t param, const float *values,
                       int64_t first, int64_t count,
                       device::CastArguments &out) const;
  /// As if the parameter had been written whole.
  Status mark(uint32_t param, Stream stream);

private:
  struct Bits {
    uint64_t at;   ///< bytes
    uint64_t size; ///< bytes, a multiple of 16; 0: of another type
    int64_t numElements;
    delta_dtype_t dtype;
    std::string name;
  };
  Status requireUsed() const;
  Status findParam(uint32_t param) const;
  Status allocate(Stream stream);
  Status makeOthers(const delta_tables_t &tables, const Shard &shard,
                    Stream stream);

  std::shared_ptr<Device> owner;
  std::vector<Bits> params;
  uint64_t expertsAt = 0; ///< bytes before the marks of experts
  uint64_t numBytes = 0;
  uint64_t mostOnes = 0; ///< bytes
  DeviceBuffer memory;
  DeviceBuffer ones; ///< for parameters of other types
  /// Tiles of the rank's parameters that other ranks send.
  DeviceBuffer others;
  int64_t numOtherRows = 0, numOtherTiles = 0;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_BITMAP_H
