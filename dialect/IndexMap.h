//===- IndexMap.h - Piecewise strided index maps ----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The map algebra as a plain value type. A map sends elements of one
/// row-major array to elements of another; both are counted flat. It is a
/// finite union of strided boxes ("pieces"), one to one on each:
///
///     for i0 < e0, i1 < e1, ...:
///       destination[d + i0*d0 + i1*d1 + ...] = source[s + i0*s0 + i1*s1 + ...]
///
/// Row 5 of a [8, 4] array, every second element of it, to the start of a
/// [2] array: s = 20, d = 0, one loop {extent 2, source 2, destination 1}.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_DIALECT_INDEXMAP_H
#define DELTA_DIALECT_INDEXMAP_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace delta {

/// One loop of a piece: trip count and element strides on both sides.
struct Loop {
  int64_t extent;
  int64_t source;
  int64_t destination;
  bool operator==(const Loop &o) const {
    return extent == o.extent && source == o.source &&
           destination == o.destination;
  }
};

/// A strided box. Strides are positive. Loops are outermost first in the
/// order of falling source stride once normalized.
struct Piece {
  int64_t source = 0;
  int64_t destination = 0;
  std::vector<Loop> loops;

  int64_t size() const;
  /// Largest element touched on a side.
  int64_t lastSource() const;
  int64_t lastDestination() const;
  bool operator==(const Piece &o) const {
    return source == o.source && destination == o.destination &&
           loops == o.loops;
  }
};

/// A partial map from an array of `sourceSize` elements into one of
/// `destinationSize`.
class IndexMap {
public:
  int64_t sourceSize = 0;
  int64_t destinationSize = 0;
  std::vector<Piece> pieces;

  /// The map of `size` elements to themselves.
  static IndexMap identity(int64_t size);
  /// Row-major array of `shape` to the one whose dimension i is dimension
  /// permutation[i] of it.
  static IndexMap transpose(const std::vector<int64_t> &shape,
                            const std::vector<int64_t> &permutation);
  /// Moves rows [from, from + count) of dimension `dim` of an array `shape` to
  /// rows to, to + step, to + 2*step, ... of an array whose dimension `dim`
  /// has `rows` rows and which is otherwise the same.
  static IndexMap rows(const std::vector<int64_t> &shape, int64_t dim,
                       int64_t from, int64_t count, int64_t to, int64_t rows,
                       int64_t step = 1);

  /// The map in the other direction.
  IndexMap inverse() const;
  /// This map followed by `next`; nothing if the result would need more than
  /// `maxPieces` pieces. next.sourceSize must be destinationSize.
  std::optional<IndexMap> then(const IndexMap &next,
                               size_t maxPieces = 1 << 16) const;
  /// Joins another map between the same arrays.
  void unite(const IndexMap &other);
  /// Fewest loops, then fewest pieces, in the order of the source: neighbors
  /// become longer runs. Changes no element's image.
  void coalesce();

  /// Image of an element, or nothing. Linear in the number of pieces.
  std::optional<int64_t> image(int64_t source) const;
  /// Number of elements that the pieces move, counting overlaps twice.
  int64_t size() const;
  /// `{0 -> 512, 16 x (640, 512), 512 x (1, 1)}, ...`
  std::string str() const;

  bool operator==(const IndexMap &o) const {
    return sourceSize == o.sourceSize && destinationSize == o.destinationSize &&
           pieces == o.pieces;
  }
};

/// Number of elements of a shape.
int64_t numElements(const std::vector<int64_t> &shape);

/// Fewest loops of one piece, sorted by falling source stride.
void normalize(Piece &piece);

/// A box of a composition with its place in all three arrays: the first, the
/// one between, the last. Loops are by falling first stride, each as long as
/// all three strides allow.
struct Passage {
  struct Step {
    int64_t extent, first, between, last;
  };
  int64_t first = 0, between = 0, last = 0;
  std::vector<Step> loops;
};

/// Appends the boxes of `piece` followed by `next` to `out`; false if there
/// would be more than `maxBoxes`.
bool passages(const Piece &piece, const IndexMap &next,
              std::vector<Passage> &out, size_t maxBoxes = 1 << 16);

/// A piece for the ways [wayBegin, wayEnd): its offsets grow by sourceStep and
/// destinationStep from one way to the next.
struct WayPiece {
  int64_t wayBegin = 0;
  int64_t wayEnd = 1;
  int64_t sourceStep = 0;
  int64_t destinationStep = 0;
  Piece piece;
};

/// The maps of all ways of one split, each between arrays of the same sizes.
struct ShardedMap {
  std::vector<IndexMap> ways;

  int64_t sourceSize() const { return ways.empty() ? 0 : ways[0].sourceSize; }
  int64_t destinationSize() const {
    return ways.empty() ? 0 : ways[0].destinationSize;
  }
  /// Affine in the way where the cut is uniform, else a piece list per way.
  std::vector<WayPiece> compress() const;
  /// Inverse of compress.
  static ShardedMap expand(int64_t numWays, int64_t sourceSize,
                           int64_t destinationSize,
                           const std::vector<WayPiece> &pieces);
  bool operator==(const ShardedMap &o) const { return ways == o.ways; }
};

/// A set of elements of one array: a piece without its other side.
struct Box {
  int64_t offset = 0;
  std::vector<std::pair<int64_t, int64_t>> loops; ///< extent, stride

  static Box sourceOf(const Piece &piece);
  static Box destinationOf(const Piece &piece);
  int64_t last() const;
};

/// What the structure of two boxes says about their common elements.
enum class Overlap { None, Some, Unknown };

/// Compares boxes of nested strides digit by digit in their common radix. Sets
/// `common` to a shared element for Overlap::Some. Unknown where the strides
/// do not nest; a complete method must then decide.
Overlap overlap(const Box &a, const Box &b, int64_t &common);

/// True if no element of the box is counted twice, by nested strides; false
/// where that cannot be seen.
bool isInjective(const Box &box);

} // namespace delta

#endif // DELTA_DIALECT_INDEXMAP_H
