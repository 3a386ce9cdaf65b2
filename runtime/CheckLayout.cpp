//===- CheckLayout.cpp - Does an engine hold what the plan says? ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Some engines move the elements of a parameter after loading and keep its
/// shape. Before a first full sync is written, memory holds what the engine has
/// loaded, from the same checkpoint or from one that training has moved a
/// little: a few elements tell whether they lie where the plan puts them.
///
//===----------------------------------------------------------------------===//

#include "codegen/device/IndexFunctions.h"
#include "runtime/Receiver.h"

#include <algorithm>
#include <cstring>

using namespace delta::runtime;

/// Elements of a parameter that are drawn.
static constexpr uint32_t NumDrawn = 32;

namespace {

/// A staged tile in a parameter.
struct Piece {
  uint32_t param;
  int64_t begin; ///< where its first element lies
  const StagedTile *tile;
  const LandingImage *image;
  uint64_t elementsBefore; ///< in the pieces of the parameter before it
};

} // namespace

/// Whether the element that is staged is the one that memory holds.
static bool isEqual(const Piece &piece, uint32_t offset) {
  const LandingRow &row = *piece.tile->row;
  const uint32_t size = row.kernels->element_size;
  int64_t element = delta::device::elementAt(
      *row.box, delta::device::tileOf(*row.box, piece.tile->boxTile), offset,
      delta::device::Layout::image(*piece.image->image));
  return memcmp(piece.image->data + element * size,
                piece.tile->values + uint64_t(offset) * size, size) == 0;
}

/// Counts differences among the elements of one parameter: those at the ends of
/// its first and its last piece in memory, and some that `key` draws.
static uint32_t countDifferences(const Piece *begin, const Piece *end,
                                 uint64_t key, uint32_t &outCompared) {
  const Piece &last = end[-1];
  uint32_t differ = 0;
  auto compare = [&](const Piece &piece, uint32_t offset) {
    ++outCompared;
    differ += !isEqual(piece, offset);
  };
  for (const Piece *piece : {begin, &last}) {
    compare(*piece, 0);
    compare(*piece, piece->tile->numElements - 1);
  }
  const uint64_t total = last.elementsBefore + last.tile->numElements;
  for (uint32_t i = 0; i < NumDrawn; ++i) {
    uint64_t element = delta::device::mix(key + i) % total;
    const Piece &piece = *std::prev(std::upper_bound(
        begin, end, element, [](uint64_t wanted, const Piece &other) {
          return wanted < other.elementsBefore;
        }));
    compare(piece, uint32_t(element - piece.elementsBefore));
  }
  return differ;
}

Status Receiver::checkLayout(double share) {
  Status status = requireAll("check_layout");
  if (status.failed())
    return status;
  if (held.empty() || !staged.isSeed())
    return Status::error(DELTA_REFUSED,
                         "rank %u: check_layout: no full sync is staged",
                         landing.getRank());
  std::vector<Piece> pieces;
  for (const StagedTile &tile : tiles)
    for (size_t j = tile.row->firstImage; j < tile.row->endImage; ++j) {
      const LandingImage &image = landing.getImages()[j];
      int64_t first = delta::device::elementAt(
          *tile.row->box, delta::device::tileOf(*tile.row->box, tile.boxTile),
          0, delta::device::Layout::image(*image.image));
      pieces.push_back(
          {image.param, image.expertOffset + first, &tile, &image, 0});
    }
  std::sort(pieces.begin(), pieces.end(), [](const Piece &a, const Piece &b) {
    return std::make_pair(a.param, a.begin) < std::make_pair(b.param, b.begin);
  });
  for (size_t begin = 0, end; begin < pieces.size(); begin = end) {
    const uint32_t param = pieces[begin].param;
    uint64_t sum = 0;
    for (end = begin; end < pieces.size() && pieces[end].param == param;
         ++end) {
      pieces[end].elementsBefore = sum;
      sum += pieces[end].tile->numElements;
    }
    uint32_t compared = 0;
    uint32_t differ = countDifferences(
        pieces.data() + begin, pieces.data() + end,
        delta::device::mix(run + staged.version) + (uint64_t(param) << 32),
        compared);
    if (differ > share * compared)
      return Status::error(
          DELTA_BIND_MISMATCH,
          "rank %u: \"%s\": check_layout: %u of %u elements are not those of "
          "the full sync: its layout is not the plan's, as when the engine "
          "shuffled it after loading, or it was loaded from another checkpoint",
          landing.getRank(), landing.paramName(param).c_str(), differ,
          compared);
  }
  return {};
}
