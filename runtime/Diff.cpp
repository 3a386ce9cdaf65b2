//===- Diff.cpp - The compare pass of a sender ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Diff.h"

#include "codegen/device/PackFormat.h"

using namespace delta::runtime;

/// Tiles that a thread takes at a time: 2 MiB of full tiles.
static constexpr int64_t TileGrain = 16;

Diff::Diff(const Shard &shard, Pool &pool)
    : shard(shard), pool(pool), changes(size_t(shard.getNumTiles())),
      lists(pool.getNumThreads()) {}

uint32_t Diff::compareTile(const TileRef &tile, uint32_t thread) {
  List &list = lists[thread];
  const ShardRow &row = *tile.row;
  uint32_t size = tile.elementSize();
  uint32_t numElements = tile.numElements();
  // Values are aligned to 8, since types mix; room for a whole tile.
  uint64_t valuesAt = device::alignPart(list.valuesEnd);
  list.offsets.grow(list.offsetsEnd + uint64_t(numElements) * 2);
  list.values.grow(valuesAt + uint64_t(numElements) * size);
  uint32_t count = row.kernels->diff(row.box, tile.boxTile, row.source, row.op,
                                     shard.snapshotOf(tile),
                                     list.offsets.as<uint16_t>(list.offsetsEnd),
                                     list.values.as<uint8_t>(valuesAt));
  changes[size_t(tile.tile)] = {count, thread, list.offsetsEnd, valuesAt};
  if (count && !device::isDense(count, numElements)) {
    list.offsetsEnd += uint64_t(count) * 2;
    list.valuesEnd = valuesAt + uint64_t(count) * size;
  }
  return count;
}

void Diff::run() {
  for (List &list : lists)
    list.offsetsEnd = list.valuesEnd = 0;
  numChanged = 0;
  pool.run(shard.getNumTiles(), TileGrain,
           [this](int64_t begin, int64_t end, uint32_t thread) {
             uint64_t changed = 0;
             shard.forEachTile(begin, end, [&](const TileRef &tile) {
               changed += compareTile(tile, thread);
             });
             if (changed)
               numChanged += changed;
           });
}

void Diff::markAll() {
  shard.forEachTile(0, shard.getNumTiles(), [this](const TileRef &tile) {
    changes[size_t(tile.tile)] = {tile.numElements(), 0, 0, 0};
  });
  numChanged = shard.getNumElements();
}

void Diff::release() {
  for (List &list : lists) {
    list.offsets.release();
    list.values.release();
    list.offsetsEnd = list.valuesEnd = 0;
  }
}
