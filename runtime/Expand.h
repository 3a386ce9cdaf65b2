//===- Expand.h - From tables to the rows of a source rank ------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A plan holds no data per tile. A source rank expands its boxes into rows,
/// one for each instance of a box, and the receivers expand the same rows for
/// every rank that sends to them. Rows are sorted by
///
///   (destination set, element size descending, class, box, layer, expert)
///
/// so that what goes to one set of ranks lies together, and a tile is found by
/// prefix sums.
///
/// Holders of the same shard share its tiles out, and take turns in who has the
/// first part: turn = box + layer + expert. With 3 tiles for 2 of them, each
/// has two of every other layer.
///
/// Worked rows. Box 4 has 3 tiles and is held whole by 2 replicas; rank 1 is
/// the second of them. In layer 7 it has part (1 + 4 + 7) mod 2 = 0:
///
///   class box layer  set     tiles   first tile
///   3     4   7      {0, 1}  [0, 1)  10
///   3     4   8      {0, 1}  [1, 3)  11
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_EXPAND_H
#define DELTA_RUNTIME_EXPAND_H

#include "runtime/Side.h"
#include "runtime/Status.h"

#include <map>

namespace delta::runtime {

/// One instance of a box on a source rank, and the part of its tiles that this
/// rank owns.
struct Row {
  uint32_t box;
  uint32_t layer;
  uint32_t expert;
  uint32_t param;       ///< position in the parameters of the rank
  uint32_t set;         ///< position in Expansion::sets
  int64_t expertOffset; ///< where the expert's slice begins in the parameter
  int64_t tileBegin;    ///< tiles [tileBegin, tileEnd) of the box
  int64_t tileEnd;
  int64_t firstTile; ///< tiles of the rows before this one

  int64_t numTiles() const { return tileEnd - tileBegin; }
};

/// All that a source rank sends.
struct Expansion {
  uint32_t rank = 0;
  std::vector<Param> params;
  /// Sets of destination ranks, ascending, in lexicographic order.
  std::vector<std::vector<uint32_t>> sets;
  std::vector<Row> rows;
  int64_t numTiles = 0;

  /// The row that holds a tile of this rank.
  const Row &rowOf(int64_t tile) const;
};

/// A place of a box's elements on one destination rank.
struct ImagePlace {
  uint32_t image;       ///< row of delta_tables.images
  uint32_t param;       ///< position in the parameters of the rank
  int64_t expertOffset; ///< where the expert's slice begins in the parameter
};

/// Expands ranks; keeps the destination sets that it has met. Borrows the
/// tables. Not for use by two threads at once.
class Expander {
public:
  /// `placement` is where an engine's experts are; null: as in the plan. With
  /// `previous`, rows go to places alone that did not hold the same in that
  /// placement: what a change of it asks for.
  explicit Expander(const delta_tables_t &tables,
                    std::shared_ptr<const Slots> placement = nullptr,
                    std::shared_ptr<const Slots> previous = nullptr);

  const delta_tables_t &getTables() const { return tables; }
  const Side &getSource() const { return source; }
  const Side &getDestination() const { return destination; }

  /// Type of the elements of a box on their way: that of their destinations,
  /// of which the box has some.
  delta_dtype_t sentType(const delta_box_t &box) const {
    return destination.getClass(tables.images[box.first_image].class_index)
        .dtype;
  }

  /// The boxes of one shard of a source class.
  std::pair<const delta_box_t *, const delta_box_t *>
  boxesOf(uint32_t classIndex, uint32_t way) const;
  /// Number of the ranks that hold the same shard of the class as `rank`, where
  /// its layers are.
  uint32_t numHolders(const delta_class_t &type, uint32_t rank) const;

  /// The rows of a source rank, the same on every machine.
  Expansion expand(uint32_t sourceRank);

  /// The images of a row that live on a destination rank with `params`.
  std::vector<ImagePlace> imagesOn(const Row &row, uint32_t destinationRank,
                                   const std::vector<Param> &params) const;

private:
  struct Share;
  Share shareOf(const delta_class_t &type, uint32_t rank) const;
  static int64_t shareOfTiles(int64_t numTiles, uint32_t part,
                              const Share &share);
  void addEps(const delta_class_t &type, uint32_t layer, uint32_t expert,
              std::vector<uint32_t> &eps) const;
  bool isNew(uint32_t layer, uint32_t slot, uint32_t expert) const;
  uint32_t setOf(uint32_t box, uint32_t layer, uint32_t expert);
  std::vector<uint32_t> ranksOf(const delta_box_t &box) const;
  void addRanks(const delta_image_t &image, uint32_t stage, const uint32_t *eps,
                uint32_t numEps, std::vector<uint32_t> &ranks) const;
  void addRows(Expansion &out, uint32_t classIndex);
  void sortRows(Expansion &out) const;

  const delta_tables_t &tables;
  Side source;
  Side destination;
  std::shared_ptr<const Slots> previous;
  /// (box; stage, number of eps and eps of each image) to a set.
  std::map<std::vector<uint32_t>, uint32_t> setOfKey;
  std::map<std::vector<uint32_t>, uint32_t> setOfRanks;
  std::vector<std::vector<uint32_t>> sets;
  std::vector<uint32_t> key, lastKey;
  uint32_t lastSet = 0;
};

/// Checks what expansion and kernels rely on: sizes, ranges, order, tile
/// sizes. A failure means that plan and run time do not fit each other.
Status checkTables(const delta_tables_t &tables);

} // namespace delta::runtime

#endif // DELTA_RUNTIME_EXPAND_H
