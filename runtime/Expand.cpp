//===- Expand.cpp - From tables to the rows of a source rank --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Expand.h"

#include <algorithm>
#include <tuple>

using namespace delta::runtime;

/// Number of the ranks that hold the same shard, and which of them this is.
struct Expander::Share {
  uint32_t replica;
  uint32_t numReplicas;
};

const Row &Expansion::rowOf(int64_t tile) const {
  auto after = std::upper_bound(
      rows.begin(), rows.end(), tile,
      [](int64_t wanted, const Row &row) { return wanted < row.firstTile; });
  return *std::prev(after);
}

Expander::Expander(const delta_tables_t &tables,
                   std::shared_ptr<const Slots> placement,
                   std::shared_ptr<const Slots> previous)
    : tables(tables), source(tables, DELTA_SOURCE),
      destination(tables, DELTA_DESTINATION, std::move(placement)),
      previous(std::move(previous)) {}

/// Ranks of a stage that agree in the way, and in ep where there are experts,
/// hold the same shard of every layer.
Expander::Share Expander::shareOf(const delta_class_t &type,
                                  uint32_t rank) const {
  Coordinates mine = source.coordinates(rank);
  uint32_t way = source.wayOf(type, mine);
  uint32_t firstRank = mine.pp * source.getRanksPerStage();
  Share share = {0, 0};
  for (uint32_t i = 0; i < source.getRanksPerStage(); ++i) {
    Coordinates at = source.coordinates(firstRank + i);
    if (type.num_experts != 0 && at.ep != mine.ep)
      continue;
    if (source.wayOf(type, at) != way)
      continue;
    if (firstRank + i < rank)
      ++share.replica;
    ++share.numReplicas;
  }
  return share;
}

/// Whether the expert was not in the slot before.
bool Expander::isNew(uint32_t layer, uint32_t slot, uint32_t expert) const {
  return !previous || previous->expertIn(layer, slot) != expert;
}

/// The coordinates where an instance of a destination class lies; without
/// experts that is everywhere, and 0 stands for it.
void Expander::addEps(const delta_class_t &type, uint32_t layer,
                      uint32_t expert, std::vector<uint32_t> &eps) const {
  if (!destination.hasSlots(type)) {
    if (!previous)
      eps.push_back(type.num_experts == 0
                        ? 0
                        : destination.getTable().experts[expert].ep);
    return;
  }
  const Slots &slots = *destination.getSlots();
  const size_t begin = eps.size();
  slots.forEachSlotOf(layer, expert, [&](uint32_t slot) {
    // Slots ascend, and so do their coordinates.
    if (isNew(layer, slot, expert) &&
        (eps.size() == begin || eps.back() != slots.epOf(slot)))
      eps.push_back(slots.epOf(slot));
  });
}

void Expander::addRanks(const delta_image_t &image, uint32_t stage,
                        const uint32_t *eps, uint32_t numEps,
                        std::vector<uint32_t> &ranks) const {
  const delta_class_t &type = destination.getClass(image.class_index);
  uint32_t perStage = destination.getRanksPerStage();
  for (uint32_t i = 0; i < perStage; ++i) {
    uint32_t rank = stage * perStage + i;
    Coordinates at = destination.coordinates(rank);
    uint32_t way = destination.wayOf(type, at);
    if (way < image.way_begin || way >= image.way_end)
      continue;
    if (type.num_experts != 0 && !std::binary_search(eps, eps + numEps, at.ep))
      continue;
    for (uint32_t replica = 0; replica < destination.getNumReplicas();
         ++replica)
      ranks.push_back(replica * destination.getRanksPerReplica() + rank);
  }
}

