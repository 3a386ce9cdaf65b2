//===- Diff.cpp - The compare pass of a sender ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Diff.h"

#include "codegen/device/PackFormat.h"

#include <cstring>

using namespace delta::runtime;

/// Tiles that a thread takes at a time: 2 MiB of full tiles.
static constexpr int64_t TileGrain = 16;

Diff::Diff(const Shard &shard, Pool &pool)
    : shard(shard), pool(pool), changes(size_t(shard.getNumTiles())),
      isUnsure(size_t(shard.getNumTiles())), lists(pool.getNumThreads() + 1) {}

void Diff::setCapacity(uint64_t elements) {
  for (List &list : lists) {
    list.offsets.release();
    list.values.release();
    if (elements == 0 || &list == &lists.back())
      continue;
    list.offsets.grow(uint64_t(shard.getLargestTile()) * 2);
    list.values.grow(uint64_t(shard.getLargestTile()) *
                     shard.getLargestElement());
  }
  capacity = elements;
  lists.back().offsets.grow(elements * 2);
  lists.back().values.grow(elements * shard.getLargestElement());
}

uint32_t Diff::numSent(const TileChange &change, uint32_t numElements) {
  return device::isDense(change.count, numElements) ? numElements
                                                    : change.count;
}

/// Moves what a thread found to the shared list, if there is room. Its place
/// depends on the threads; what is packed from it does not.
void Diff::share(TileChange &change, uint32_t elementSize) {
  uint64_t at = numShared.fetch_add(change.count, std::memory_order_relaxed);
  if (at + change.count > capacity)
    return;
  List &to = lists.back();
  // A slot is as wide as the largest element, so values stay aligned.
  TileChange shared = {change.count, sharedList(), at * 2,
                       at * shard.getLargestElement()};
  memcpy(to.offsets.data() + shared.offsetsAt, offsetsOf(change),
         uint64_t(change.count) * 2);
  memcpy(to.values.data() + shared.valuesAt, valuesOf(change),
         uint64_t(change.count) * elementSize);
  change = shared;
}

uint32_t Diff::compareTile(const TileRef &tile, uint32_t thread) {
  TileChange &change = changes[size_t(tile.tile)];
  uint32_t numElements = tile.numElements();
  if (isUnsure[size_t(tile.tile)]) {
    change = {numElements, thread, 0, 0};
    return numElements;
  }
  List &list = lists[thread];
  const ShardRow &row = *tile.row;
  uint32_t size = tile.elementSize();
  // Values are aligned to 8, since types mix; room for a whole tile.
  uint64_t valuesAt = device::alignPart(list.valuesEnd);
  list.offsets.grow(list.offsetsEnd + uint64_t(numElements) * 2);
  list.values.grow(valuesAt + uint64_t(numElements) * size);
  uint32_t count = row.kernels->diff(row.box, tile.boxTile, row.source, row.op,
                                     shard.snapshotOf(tile),
                                     list.offsets.as<uint16_t>(list.offsetsEnd),
                                     list.values.as<uint8_t>(valuesAt));
  change = {count, thread, list.offsetsEnd, valuesAt};
  if (!count || device::isDense(count, numElements))
    return count;
  if (capacity) {
    share(change, size);
  } else {
    list.offsetsEnd += uint64_t(count) * 2;
    list.valuesEnd = valuesAt + uint64_t(count) * size;
  }
  return count;
}

void Diff::run(int64_t first, int64_t last) {
  for (List &list : lists)
    list.offsetsEnd = list.valuesEnd = 0;
  numChanged = 0;
  numShared = 0;
  pool.run(last - first, TileGrain,
           [this, first](int64_t begin, int64_t end, uint32_t thread) {
             uint64_t changed = 0;
             shard.forEachTile(first + begin, first + end,
                               [&](const TileRef &tile) {
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

uint64_t Diff::getListBytes() const {
  uint64_t total = 0;
  for (const List &list : lists)
    total += list.offsets.getCapacity() + list.values.getCapacity();
  return total;
}
