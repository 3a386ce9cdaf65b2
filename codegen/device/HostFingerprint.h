//===- HostFingerprint.h - Position-bound sums of a tile --------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The sum of bits x a(row) x b(column) mod 2^64 over the elements of a tile.
/// Row and column are those of the neutral tensor. Along a run usually one of
/// them is fixed: then its weight is taken out of the sum, and the weights of
/// the other are formed once and used for all runs that start at the same
/// place, i.e. for all rows of a tile.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_HOSTFINGERPRINT_H
#define DELTA_CODEGEN_DEVICE_HOSTFINGERPRINT_H

#include "codegen/device/Kernels.h"
#include "codegen/device/ValueOps.h"

namespace delta::device {

template <typename Element> class TileFingerprint {
public:
  using Source = typename Element::Source;

  /// `layout` is where the data lies; `op` is applied to it.
  TileFingerprint(const delta_box_t &box, const Layout &layout,
                  delta_value_op_t op, const delta_position_t &position)
      : box(box), layout(layout), op(op), position(position),
        neutral{position.offset, position.stride},
        rowStep(neutral.step(box) / position.num_columns),
        columnStep(neutral.step(box) % position.num_columns) {}

  uint64_t sum(int64_t index, const Source *data) {
    Tile tile = tileOf(box, index);
    uint64_t total = 0;
    for (uint32_t at = 0; at < tile.numColumns; at += BlockSize) {
      uint32_t n = tile.numColumns - at;
      total += sumColumns(tile, tile.firstColumn + at, data,
                          n < BlockSize ? n : BlockSize);
    }
    return total;
  }

private:
  /// Columns of a tile that are summed before the next ones.
  static constexpr uint32_t BlockSize = 256;

  /// The sum of `n` columns from `firstColumn` over all runs of the tile.
  uint64_t sumColumns(const Tile &tile, int64_t firstColumn, const Source *data,
                      uint32_t n) {
    RunCursor cursor(box, tile.firstRun);
    uint64_t total = 0;
    for (uint32_t run = 0; run < tile.numRuns; ++run, cursor.next()) {
      int64_t place = cursor.begin(neutral) + firstColumn * neutral.step(box);
      int64_t begin = cursor.begin(layout) + firstColumn * layout.step(box);
      total += sumBlock(place / position.num_columns,
                        place % position.num_columns, data + begin, n);
    }
    return total;
  }

  uint64_t sumBlock(int64_t row, int64_t column, const Source *data,
                    uint32_t n) {
    int64_t lastColumn = column + int64_t(n - 1) * columnStep;
    if (rowStep == 0 && lastColumn < position.num_columns)
      return weight(position.row_key, row) *
             dot(columnWeights(column, n), data, n);
    if (columnStep == 0)
      return weight(position.column_key, column) *
             dot(rowWeights(row, n), data, n);
    return walk(row, column, data, n);
  }

  uint64_t walk(int64_t row, int64_t column, const Source *data, uint32_t n) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; ++i) {
      total += valueAt(data, i) * weight(position.row_key, row) *
               weight(position.column_key, column);
      row += rowStep;
      column += columnStep;
      if (column >= position.num_columns) {
        column -= position.num_columns;
        ++row;
      }
    }
    return total;
  }

  uint64_t valueAt(const Source *data, uint32_t i) const {
    return applyOp<Element>(data[i * layout.step(box)], op);
  }

  uint64_t dot(const uint64_t *weights, const Source *data, uint32_t n) const {
    uint64_t total = 0;
    if (isPlain<Element>(op) && layout.step(box) == 1) {
      for (uint32_t i = 0; i < n; ++i)
        total += weights[i] * data[i];
      return total;
    }
    for (uint32_t i = 0; i < n; ++i)
      total += weights[i] * valueAt(data, i);
    return total;
  }

  /// Weights of consecutive places of a run, formed again only when another
  /// place, size or key is asked for.
  struct Weights {
    uint64_t values[BlockSize];
    int64_t first = -1;
    uint32_t size = 0;

    const uint64_t *get(uint64_t key, int64_t newFirst, int64_t step,
                        uint32_t n) {
      if (newFirst == first && n <= size)
        return values;
      first = newFirst;
      size = n;
      for (uint32_t i = 0; i < n; ++i)
        values[i] = weight(key, first + i * step);
      return values;
    }
  };

  const uint64_t *columnWeights(int64_t first, uint32_t n) {
    return weights.get(position.column_key, first, columnStep, n);
  }
  const uint64_t *rowWeights(int64_t first, uint32_t n) {
    return weights.get(position.row_key, first, rowStep, n);
  }

  const delta_box_t &box;
  Layout layout;
  delta_value_op_t op;
  const delta_position_t &position;
  Layout neutral;
  int64_t rowStep, columnStep;
  Weights weights;
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_HOSTFINGERPRINT_H
