//===- Diff.h - The compare pass of a sender --------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One pass over all tiles of a shard: each is compared with its snapshot. What
/// changed in sparse tiles is kept by the thread that found it, until the
/// packer knows where it goes; a dense tile is read again then.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DIFF_H
#define DELTA_RUNTIME_DIFF_H

#include "runtime/Pool.h"
#include "runtime/Shard.h"

#include <atomic>

namespace delta::runtime {

/// What the compare found in a tile. Places are bytes in the lists of the
/// thread.
struct TileChange {
  uint32_t count;
  uint32_t thread;
  uint64_t offsetsAt;
  uint64_t valuesAt;
};

class Diff {
public:
  Diff(const Shard &shard, Pool &pool);

  /// Compares all tiles.
  void run();
  /// As if every element had changed.
  void markAll();
  /// Gives back the memory of the lists.
  void release();

  uint64_t getNumChanged() const { return numChanged; }
  const TileChange &operator[](int64_t tile) const { return changes[tile]; }
  const uint16_t *offsetsOf(const TileChange &change) const {
    return lists[change.thread].offsets.as<uint16_t>(change.offsetsAt);
  }
  const uint8_t *valuesOf(const TileChange &change) const {
    return lists[change.thread].values.as<uint8_t>(change.valuesAt);
  }

private:
  /// What one thread found.
  struct List {
    Buffer offsets, values;
    uint64_t offsetsEnd = 0, valuesEnd = 0;
  };
  uint32_t compareTile(const TileRef &tile, uint32_t thread);

  const Shard &shard;
  Pool &pool;
  std::vector<TileChange> changes;
  std::vector<List> lists;
  std::atomic<uint64_t> numChanged{0};
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DIFF_H
