//===- Threads.cuh - The threads of a block ---------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What the device kernels share: how many threads a block has, barriers of
/// some of them, sums over them, and how a block takes its next piece of work.
/// Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_THREADS_CUH
#define DELTA_CODEGEN_DEVICE_THREADS_CUH

#include "codegen/device/IndexFunctions.h"

namespace delta::device {

/// Threads of a block, of all kernels but the diff.
constexpr uint32_t BlockThreads = 256;
constexpr uint32_t WarpThreads = 32;
constexpr uint32_t FullWarp = 0xffffffffu;

/// Of this thread: its number in its warp, and its warp's in the block.
__device__ inline uint32_t laneOf() { return threadIdx.x % WarpThreads; }
__device__ inline uint32_t warpOf() { return threadIdx.x / WarpThreads; }

/// The dynamic shared memory of the block.
__device__ inline uint4 *dynamicShared() {
#ifdef DELTA_DEVICE_TEXT
  return static_cast<uint4 *>(delta::simt::dynamicShared());
#else
  extern __shared__ uint4 deltaDynamicShared[];
  return deltaDynamicShared;
#endif
}
__device__ inline uint32_t dynamicSharedBytes() {
#ifdef DELTA_DEVICE_TEXT
  return delta::simt::dynamicSharedBytes();
#else
  uint32_t numBytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(numBytes));
  return numBytes;
#endif
}

/// The tickets of a block: the next is asked for while the one before it is
/// worked on.
struct TileTickets {
  uint64_t taken[2];

  __device__ void start(unsigned long long *counter) {
    if (threadIdx.x == 0)
      taken[0] = atomicAdd(counter, 1ull);
  }
  /// The number that was asked for before; asks for the next. `turn` counts
  /// calls.
  __device__ uint64_t take(unsigned long long *counter, uint32_t turn) {
    __syncthreads();
    if (threadIdx.x == 0)
      taken[(turn + 1) % 2] = atomicAdd(counter, 1ull);
    return taken[turn % 2];
  }
};

/// Runs whose begins a receiver keeps at a time, in 8 KiB of shared memory.
constexpr uint32_t MaxKeptRuns = 1024;

/// Element at which a run begins. Divides, so it is kept out of the loops that
/// call it.
DELTA_DEVICE_COLD int64_t beginOfRun(const delta_box_t &box,
                                     const Layout &layout, int64_t run) {
  return RunCursor(box, run).begin(layout);
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_THREADS_CUH
