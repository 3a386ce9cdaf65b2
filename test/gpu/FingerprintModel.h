//===- FingerprintModel.h - Tensors to be summed ----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Matrices of bf16 one behind the other, each one box, as plans cut them.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_GPU_FINGERPRINTMODEL_H
#define DELTA_TEST_GPU_FINGERPRINTMODEL_H

#include "codegen/device/IndexFunctions.h"
#include "runtime/Fingerprint.h"

#include <vector>

namespace delta::test {

/// How the data of a matrix lies.
enum class MatrixLayout {
  Rows,      ///< a run of the box is a row
  Flat,      ///< the box is one run, as neighboring rows are coalesced
  Transposed ///< the data holds the transposed tensor, a run is a column of it
};

struct FingerprintModel {
  struct Matrix {
    int64_t rows, columns; ///< of the data
    int64_t first;         ///< its first element
  };
  std::vector<Matrix> matrices;
  int64_t numElements = 0;
  std::vector<delta_box_t> boxes;
  std::vector<int64_t> strides;    ///< in the tensor, two a matrix
  std::vector<int64_t> numColumns; ///< of the tensor

  void add(int64_t rows, int64_t columns, MatrixLayout layout) {
    matrices.push_back({rows, columns, numElements});
    numElements += rows * columns;
    delta_box_t box = {};
    const bool isFlat = layout == MatrixLayout::Flat;
    box.num_loops = isFlat ? 1 : 2;
    box.extent[0] = isFlat ? rows * columns : rows;
    box.extent[1] = isFlat ? 0 : columns;
    box.source_stride[0] = isFlat ? 1 : columns;
    box.source_stride[1] = isFlat ? 0 : 1;
    box.tile_columns = uint32_t(isFlat ? DELTA_MAX_TILE : columns);
    box.tile_runs = isFlat ? 1 : uint32_t(DELTA_MAX_TILE / columns);
    const int64_t down = isFlat ? box.tile_columns : box.tile_runs;
    box.num_tiles = (box.extent[0] + down - 1) / down;
    boxes.push_back(box);
    const bool isTransposed = layout == MatrixLayout::Transposed;
    strides.push_back(isFlat || isTransposed ? 1 : columns);
    strides.push_back(isTransposed ? rows : 1);
    numColumns.push_back(isTransposed ? rows : columns);
  }

  /// A sum for each matrix; borrows the model.
  std::vector<runtime::FingerprintTerm>
  terms(const uint16_t *data, const delta_kernels_t &kernels) const {
    std::vector<runtime::FingerprintTerm> terms;
    for (size_t i = 0; i < matrices.size(); ++i)
      terms.push_back({&boxes[i],
                       &kernels.host[DELTA_BF16],
                       nullptr,
                       data + matrices[i].first,
                       DELTA_VALUE_ID,
                       0,
                       boxes[i].num_tiles,
                       {0, &strides[2 * i], numColumns[i], device::mix(i),
                        device::mix(i + 1000000)}});
    return terms;
  }

  /// The sum of matrix `index` by its definition, `data` being a copy of it.
  uint64_t sum(const std::vector<uint16_t> &data, size_t index,
               const delta_position_t &position) const {
    const Matrix &matrix = matrices[index];
    const bool isTransposed =
        position.stride[0] == 1 && position.stride[1] != 1;
    uint64_t sum = 0;
    for (int64_t row = 0; row < matrix.rows; ++row)
      for (int64_t column = 0; column < matrix.columns; ++column)
        sum += data[size_t(row * matrix.columns + column)] *
               device::weight(position.row_key, isTransposed ? column : row) *
               device::weight(position.column_key, isTransposed ? row : column);
    return sum;
  }
};

} // namespace delta::test

#endif // DELTA_TEST_GPU_FINGERPRINTMODEL_H
