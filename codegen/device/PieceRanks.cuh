//===- PieceRanks.cuh - Where a worker's changes of a tile go ---*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_PIECERANKS_CUH
#define DELTA_CODEGEN_DEVICE_PIECERANKS_CUH

#include "codegen/device/BlockSums.cuh"
#include "codegen/device/DiffStorage.cuh"

namespace delta::device {

/// The changes of a warp's pieces of a tile: it has them in one list, one piece
/// behind the other; in the tile those of other warps lie in between.
struct PieceRanks {
  /// Changes of the tile before a piece.
  uint32_t before[Pieces::MaxOfWarp];
  /// Changes in the list before a piece; behind the last: all.
  uint32_t begin[Pieces::MaxOfWarp + 1];

  /// By a warp, when all workers have counted.
  __device__ static PieceRanks of(TileTurn turn) {
    static_assert(Pieces::MaxOfTile == WarpThreads, "one for each lane");
    const DiffStorage &storage = diffStorage();
    const uint16_t *counts = storage.counts[turn.slot];
    const uint32_t lane = laneOf();
    uint32_t own = 0;
    if (lane < storage.slots[turn.slot].pieces().count()) {
      own = counts[lane];
      if (lane >= NumWorkerWarps) // the same warp's before
        own -= counts[lane - NumWorkerWarps];
    }
    const uint32_t inclusive = warpInclusive(own);
    PieceRanks ranks;
    ranks.begin[0] = 0;
#pragma unroll
    for (uint32_t i = 0; i < Pieces::MaxOfWarp; ++i) {
      const int piece = int(i * NumWorkerWarps + warpOf());
      ranks.before[i] = __shfl_sync(FullWarp, inclusive - own, piece);
      ranks.begin[i + 1] = ranks.begin[i] + __shfl_sync(FullWarp, own, piece);
    }
    return ranks;
  }

  /// Changes in the list.
  __device__ uint32_t count() const { return begin[Pieces::MaxOfWarp]; }
  /// Changes of the tile before change `i` of the list.
  __device__ uint32_t of(uint32_t i) const {
    uint32_t rank = before[0] + i;
#pragma unroll
    for (uint32_t piece = 1; piece < Pieces::MaxOfWarp; ++piece)
      if (i >= begin[piece])
        rank = before[piece] + (i - begin[piece]);
    return rank;
  }
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_PIECERANKS_CUH