/// The ranks that the current key stands for.
std::vector<uint32_t> Expander::ranksOf(const delta_box_t &box) const {
  std::vector<uint32_t> ranks;
  size_t at = 1;
  for (uint32_t i = 0; i < box.num_images; ++i) {
    uint32_t stage = key[at], numEps = key[at + 1];
    if (stage != DELTA_NONE && numEps != 0)
      addRanks(tables.images[box.first_image + i], stage, &key[at + 2], numEps,
               ranks);
    at += 2 + numEps;
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

/// The ranks that hold an instance of a box. They depend on the layer and the
/// expert only through the stage and the coordinates of each image, so few
/// different keys occur.
uint32_t Expander::setOf(uint32_t boxIndex, uint32_t layer, uint32_t expert) {
  const delta_box_t &box = tables.boxes[boxIndex];
  key.assign(1, boxIndex);
  for (uint32_t i = 0; i < box.num_images; ++i) {
    const delta_class_t &type =
        destination.getClass(tables.images[box.first_image + i].class_index);
    key.push_back(destination.stageOf(type, layer));
    const size_t count = key.size();
    key.push_back(0);
    addEps(type, layer, expert, key);
    key[count] = uint32_t(key.size() - count - 1);
  }
  if (key == lastKey)
    return lastSet;
  auto [entry, isNewKey] = setOfKey.try_emplace(key, 0);
  if (isNewKey) {
    std::vector<uint32_t> ranks = ranksOf(box);
    auto [known, added] = setOfRanks.try_emplace(ranks, uint32_t(sets.size()));
    if (added)
      sets.push_back(std::move(ranks));
    entry->second = known->second;
  }
  lastKey = key;
  lastSet = entry->second;
  return lastSet;
}

/// Where part number `part` of the tiles begins: numTiles * part / numReplicas,
/// without the product.
int64_t Expander::shareOfTiles(int64_t numTiles, uint32_t part,
                               const Share &share) {
  int64_t each = numTiles / share.numReplicas;
  int64_t rest = numTiles % share.numReplicas;
  return each * part + rest * part / share.numReplicas;
}

/// A number that differs for neighbors in each of the three, 0 for none.
static uint64_t turnOf(uint32_t box, uint32_t layer, uint32_t expert) {
  uint64_t turn = box;
  turn += layer == DELTA_NONE ? 0 : layer;
  return turn + (expert == DELTA_NONE ? 0 : expert);
}

std::pair<const delta_box_t *, const delta_box_t *>
Expander::boxesOf(uint32_t classIndex, uint32_t way) const {
  delta_box_t wanted = {};
  wanted.source_class = classIndex;
  wanted.source_way = way;
  return std::equal_range(tables.boxes, tables.boxes + tables.num_boxes, wanted,
                          [](const delta_box_t &a, const delta_box_t &b) {
                            return std::tie(a.source_class, a.source_way) <
                                   std::tie(b.source_class, b.source_way);
                          });
}

uint32_t Expander::numHolders(const delta_class_t &type, uint32_t rank) const {
  return shareOf(type, rank).numReplicas;
}

void Expander::addRows(Expansion &out, uint32_t classIndex) {
  const delta_class_t &type = source.getClass(classIndex);
  Coordinates at = source.coordinates(out.rank);
  auto [box, end] = boxesOf(classIndex, source.wayOf(type, at));
  if (box == end)
    return;
  Share share = shareOf(type, out.rank);
  std::vector<uint32_t> layers = source.layersOf(type, at.pp);
  std::vector<uint32_t> experts = source.expertsOf(type, at.ep);
  for (; box != end; ++box) {
    uint32_t boxIndex = uint32_t(box - tables.boxes);
    for (uint32_t layer : layers)
      for (uint32_t expert : experts) {
        auto part = uint32_t((share.replica + turnOf(boxIndex, layer, expert)) %
                             share.numReplicas);
        int64_t begin = shareOfTiles(box->num_tiles, part, share);
        int64_t finish = shareOfTiles(box->num_tiles, part + 1, share);
        if (begin == finish)
          continue;
        uint32_t set = setOf(boxIndex, layer, expert);
        if (sets[set].empty())
          continue;
        out.rows.push_back({boxIndex, layer, expert,
                            source.find(out.params, classIndex, layer, expert),
                            set, source.expertOffset(type, expert), begin,
                            finish,
                            /*firstTile=*/0});
      }
  }
}

/// Numbers the sets of this rank in their order, sorts, and sums tiles.
void Expander::sortRows(Expansion &out) const {
  for (const Row &row : out.rows)
    out.sets.push_back(sets[row.set]);
  std::sort(out.sets.begin(), out.sets.end());
  out.sets.erase(std::unique(out.sets.begin(), out.sets.end()), out.sets.end());
  std::vector<uint32_t> numberOf(sets.size(), DELTA_NONE);
  for (Row &row : out.rows) {
    uint32_t &number = numberOf[row.set];
    if (number == DELTA_NONE)
      number = uint32_t(
          std::lower_bound(out.sets.begin(), out.sets.end(), sets[row.set]) -
          out.sets.begin());
    row.set = number;
  }
  auto order = [&](const Row &row) {
    uint32_t size = elementSize(sentType(tables.boxes[row.box]));
    // Boxes are sorted by class, so the box says the class too.
    return std::make_tuple(row.set, 8 - size, row.box, row.layer, row.expert);
  };
  std::sort(out.rows.begin(), out.rows.end(),
            [&](const Row &a, const Row &b) { return order(a) < order(b); });
  for (Row &row : out.rows) {
    row.firstTile = out.numTiles;
    out.numTiles += row.numTiles();
  }
}

Expansion Expander::expand(uint32_t sourceRank) {
  Expansion out;
  out.rank = sourceRank;
  out.params = source.params(sourceRank);
  for (uint32_t i = 0; i < source.getTable().num_classes; ++i)
    if (source.getClass(i).copy_of == DELTA_NONE)
      addRows(out, i);
  sortRows(out);
  return out;
}

std::vector<ImagePlace>
Expander::imagesOn(const Row &row, uint32_t destinationRank,
                   const std::vector<Param> &params) const {
  const delta_box_t &box = tables.boxes[row.box];
  Coordinates at = destination.coordinates(destinationRank);
  std::vector<ImagePlace> places;
  for (uint32_t i = 0; i < box.num_images; ++i) {
    uint32_t index = box.first_image + i;
    const delta_image_t &image = tables.images[index];
    const delta_class_t &type = destination.getClass(image.class_index);
    uint32_t way = destination.wayOf(type, at);
    if (destination.stageOf(type, row.layer) != at.pp ||
        way < image.way_begin || way >= image.way_end)
      continue;
    uint32_t param =
        destination.find(params, image.class_index, row.layer, row.expert);
    if (destination.hasSlots(type)) {
      const Slots &slots = *destination.getSlots();
      slots.forEachSlotOf(row.layer, row.expert, [&](uint32_t slot) {
        if (slots.epOf(slot) == at.ep && isNew(row.layer, slot, row.expert))
          places.push_back(
              {index, param, destination.slotOffset(type, at.ep, slot)});
      });
      continue;
    }
    if (previous)
      continue; // does not move
    if (type.part_of != DELTA_NONE) {
      places.push_back({index, param, destination.partOffset(type, at.ep)});
      continue;
    }
    if (type.num_experts == 0 ||
        destination.getTable().experts[row.expert].ep == at.ep)
      places.push_back(
          {index, param, destination.expertOffset(type, row.expert)});
  }
  return places;
}
