//===- AdvanceKernel.cuh - The snapshot follows -----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Writes the packed values into the snapshot, in one launch, once the
/// receivers hold them: off the critical path, and cheaper than a compare that
/// writes back what it reads.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_ADVANCEKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_ADVANCEKERNEL_CUH

#include "codegen/device/SourceArguments.h"
#include "codegen/device/Threads.cuh"
#include "codegen/device/VectorMask.h"

namespace delta::device {

/// Offsets and values that a thread has in flight.
constexpr uint32_t AdvanceInFlight = 4;

/// A sparse tile: `count` values to the places that the offsets say.
template <typename Bits>
__device__ inline void
advanceSparse(const uint16_t *__restrict__ offsets,
              const Bits *__restrict__ values, Bits *__restrict__ snapshot,
              uint32_t count, uint32_t lane, uint32_t numLanes) {
  for (uint32_t base = 0; base < count; base += AdvanceInFlight * numLanes) {
    uint16_t offset[AdvanceInFlight];
    Bits value[AdvanceInFlight];
#pragma unroll
    for (uint32_t i = 0; i < AdvanceInFlight; ++i) {
      uint32_t at = base + i * numLanes + lane;
      if (at >= count)
        continue;
      offset[i] = offsets[at];
      value[i] = values[at];
    }
#pragma unroll
    for (uint32_t i = 0; i < AdvanceInFlight; ++i)
      if (base + i * numLanes + lane < count)
        snapshot[offset[i]] = value[i];
  }
}

/// A whole tile. With `asks`, returns whether the thread changed anything; else
/// the snapshot is not read, which may hold nothing yet.
template <typename Bits>
__device__ inline bool advanceWhole(const Bits *values, Bits *snapshot,
                                    uint32_t count, bool asks) {
  bool moved = false;
  uint32_t numVectors = 0;
  constexpr uint32_t Width = 16 / sizeof(Bits);
  if (reinterpret_cast<uintptr_t>(values) % 16 == 0)
    numVectors = count / Width;
  for (uint32_t i = threadIdx.x; i < numVectors; i += BlockThreads) {
    uint4 value = __ldcs(reinterpret_cast<const uint4 *>(values) + i);
    uint4 *to = reinterpret_cast<uint4 *>(snapshot) + i;
    if (asks && differing(*to, value) == 0)
      continue;
    moved = true;
    __stcs(to, value);
  }
  for (uint32_t i = numVectors * Width + threadIdx.x; i < count;
       i += BlockThreads) {
    moved |= asks && snapshot[i] != values[i];
    snapshot[i] = values[i];
  }
  return moved;
}

template <typename Bits>
__device__ inline void advanceTile(const AdvanceArguments &arguments,
                                   int64_t index, const SourceTile &tile,
                                   const TilePlace &place) {
  const Bits *values =
      reinterpret_cast<const Bits *>(arguments.values + place.valuesAt);
  Bits *snapshot = reinterpret_cast<Bits *>(tile.snapshot);
  bool moved = true;
  if (place.isDense)
    moved = advanceWhole(values, snapshot, tile.numElements,
                         arguments.moved != nullptr);
  else
    advanceSparse(arguments.offsets + place.offsetsAt, values, snapshot,
                  place.changed, threadIdx.x, BlockThreads);
  if (!arguments.moved)
    return;
  bool any = __syncthreads_or(moved);
  if (any && threadIdx.x == 0)
    arguments.moved[index] = 1;
}

/// Body of the kernel: a block takes tiles from a counter. The tile after is
/// fetched while this one is written.
template <typename Elements>
__device__ inline void advanceTiles(const AdvanceArguments &arguments) {
  if (arguments.mayAdvance) {
    if (!*arguments.mayAdvance)
      return;
    if (blockIdx.x == 0 && threadIdx.x == 0)
      arguments.orders->mayAdvance = 0;
  }
  __shared__ TileTickets tickets;
  tickets.start(arguments.nextTile);
  for (uint32_t turn = 0;; ++turn) {
    const int64_t index =
        arguments.tileBegin + int64_t(tickets.take(arguments.nextTile, turn));
    if (index >= arguments.tileEnd)
      return;
    const TilePlace place = arguments.places[index];
    if (!place.changed)
      continue;
    const SourceTile tile = arguments.tiles[index];
    if constexpr (Elements::hasSize(2))
      if (tile.elementSize == 2)
        advanceTile<uint16_t>(arguments, index, tile, place);
    if constexpr (Elements::hasSize(4))
      if (tile.elementSize == 4)
        advanceTile<uint32_t>(arguments, index, tile, place);
    if constexpr (Elements::hasSize(8))
      if (tile.elementSize == 8)
        advanceTile<uint64_t>(arguments, index, tile, place);
  }
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_ADVANCEKERNEL_CUH
