//===- Diff.h - The compare pass of a sender --------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One pass over all tiles of a shard: each is compared with its snapshot. What
/// changed in sparse tiles is listed until the packer knows where it goes; a
/// dense tile is read again then.
///
/// Without a capacity each thread keeps a list of its own, which grows. With
/// one, a thread compares into room for one tile and moves what it found to a
/// list that all share. Where that is full, changes are only counted: the tiles
/// are compared again, a range at a time.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DIFF_H
#define DELTA_RUNTIME_DIFF_H

#include "runtime/Pool.h"
#include "runtime/Shard.h"

#include <atomic>

namespace delta::runtime {

/// What the compare found in a tile. Places are bytes in a list.
struct TileChange {
  uint32_t count;
  uint32_t list;
  uint64_t offsetsAt;
  uint64_t valuesAt;
};

class Diff {
public:
  Diff(const Shard &shard, Pool &pool);

  /// Allocates lists of `elements` changes, which then never grow; 0: none.
  void setCapacity(uint64_t elements);

  /// Compares all tiles.
  void run() { run(0, shard.getNumTiles()); }
  /// Compares tiles [begin, end); what was found before is forgotten, but for
  /// the counts of other tiles.
  void run(int64_t begin, int64_t end);
  /// As if every element had changed.
  void markAll();
  /// The receivers may hold something else than the snapshot has: until
  /// `clearUnsure`, the tile counts as changed in all elements.
  void setUnsure(int64_t tile) { isUnsure[size_t(tile)] = 1; }
  bool isUnsureTile(int64_t tile) const { return isUnsure[size_t(tile)]; }
  void clearUnsure() { isUnsure.assign(isUnsure.size(), 0); }

  /// Changes that the last run or mark found.
  uint64_t getNumChanged() const { return numChanged; }
  /// Elements of a tile that are sent: all of a dense one.
  static uint32_t numSent(const TileChange &change, uint32_t numElements);
  const TileChange &operator[](int64_t tile) const { return changes[tile]; }
  const uint16_t *offsetsOf(const TileChange &change) const {
    return lists[change.list].offsets.as<uint16_t>(change.offsetsAt);
  }
  const uint8_t *valuesOf(const TileChange &change) const {
    return lists[change.list].values.as<uint8_t>(change.valuesAt);
  }
  /// Bytes of all lists.
  uint64_t getListBytes() const;

private:
  /// What one thread found; the last one is shared.
  struct List {
    Buffer offsets, values;
    uint64_t offsetsEnd = 0, valuesEnd = 0;
  };
  uint32_t sharedList() const { return uint32_t(lists.size() - 1); }
  uint32_t compareTile(const TileRef &tile, uint32_t thread);
  void share(TileChange &change, uint32_t elementSize);

  const Shard &shard;
  Pool &pool;
  std::vector<TileChange> changes;
  std::vector<uint8_t> isUnsure; ///< written by several threads
  std::vector<List> lists;
  uint64_t capacity = 0; ///< of the shared list, in elements
  std::atomic<uint64_t> numShared{0};
  std::atomic<uint64_t> numChanged{0};
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DIFF_H
