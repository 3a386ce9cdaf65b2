//===- CoderBlock.cuh - What a block of the coder shares --------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Sums over the threads of a block and over the tiles before one, and bits
/// that several threads write. Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_CODERBLOCK_CUH
#define DELTA_CODEGEN_DEVICE_CODERBLOCK_CUH

#include "codegen/device/BlockSums.cuh"
#include "codegen/device/Coder.h"

namespace delta::device {

/// Blocks that shall fit on a multiprocessor: 48 and 40 registers a thread.
/// They wait much and read little, so more of them help.
constexpr uint32_t EncodeBlocks = 5;
constexpr uint32_t DecodeBlocks = 6;

/// Elements of a thread, neighbors, and of a block, in one round.
constexpr uint32_t ThreadElements = 4;
constexpr uint32_t RoundElements = BlockThreads * ThreadElements;

/// What a tile publishes for those behind it, in one word: a sum, 62 bits, and
/// whether it is of the tile alone or of all up to it. 0: nothing yet.
struct PublishedSum {
  static constexpr uint64_t Own = 1, Inclusive = 2, KindMask = 3;

  __device__ static void write(unsigned long long &to, uint64_t sum,
                               uint64_t kind) {
    *const_cast<volatile unsigned long long *>(&to) = sum << 2 | kind;
  }
  /// Reads past the L1 cache until there is something.
  __device__ static uint64_t wait(const unsigned long long &from) {
    uint64_t word;
    do
      word = *const_cast<const volatile unsigned long long *>(&from);
    while (!word);
    return word;
  }
};

/// Publishes the number of `tile` and returns the sum of those before it:
/// decoupled look-back. Tiles are taken from a counter in ascending order, so
/// waiting ends. `tiles` is zeroed before the launch. Called by all lanes of
/// one warp.
__device__ inline uint64_t sumOfTilesBefore(unsigned long long *tiles,
                                            int64_t tile, uint64_t own) {
  uint32_t lane = laneOf();
  if (tile > 0 && lane == 0)
    PublishedSum::write(tiles[tile], own, PublishedSum::Own);
  uint64_t before = 0;
  for (int64_t end = tile; end > 0; end -= WarpThreads) {
    int64_t at = end - 1 - lane; // lane 0 has the nearest
    uint64_t word =
        at >= 0 ? PublishedSum::wait(tiles[at]) : PublishedSum::Inclusive;
    bool isInclusive = (word & PublishedSum::KindMask) != PublishedSum::Own;
    uint32_t inclusive = __ballot_sync(FullWarp, isInclusive);
    uint32_t nearest = inclusive ? __ffs(int(inclusive)) - 1 : WarpThreads;
    before += warpSum(lane <= nearest ? word >> 2 : 0);
    if (inclusive)
      break;
  }
  if (lane == 0)
    PublishedSum::write(tiles[tile], before + own, PublishedSum::Inclusive);
  return before;
}

/// Sets the ones of a value where other threads set theirs: in shared or in
/// global memory.
struct BlockSink {
  uint32_t *words;

  __device__ void operator()(uint32_t bit, uint64_t value,
                             uint32_t numBits) const {
    uint32_t shift = bit % 32, *word = words + bit / 32;
    atomicOr(word, uint32_t(value << shift));
    if (shift + numBits > 32)
      atomicOr(word + 1, uint32_t(value >> (32 - shift)));
    if (shift + numBits > 64)
      atomicOr(word + 2, uint32_t(value >> (64 - shift)));
  }
};

/// The next tile of a counter, the same for all threads of the block. `taken`
/// is shared.
__device__ inline int64_t nextTileOf(unsigned long long *counter,
                                     int64_t &taken) {
  __syncthreads(); // all have done with the one before
  if (threadIdx.x == 0)
    taken = int64_t(atomicAdd(counter, 1ull));
  __syncthreads();
  return taken;
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_CODERBLOCK_CUH
