//===- IndexMap.cpp - Piecewise strided index maps ------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/IndexMap.h"

#include <algorithm>
#include <cassert>

using namespace delta;

int64_t delta::numElements(const std::vector<int64_t> &shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

//===----------------------------------------------------------------------===//
// Piece
//===----------------------------------------------------------------------===//

int64_t Piece::size() const {
  int64_t n = 1;
  for (const Loop &loop : loops)
    n *= loop.extent;
  return n;
}
int64_t Piece::lastSource() const {
  int64_t last = source;
  for (const Loop &loop : loops)
    last += (loop.extent - 1) * loop.source;
  return last;
}
int64_t Piece::lastDestination() const {
  int64_t last = destination;
  for (const Loop &loop : loops)
    last += (loop.extent - 1) * loop.destination;
  return last;
}

void delta::normalize(Piece &piece) {
  std::vector<Loop> &loops = piece.loops;
  loops.erase(std::remove_if(loops.begin(), loops.end(),
                             [](const Loop &l) { return l.extent == 1; }),
              loops.end());
  std::sort(loops.begin(), loops.end(), [](const Loop &a, const Loop &b) {
    return a.source != b.source ? a.source > b.source
                                : a.destination > b.destination;
  });
  for (size_t i = 0; i + 1 < loops.size();) {
    Loop &outer = loops[i];
    const Loop &inner = loops[i + 1];
    if (outer.source == inner.extent * inner.source &&
        outer.destination == inner.extent * inner.destination) {
      outer = {outer.extent * inner.extent, inner.source, inner.destination};
      loops.erase(loops.begin() + i + 1);
      i = i ? i - 1 : 0;
    } else {
      ++i;
    }
  }
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

IndexMap IndexMap::identity(int64_t size) {
  Piece piece;
  piece.loops = {{size, 1, 1}};
  normalize(piece);
  return {size, size, {piece}};
}

IndexMap IndexMap::transpose(const std::vector<int64_t> &shape,
                             const std::vector<int64_t> &permutation) {
  size_t rank = shape.size();
  std::vector<int64_t> sourceStride(rank, 1);
  for (size_t i = rank; i-- > 1;)
    sourceStride[i - 1] = sourceStride[i] * shape[i];
  Piece piece;
  int64_t destinationStride = 1;
  for (size_t i = rank; i-- > 0;) {
    int64_t dim = permutation[i];
    piece.loops.push_back({shape[dim], sourceStride[dim], destinationStride});
    destinationStride *= shape[dim];
  }
  normalize(piece);
  return {numElements(shape), numElements(shape), {piece}};
}

IndexMap IndexMap::rows(const std::vector<int64_t> &shape, int64_t dim,
                        int64_t from, int64_t count, int64_t to, int64_t rows,
                        int64_t step) {
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < int64_t(shape.size()); ++i)
    (i < dim ? outer : inner) *= i == dim ? 1 : shape[i];
  IndexMap map{outer * shape[dim] * inner, outer * rows * inner, {}};
  if (count == 0 || outer == 0 || inner == 0)
    return map;
  Piece piece{from * inner,
              to * inner,
              {{outer, shape[dim] * inner, rows * inner},
               {count, inner, step * inner},
               {inner, 1, 1}}};
  normalize(piece);
  map.pieces.push_back(piece);
  return map;
}

IndexMap IndexMap::inverse() const {
  IndexMap result{destinationSize, sourceSize, pieces};
  for (Piece &piece : result.pieces) {
    std::swap(piece.source, piece.destination);
    for (Loop &loop : piece.loops)
      std::swap(loop.source, loop.destination);
    normalize(piece);
  }
  return result;
}

void IndexMap::unite(const IndexMap &other) {
  assert(other.sourceSize == sourceSize &&
         other.destinationSize == destinationSize && "maps of other arrays");
  pieces.insert(pieces.end(), other.pieces.begin(), other.pieces.end());
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

std::optional<int64_t> IndexMap::image(int64_t source) const {
  for (const Piece &piece : pieces) {
    int64_t rest = source - piece.source;
    int64_t result = piece.destination;
    if (rest < 0)
      continue;
    // Greedy digits: loops are sorted by falling, nested source strides.
    bool inside = true;
    for (const Loop &loop : piece.loops) {
      int64_t digit = std::min(rest / loop.source, loop.extent - 1);
      rest -= digit * loop.source;
      result += digit * loop.destination;
      inside = inside && rest >= 0;
    }
    if (inside && rest == 0)
      return result;
  }
  return std::nullopt;
}

int64_t IndexMap::size() const {
  int64_t n = 0;
  for (const Piece &piece : pieces)
    n += piece.size();
  return n;
}

static std::string str(const Piece &piece) {
  std::string out = "{" + std::to_string(piece.source) + " -> " +
                    std::to_string(piece.destination);
  for (const Loop &loop : piece.loops)
    out += ", " + std::to_string(loop.extent) + " x (" +
           std::to_string(loop.source) + ", " +
           std::to_string(loop.destination) + ")";
  return out + "}";
}

std::string IndexMap::str() const {
  std::string out;
  for (const Piece &piece : pieces)
    out += (out.empty() ? "" : ", ") + ::str(piece);
  return out;
}

//===----------------------------------------------------------------------===//
// ShardedMap
//===----------------------------------------------------------------------===//

std::vector<WayPiece> ShardedMap::compress() const {
  std::vector<WayPiece> out;
  // Pieces of one position in the lists of consecutive ways join when their
  // loops are equal and their offsets keep growing by the same steps.
  size_t longest = 0;
  for (const IndexMap &map : ways)
    longest = std::max(longest, map.pieces.size());
  for (size_t position = 0; position < longest; ++position) {
    std::optional<WayPiece> open;
    for (int64_t way = 0; way < int64_t(ways.size()); ++way) {
      const std::vector<Piece> &pieces = ways[way].pieces;
      if (position >= pieces.size()) {
        if (open)
          out.push_back(*open);
        open.reset();
        continue;
      }
      const Piece &piece = pieces[position];
      int64_t count = open ? way - open->wayBegin : 0;
      if (open && open->wayEnd == way && open->piece.loops == piece.loops) {
        int64_t source = piece.source - open->piece.source;
        int64_t destination = piece.destination - open->piece.destination;
        if (count == 1) {
          open->sourceStep = source;
          open->destinationStep = destination;
          open->wayEnd = way + 1;
          continue;
        }
        if (source == count * open->sourceStep &&
            destination == count * open->destinationStep) {
          open->wayEnd = way + 1;
          continue;
        }
      }
      if (open)
        out.push_back(*open);
      open = WayPiece{way, way + 1, 0, 0, piece};
    }
    if (open)
      out.push_back(*open);
  }
  std::sort(out.begin(), out.end(), [](const WayPiece &a, const WayPiece &b) {
    return a.wayBegin != b.wayBegin ? a.wayBegin < b.wayBegin
                                    : a.piece.source < b.piece.source;
  });
  return out;
}

ShardedMap ShardedMap::expand(int64_t numWays, int64_t sourceSize,
                              int64_t destinationSize,
                              const std::vector<WayPiece> &pieces) {
  ShardedMap map;
  map.ways.assign(numWays, IndexMap{sourceSize, destinationSize, {}});
  for (const WayPiece &wayPiece : pieces)
    for (int64_t way = wayPiece.wayBegin; way < wayPiece.wayEnd; ++way) {
      Piece piece = wayPiece.piece;
      piece.source += (way - wayPiece.wayBegin) * wayPiece.sourceStep;
      piece.destination += (way - wayPiece.wayBegin) * wayPiece.destinationStep;
      map.ways[way].pieces.push_back(std::move(piece));
    }
  for (IndexMap &way : map.ways)
    std::sort(way.pieces.begin(), way.pieces.end(),
              [](const Piece &a, const Piece &b) {
                return a.source != b.source ? a.source < b.source
                                            : a.destination < b.destination;
              });
  return map;
}
