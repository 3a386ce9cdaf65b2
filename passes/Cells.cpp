//===- Cells.cpp - What the ways of a split hold alike --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Cells.h"

#include <algorithm>
#include <set>

using namespace delta;

/// Sections of a dimension are few; a piece of more runs is a cut of an inner
/// dimension, which ways never repeat in part.
static constexpr int64_t maxRuns = 64;

/// Appends the contiguous runs of a piece, or the piece if there are many.
static void appendRuns(const Piece &piece, std::vector<Piece> &out) {
  const std::vector<Loop> &loops = piece.loops;
  bool isDense = !loops.empty() && loops.back().source == 1 &&
                 loops.back().destination == 1;
  int64_t length = isDense ? loops.back().extent : 1;
  if (piece.size() / length > maxRuns) {
    out.push_back(piece);
    return;
  }
  std::vector<Piece> runs = {{piece.source, piece.destination, {}}};
  for (size_t i = 0; i + isDense < loops.size(); ++i) {
    std::vector<Piece> next;
    for (const Piece &run : runs)
      for (int64_t k = 0; k < loops[i].extent; ++k)
        next.push_back({run.source + k * loops[i].source,
                        run.destination + k * loops[i].destination,
                        {}});
    runs = std::move(next);
  }
  for (Piece &run : runs) {
    if (length > 1)
      run.loops.push_back({length, 1, 1});
    out.push_back(run);
  }
}

static bool isRun(const Piece &piece) {
  return piece.loops.empty() ||
         (piece.loops.size() == 1 && piece.loops[0].source == 1 &&
          piece.loops[0].destination == 1);
}

/// Appends the parts of a run between the given ends.
static void cutRun(const Piece &run, const std::set<int64_t> &ends,
                   std::vector<Piece> &out) {
  int64_t begin = run.destination, last = begin + run.size();
  int64_t shift = run.source - run.destination;
  for (auto end = ends.upper_bound(begin); begin < last; ++end) {
    Piece part{begin + shift, begin, {}};
    if (*end - begin > 1)
      part.loops.push_back({*end - begin, 1, 1});
    out.push_back(part);
    begin = *end;
  }
}

std::vector<Cell> delta::cellsOf(const ShardedMap &map) {
  if (map.ways.size() == 1) {
    std::vector<Cell> cells;
    for (const Piece &piece : map.ways[0].pieces)
      cells.push_back({piece, {{0, 1}}});
    return cells;
  }
  std::vector<std::vector<Piece>> pieces(map.ways.size());
  std::set<int64_t> ends;
  for (size_t way = 0; way < map.ways.size(); ++way) {
    for (const Piece &piece : map.ways[way].pieces)
      appendRuns(piece, pieces[way]);
    for (const Piece &piece : pieces[way])
      if (isRun(piece))
        ends.insert({piece.destination, piece.destination + piece.size()});
  }
  std::vector<Cell> cells;
  for (size_t way = 0; way < map.ways.size(); ++way) {
    std::vector<Piece> parts;
    for (const Piece &piece : pieces[way])
      if (isRun(piece))
        cutRun(piece, ends, parts);
      else
        parts.push_back(piece);
    for (const Piece &part : parts) {
      auto known =
          std::find_if(cells.begin(), cells.end(),
                       [&](const Cell &cell) { return cell.piece == part; });
      if (known == cells.end())
        known = cells.insert(cells.end(), {part, {}});
      if (!known->ways.empty() && known->ways.back().second == int64_t(way))
        ++known->ways.back().second;
      else
        known->ways.push_back({way, way + 1});
    }
  }
  return cells;
}
