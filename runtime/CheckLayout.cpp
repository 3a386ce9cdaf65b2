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

static ElementPair pairOf(const Piece &piece, uint32_t offset) {
  const LandingRow &row = *piece.tile->row;
  const uint32_t size = row.kernels->element_size;
  int64_t element = delta::device::elementAt(
      *row.box, delta::device::tileOf(*row.box, piece.tile->boxTile), offset,
      delta::device::Layout::image(*piece.image->image));
  return {piece.tile->values + uint64_t(offset) * size,
          piece.image->data + element * size, size};
}

/// Lists elements of one parameter: those at the ends of its first and its last
/// piece in memory, and some that `key` draws.
static void drawPairs(const Piece *begin, const Piece *end, uint64_t key,
                      std::vector<ElementPair> &out) {
  const Piece &last = end[-1];
  for (const Piece *piece : {begin, &last}) {
    out.push_back(pairOf(*piece, 0));
    out.push_back(pairOf(*piece, piece->tile->numElements - 1));
  }
  const uint64_t total = last.elementsBefore + last.tile->numElements;
  for (uint32_t i = 0; i < NumDrawn; ++i) {
    uint64_t element = delta::device::mix(key + i) % total;
    const Piece &piece = *std::prev(std::upper_bound(
        begin, end, element, [](uint64_t wanted, const Piece &other) {
          return wanted < other.elementsBefore;
        }));
    out.push_back(pairOf(piece, uint32_t(element - piece.elementsBefore)));
  }
}

/// All staged tiles in all their images, by parameter and place.
static std::vector<Piece> listPieces(const Landing &landing,
                                     const std::vector<StagedTile> &tiles) {
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
  return pieces;
}

Status Receiver::checkLayout(double share) {
  Status status = requireAll("check_layout");
  if (status.failed())
    return status;
  if (held.empty() || !staged.isSeed())
    return Status::error(DELTA_REFUSED,
                         "rank %u: check_layout: no full sync is staged",
                         landing.getRank());
  const std::vector<StagedTile> *tiles = nullptr;
  status = intake->listTiles(landing, tiles);
  if (status.failed())
    return failure("check_layout", status);
  std::vector<Piece> pieces = listPieces(landing, *tiles);
  std::vector<ElementPair> pairs;
  std::vector<std::pair<uint32_t, size_t>> params; ///< and end of their pairs
  for (size_t begin = 0, end; begin < pieces.size(); begin = end) {
    const uint32_t param = pieces[begin].param;
    uint64_t sum = 0;
    for (end = begin; end < pieces.size() && pieces[end].param == param;
         ++end) {
      pieces[end].elementsBefore = sum;
      sum += pieces[end].tile->numElements;
    }
    drawPairs(pieces.data() + begin, pieces.data() + end,
              delta::device::mix(run + staged.version) +
                  (uint64_t(param) << 32),
              pairs);
    params.emplace_back(param, pairs.size());
  }
  std::vector<uint8_t> differ;
  status = intake->compareElements(pairs, differ);
  if (status.failed())
    return failure("check_layout", status);
  size_t begin = 0;
  for (auto [param, end] : params) {
    auto count = std::count(differ.begin() + long(begin),
                            differ.begin() + long(end), uint8_t(1));
    if (double(count) > share * double(end - begin))
      return Status::error(
          DELTA_BIND_MISMATCH,
          "rank %u: \"%s\": check_layout: %zu of %zu elements are not those of "
          "the full sync: its layout is not the plan's, as when the engine "
          "shuffled it after loading, or it was loaded from another checkpoint",
          landing.getRank(), landing.paramName(param).c_str(), size_t(count),
          end - begin);
    begin = end;
  }
  return {};
}
