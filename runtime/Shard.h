//===- Shard.h - The bound tiles of a source rank ---------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The rows of a source rank with the pointers and kernels that run them, and
/// the snapshot: the values that the receivers hold, of this rank's tiles only,
/// one after the other in tile order.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_SHARD_H
#define DELTA_RUNTIME_SHARD_H

#include "codegen/device/Kernels.h"
#include "runtime/Buffer.h"
#include "runtime/Expand.h"

namespace delta::runtime {

/// The kernels from a type at the source to one at the receiver; null if the
/// plan has none.
const delta_host_kernels_t *kernelsOf(const delta_kernels_t &kernels,
                                      delta_dtype_t from, delta_dtype_t to);

/// A row, bound.
struct ShardRow {
  const delta_box_t *box;
  const delta_host_kernels_t *kernels;
  const uint8_t *source; ///< element 0 of the parameter or the expert's slice
  delta_value_op_t op;
  int64_t elementsBefore; ///< in tiles of the box that others own
  uint64_t snapshotAt;    ///< bytes
  uint32_t kernelRow;     ///< delta_kernel_row

  /// The type is not the same at the receiver.
  bool isCast() const { return kernelRow > DELTA_INT64; }
};

/// One tile to work on.
struct TileRef {
  const ShardRow *row;
  int64_t tile;    ///< of the rank
  int64_t boxTile; ///< of the box

  uint32_t numElements() const;
  uint32_t elementSize() const { return row->kernels->element_size; }
};

class Shard {
public:
  /// Expands and binds `rank`. Borrows kernels and parameters, and the tables
  /// of the expander. Without `keepsSnapshot` somebody else has one.
  static Status create(Expander &expander, const delta_kernels_t &kernels,
                       uint32_t rank, const delta_param_t *params,
                       uint32_t numParams, Shard &out,
                       bool keepsSnapshot = true);

  /// The rows of another placement of the same plan, or of what it moves, with
  /// the data and the snapshot of `whole`, whose memory is borrowed.
  static Status createLike(const Shard &whole, Expander &expander,
                           const delta_kernels_t &kernels, Shard &out);
  /// Takes over the snapshot that this one has borrowed of `whole`.
  void adoptSnapshot(Shard &whole) noexcept {
    snapshot = std::move(whole.snapshot);
  }

  /// Takes the data of the same parameters from elsewhere, after the checks of
  /// a bind; leaves everything as it was when one fails.
  Status rebind(const delta_tables_t &tables, const delta_param_t *params,
                uint32_t numParams);
  /// Takes back what getData gave before.
  void rebind(const std::vector<void *> &before);

  const Expansion &getExpansion() const { return expansion; }
  const std::vector<ShardRow> &getRows() const { return rows; }
  /// Data of the rank's parameters, copies included.
  const std::vector<void *> &getData() const { return data; }
  int64_t getNumTiles() const { return expansion.numTiles; }
  uint64_t getNumElements() const { return numElements; }
  uint64_t getSnapshotBytes() const { return snapshotBytes; }
  /// Elements of the largest tile, and bytes of the largest element.
  uint32_t getLargestTile() const { return largestTile; }
  uint32_t getLargestElement() const { return largestElement; }

  /// The snapshot of a tile.
  uint8_t *snapshotOf(const TileRef &tile) const;

  /// For each row, that of `other` with the same box, layer and expert;
  /// `other` has it.
  std::vector<size_t> rowsIn(const Shard &other) const;

  /// Calls body(TileRef) for tiles [begin, end).
  template <typename Body>
  void forEachTile(int64_t begin, int64_t end, const Body &body) const;

private:
  Status layOut(Expander &expander, const delta_kernels_t &kernels,
                uint32_t rank);
  void place();

  Expansion expansion;
  std::vector<ShardRow> rows;
  std::vector<void *> data;
  Buffer snapshot; ///< empty where it is borrowed
  uint8_t *snapshotBegin = nullptr;
  uint64_t snapshotBytes = 0;
  uint64_t numElements = 0;
  uint32_t largestTile = 0;
  uint32_t largestElement = 0;
};

template <typename Body>
void Shard::forEachTile(int64_t begin, int64_t end, const Body &body) const {
  if (begin >= end)
    return;
  size_t index = size_t(&expansion.rowOf(begin) - expansion.rows.data());
  for (int64_t tile = begin; tile < end; ++index) {
    const Row &row = expansion.rows[index];
    int64_t rowEnd = row.firstTile + row.numTiles();
    for (; tile < end && tile < rowEnd; ++tile)
      body(TileRef{&rows[index], tile, row.tileBegin + tile - row.firstTile});
  }
}

} // namespace delta::runtime

#endif // DELTA_RUNTIME_SHARD_H
