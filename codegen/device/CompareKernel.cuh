//===- CompareKernel.cuh - What is staged against memory --------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The replay sweep: counts the elements of the staged tiles that are not in
/// memory as they were sent, and finds the first of them in the order of the
/// host: by staged tile, image and value. And the probe of a layout, which
/// compares single elements. Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_COMPAREKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_COMPAREKERNEL_CUH

#include "codegen/device/BlockSums.cuh"
#include "codegen/device/PlaceAccess.cuh"

namespace delta::device {

/// Compares the values of a tile with one image: returns the differences of
/// this thread, and keeps the first of all.
struct ElementComparer {
  unsigned long long *first; ///< of all blocks
  uint64_t number;           ///< of the tile and its image

  template <typename Bits, typename Access>
  __device__ uint32_t visit(const StagedTile &staged,
                            const Access &access) const {
    const Bits *values = reinterpret_cast<const Bits *>(staged.values);
    const uint16_t *offsets = staged.offsets;
    const uint32_t size = staged.count;
    uint32_t found = 0, own = ~0u;
#pragma unroll 2
    for (uint32_t i = threadIdx.x; i < size; i += BlockThreads) {
      uint32_t offset = offsets ? offsets[i] : i;
      bool differs = access.holds(offset) && *access.at(offset) != values[i];
      found += differs;
      own = differs && i < own ? i : own;
    }
    if (found)
      atomicMin(first, static_cast<unsigned long long>(number | own));
    return found;
  }
};

/// Body of the kernel.
template <typename Elements>
__device__ inline void compareTiles(const CompareArguments &arguments) {
  __shared__ PlaceStorage storage;
  __shared__ TileTickets tickets;
  unsigned long long *counter = &arguments.totals->nextTile;
  uint64_t count = 0;
  tickets.start(counter);
  for (uint32_t turn = 0;; ++turn) {
    uint64_t index = tickets.take(counter, turn);
    if (index >= arguments.numStaged)
      break;
    const StagedTile &staged = arguments.staged[index];
    uint64_t image = 0;
    for (uint32_t at = staged.tile;; ++image) {
      const DestinationTile &tile = arguments.tiles[at];
      const ElementComparer comparer = {&arguments.totals->firstDiffer,
                                        index << 32 | image << 16};
      count += visitElements(storage, staged, tile, comparer);
      if (!tile.next)
        break;
      at = tile.next;
    }
  }
  count = warpSum(count);
  if (laneOf() == 0 && count)
    atomicAdd(&arguments.totals->numDiffer,
              static_cast<unsigned long long>(count));
}

/// Body of the probe: a thread takes a pair.
template <typename Elements>
__device__ inline void probeElements(const ProbeArguments &arguments) {
  uint64_t numThreads = uint64_t(gridDim.x) * BlockThreads;
  for (uint64_t i = uint64_t(blockIdx.x) * BlockThreads + threadIdx.x;
       i < arguments.numPairs; i += numThreads) {
    const ProbePair pair = arguments.pairs[i];
    uint8_t differ = 0;
    for (uint32_t j = 0; j < arguments.sizes[i]; ++j)
      differ |= uint8_t(pair.staged[j] ^ pair.held[j]);
    arguments.differ[i] = differ != 0;
  }
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_COMPAREKERNEL_CUH
