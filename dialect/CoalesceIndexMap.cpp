//===- CoalesceIndexMap.cpp - Fewest pieces of an index map --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/IndexMap.h"

#include <algorithm>

using namespace delta;

/// True if the loops nest on both sides, so that every element has one digit
/// string: what image() and the composer rely on.
static bool nests(const Piece &piece) {
  return isInjective(Box::sourceOf(piece)) &&
         isInjective(Box::destinationOf(piece));
}

/// Joins `b`, which follows `a` in the source, to it if together they are one
/// box: the same loops, one of which continues.
static bool join(Piece &a, const Piece &b) {
  int64_t source = b.source - a.source;
  int64_t destination = b.destination - a.destination;
  if (source <= 0 || destination <= 0)
    return false;
  if (a.loops == b.loops) {
    // A new loop of two iterations, or one more of a loop of its stride.
    Piece joined = a;
    joined.loops.push_back({2, source, destination});
    normalize(joined);
    if (joined.loops.size() > a.loops.size() || !nests(joined))
      return false;
    a = joined;
    return true;
  }
  // One loop differs in its extent only, and b starts where a's ends.
  if (a.loops.size() == b.loops.size()) {
    size_t differing = a.loops.size();
    for (size_t i = 0; i < a.loops.size(); ++i) {
      if (a.loops[i] == b.loops[i])
        continue;
      if (differing != a.loops.size() ||
          a.loops[i].source != b.loops[i].source ||
          a.loops[i].destination != b.loops[i].destination)
        return false;
      differing = i;
    }
    Piece joined = a;
    Loop &loop = joined.loops[differing];
    if (source != loop.extent * loop.source ||
        destination != loop.extent * loop.destination)
      return false;
    loop.extent += b.loops[differing].extent;
    normalize(joined);
    if (!nests(joined))
      return false;
    a = joined;
    return true;
  }
  // b is one more iteration of a loop of a, or a of b.
  const Piece &more = a.loops.size() > b.loops.size() ? a : b;
  const Piece &less = a.loops.size() > b.loops.size() ? b : a;
  if (more.loops.size() != less.loops.size() + 1)
    return false;
  for (size_t i = 0; i < more.loops.size(); ++i) {
    std::vector<Loop> rest = more.loops;
    Loop loop = rest[i];
    rest.erase(rest.begin() + i);
    if (rest != less.loops)
      continue;
    int64_t count = &more == &a ? loop.extent : 1;
    if (source != count * loop.source ||
        destination != count * loop.destination)
      continue;
    Piece joined = a;
    joined.loops = more.loops;
    joined.loops[i].extent += 1;
    normalize(joined);
    if (!nests(joined))
      continue;
    a = joined;
    return true;
  }
  return false;
}

/// Turns runs of equal pieces at a constant distance into a loop.
static void roll(std::vector<Piece> &pieces) {
  std::vector<Piece> out;
  for (size_t i = 0; i < pieces.size();) {
    size_t count = 1;
    int64_t source = 0, destination = 0;
    while (i + count < pieces.size()) {
      const Piece &last = pieces[i + count - 1];
      const Piece &next = pieces[i + count];
      int64_t ds = next.source - last.source;
      int64_t dd = next.destination - last.destination;
      if (next.loops != last.loops || ds <= 0 || dd <= 0 ||
          (count > 1 && (ds != source || dd != destination)))
        break;
      source = ds;
      destination = dd;
      ++count;
    }
    Piece piece = pieces[i];
    if (count > 1) {
      piece.loops.push_back({int64_t(count), source, destination});
      normalize(piece);
      if (!nests(piece)) {
        piece = pieces[i];
        count = 1;
      }
    }
    out.push_back(std::move(piece));
    i += count;
  }
  pieces = std::move(out);
}

void IndexMap::coalesce() {
  for (Piece &piece : pieces)
    normalize(piece);
  auto bySource = [](const Piece &a, const Piece &b) {
    return a.source != b.source ? a.source < b.source
                                : a.destination < b.destination;
  };
  size_t before;
  do {
    before = pieces.size();
    std::sort(pieces.begin(), pieces.end(), bySource);
    std::vector<Piece> out;
    for (Piece &piece : pieces)
      if (out.empty() || !join(out.back(), piece))
        out.push_back(std::move(piece));
    pieces = std::move(out);
    roll(pieces);
  } while (pieces.size() < before);
}
