//===- TestPlan.h - Small plans built in memory -----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Plans for tests: matrices that each side cuts its own way, from which boxes
/// and images follow by intersecting shards. The values of a matrix encode
/// their coordinates, so a wrong element tells where it came from.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_RUNTIME_TESTPLAN_H
#define DELTA_TEST_UNIT_RUNTIME_TESTPLAN_H

#include "runtime/Side.h"

#include <deque>
#include <string>
#include <vector>

namespace delta::test {

struct Geometry {
  uint32_t tp = 1, cp = 1, dp = 1, ep = 1, etp = 1, pp = 1, vpp = 1;
  uint32_t replicas = 1;
};

/// How one side holds a matrix: cut along `dim` in `ways` shards, after its
/// rows were padded to `paddedRows`.
struct Cut {
  delta_axis_t axis = DELTA_AXIS_NONE;
  uint32_t ways = 1;
  int dim = 0;
  int64_t paddedRows = 0; ///< 0: no padding
  bool stacked = false;   ///< experts lie in one parameter
  uint32_t stage = 0;     ///< of a matrix outside layers
  bool copy = false;      ///< and a copy of it on the last stage
};

struct Matrix {
  std::string name;
  int64_t rows = 1, columns = 1;
  delta_dtype_t dtype = DELTA_BF16;
  Cut source, destination;
  bool layered = false;
  bool expert = false;
  delta_value_op_t op = DELTA_VALUE_ID;
  bool transposed = false;  ///< the neutral tensor is [columns, rows]
  bool interleaved = false; ///< neutral row 2i + p is source row p*rows/2 + i
  int64_t tile = 64;        ///< elements of a tile at most
};

/// Tables and all that they point to.
class TestPlan {
public:
  TestPlan(Geometry source, Geometry destination, bool destinationIsHf,
           uint32_t numLayers, uint32_t numExperts,
           std::vector<Matrix> matrices);
  TestPlan(const TestPlan &) = delete;

  const delta_tables_t &getTables() const { return tables; }
  const Matrix &getMatrix(uint32_t classIndex, delta_side_id_t side) const {
    return matrices[matrixOf[side][classIndex]];
  }

  /// Bits of the element (row, column) of the matrix of (layer, expert).
  uint64_t value(const Matrix &matrix, uint32_t layer, uint32_t expert,
                 int64_t row, int64_t column) const;

  /// Place in its matrix of one element of a parameter; row >= rows: padding.
  struct Place {
    uint32_t expert;
    int64_t row, column;
  };
  /// (element, place) of all elements of a parameter of a rank, from the cuts
  /// of the matrices and not from boxes.
  std::vector<std::pair<int64_t, Place>>
  coordinates(delta_side_id_t side, uint32_t rank,
              const runtime::Param &param) const;

private:
  void fillSide(delta_side_t &side, const Geometry &geometry,
                delta_side_id_t id, uint32_t numLayers);
  void addClass(delta_side_id_t id, uint32_t matrix, bool isCopy);
  void addBoxes(uint32_t matrix, uint32_t way);
  void addImages(delta_box_t &box, uint32_t matrix, int64_t row, int64_t column,
                 int64_t numRows, int64_t numColumns);

  uint32_t numExperts;
  std::vector<Matrix> matrices;
  delta_tables_t tables = {};
  std::vector<uint32_t> matrixOf[3];
  std::vector<delta_class_t> classes[3];
  std::vector<delta_placement_t> layers[3];
  std::vector<delta_expert_t> experts[3];
  std::vector<const char *> names[3];
  std::deque<std::string> texts;
  std::vector<delta_layer_kind_t> kinds;
  std::vector<uint32_t> layerIds;
  std::vector<delta_box_t> boxes;
  std::vector<delta_image_t> images;
};

/// Sizes and place of one shard of a matrix.
struct ShardView {
  int64_t rows, columns;
  int64_t firstRow, firstColumn;
};
ShardView shardOf(const Matrix &matrix, const Cut &cut, uint32_t way);

/// A model with every kind of matrix: cut in rows and in columns, whole,
/// experts, padded, tied, shifted by one, interleaved, transposed, tiny.
std::vector<Matrix> mixedModel(const Geometry &source,
                               const Geometry &destination);

} // namespace delta::test

#endif // DELTA_TEST_UNIT_RUNTIME_TESTPLAN_H
