//===- BlockSums.cuh - Sums over the threads of a block ---------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Sums and prefix sums over the threads of a block, and the search of a piece
/// of work among prefix sums. Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_BLOCKSUMS_CUH
#define DELTA_CODEGEN_DEVICE_BLOCKSUMS_CUH

#include "codegen/device/Threads.cuh"

namespace delta::device {

constexpr uint32_t WarpsOfBlock = BlockThreads / WarpThreads;

/// All 32 lanes get the sum.
template <typename T> __device__ inline T warpSum(T value) {
  for (uint32_t step = WarpThreads / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(FullWarp, value, step);
  return value;
}

/// The sum over this lane and those before it. All 32 lanes call it.
template <typename T> __device__ inline T warpInclusive(T value) {
  for (uint32_t step = 1; step < WarpThreads; step *= 2) {
    T other = __shfl_up_sync(FullWarp, value, step);
    value += laneOf() >= step ? other : 0;
  }
  return value;
}

/// The sum over the threads of the block before this one, and that of all. All
/// threads call it; `warps` has WarpsOfBlock numbers in shared memory, which
/// may be written again when it returns.
template <typename T>
__device__ inline T blockBefore(T *warps, T value, T &outTotal) {
  uint32_t warp = warpOf();
  T inclusive = warpInclusive(value);
  if (laneOf() == WarpThreads - 1)
    warps[warp] = inclusive;
  __syncthreads();
  T before = 0, total = 0;
  for (uint32_t i = 0; i < WarpsOfBlock; ++i) {
    before += i < warp ? warps[i] : 0;
    total += warps[i];
  }
  __syncthreads();
  outTotal = total;
  return before + inclusive - value;
}

/// Sums of up to Count values at once; the storage is shared memory.
template <uint32_t Count> struct BlockSums {
  uint64_t warps[Count][WarpsOfBlock];

  /// All threads of the block call it, and get the sums in `values`.
  __device__ void add(uint64_t (&values)[Count]) {
    uint32_t warp = warpOf();
    __syncthreads(); // those before are read
#pragma unroll
    for (uint32_t i = 0; i < Count; ++i) {
      uint64_t sum = warpSum(values[i]);
      if (laneOf() == 0)
        warps[i][warp] = sum;
    }
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < Count; ++i) {
      values[i] = 0;
      for (uint32_t j = 0; j < WarpsOfBlock; ++j)
        values[i] += warps[i][j];
    }
  }
};

/// Room for the prefix sums of a block, in shared memory.
struct BlockScan {
  uint64_t warps[WarpsOfBlock];

  /// The sum of the threads before this one. All threads call it.
  __device__ uint64_t before(uint64_t value, uint64_t &outTotal) {
    return blockBefore(warps, value, outTotal);
  }
};

/// The last of `count` entries whose `begin` is at most `at`, found by a warp
/// in steps of 32 entries; all 32 lanes call it and get the same. The first
/// entry begins at 0.
template <typename Entry>
__device__ inline uint64_t findLast(const Entry *entries, uint64_t count,
                                    uint64_t Entry::*begin, uint64_t at) {
  uint32_t lane = laneOf();
  uint64_t first = 0;
  while (count > 1) {
    uint64_t stride = (count + WarpThreads - 1) / WarpThreads;
    uint64_t probe = lane * stride;
    bool starts = probe < count && entries[first + probe].*begin <= at;
    // Lanes ascend, so those that begin at or before `at` come first.
    uint32_t last = uint32_t(__popc(__ballot_sync(FullWarp, starts))) - 1;
    first += last * stride;
    uint64_t left = count - last * stride;
    count = left < stride ? left : stride;
  }
  return first;
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_BLOCKSUMS_CUH
