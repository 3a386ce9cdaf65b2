//===- CrossCheck.cpp - A plan's map against the interpreter --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Matches the parameters of all ranks, then walks the tiles of the map and
/// crosses off one element after the other.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/CrossCheck.h"

#include "tools/reference/Expectations.h"

#include <algorithm>

namespace delta::reference {
namespace {

constexpr uint64_t kReceived = kPadding - 1; ///< crossed off

/// One rank: expectations, what the plan calls them, and the state of their
/// elements.
struct Holder {
  std::string label; ///< "rank 3"
  const std::vector<Expected> *expected = nullptr;
  std::vector<size_t> ofParam; ///< expectation of the plan's parameter
  std::vector<bool> planCopies;
  std::vector<std::vector<uint64_t>> pending; ///< tag, kPadding or kReceived
};

class Checker {
public:
  Checker(const Expectations &expectations, MapSource &map, bool neutral);
  Report run();

private:
  bool matchParams(delta_side_id_t side, std::vector<Holder> &holders);
  bool matchRank(delta_side_id_t side, uint32_t rank, Holder &holder);
  bool matchParam(const Holder &holder, const Expected &expected,
                  const delta_param_info_t &info);
  bool matchCopy(delta_side_id_t side, const Holder &holder, size_t index,
                 bool planCopy);

  void walkRank(uint32_t rank);
  bool tagOf(uint32_t rank, const delta_tile_info_t &tile,
             const delta_place_t &place, uint64_t &tag);
  void receive(std::vector<Holder> &holders, const delta_place_t &place,
               uint64_t tag);
  void reportMissing(const std::vector<Holder> &holders, bool neutral);
  bool repeatsAnother(const Holder &holder, size_t param) const;

  void add(const Holder &holder, size_t expectation, int64_t element,
           std::string wanted, std::string found);

  const TagSpace &space;
  MapSource &map;
  const bool neutralDestination;
  std::vector<Holder> sources, neutrals, receivers;
  Report report;
};

Checker::Checker(const Expectations &expectations, MapSource &map, bool neutral)
    : space(expectations.space()), map(map), neutralDestination(neutral) {
  const auto addHolder = [](std::vector<Holder> &holders, std::string label,
                            const std::vector<Expected> &expected) {
    Holder &holder = holders.emplace_back();
    holder.label = std::move(label);
    holder.expected = &expected;
  };
  for (size_t r = 0; r < expectations.sources().size(); ++r)
    addHolder(sources, "rank " + std::to_string(r), expectations.sources()[r]);
  addHolder(neutrals, "tensor", expectations.neutral());
  for (size_t r = 0; r < expectations.receivers().size(); ++r)
    addHolder(receivers, "receiver " + std::to_string(r),
              expectations.receivers()[r]);
}

//===--- parameters -------------------------------------------------------===//

void Checker::add(const Holder &holder, size_t expectation, int64_t element,
                  std::string wanted, std::string found) {
  const Expected &expected = (*holder.expected)[expectation];
  std::optional<Shape> index;
  if (element >= 0)
    index = viewed(indexOf(expected.shape, element), expected.view);
  report.add({holder.label, expected.names.front(), std::move(index),
              std::move(wanted), std::move(found)});
}

bool Checker::matchParam(const Holder &holder, const Expected &expected,
                         const delta_param_info_t &info) {
  const auto differ = [&](std::string wanted, std::string found) {
    report.add({holder.label, expected.names.front(), std::nullopt,
                std::move(wanted), std::move(found)});
    return false;
  };
  const Shape shape = viewed(expected.shape, expected.view);
  if (info.rank > DELTA_MAX_RANK || shapeOf(info) != shape)
    return differ("shape " + toText(shape), "shape " + toText(shapeOf(info)));
  const Shape strides = viewed(stridesOf(expected.shape), expected.view);
  const Shape found(info.stride, info.stride + info.rank);
  if (found != strides)
    return differ("strides " + toText(strides), "strides " + toText(found));
  if (dtypeName(info.dtype) != expected.dtype)
    return differ("dtype " + expected.dtype, dtypeName(info.dtype));
  if (namesOf(info) != expected.names)
    return differ(std::to_string(expected.names.size()) + " names",
                  "other alternative names");
  if (info.num_elements != count(expected.shape))
    return differ(std::to_string(count(expected.shape)) + " elements",
                  std::to_string(info.num_elements));
  if (info.layer != uint32_t(expected.layer) ||
      info.expert != uint32_t(expected.expert))
    return differ("layer " + std::to_string(expected.layer) + ", expert " +
                      std::to_string(expected.expert),
                  "layer " + std::to_string(int32_t(info.layer)) + ", expert " +
                      std::to_string(int32_t(info.expert)));
  return true;
}

bool Checker::matchRank(delta_side_id_t side, uint32_t rank, Holder &holder) {
  std::map<std::pair<int64_t, std::string>, size_t> byName;
  for (size_t i = 0; i < holder.expected->size(); ++i)
    byName[{(*holder.expected)[i].chunk, (*holder.expected)[i].names.front()}] =
        i;
  bool good = true;
  const uint32_t numParams = map.numParams(side, rank);
  for (uint32_t p = 0; p < numParams; ++p) {
    delta_param_info_t info = {};
    if (!map.param(side, rank, p, info)) {
      report.add({holder.label, "", std::nullopt,
                  "parameter " + std::to_string(p), "an error of the plan"});
      return false;
    }
    const std::string name = namesOf(info).front();
    const auto found = byName.find({info.chunk, name});
    if (found == byName.end()) {
      report.add({holder.label, name, std::nullopt, "no such name",
                  "chunk " + std::to_string(info.chunk)});
      good = false;
      continue;
    }
    const size_t index = found->second;
    byName.erase(found);
    good &= matchParam(holder, (*holder.expected)[index], info);
    holder.ofParam.push_back(index);
    holder.planCopies.push_back(info.is_copy != 0);
    good &= matchCopy(side, holder, index, info.is_copy != 0);
  }
  for (const auto &[key, index] : byName) {
    add(holder, index, -1, "chunk " + std::to_string(key.first), "none");
    good = false;
  }
  report.tensors += int64_t(holder.expected->size());
  return good;
}

/// In the neutral layout a copy is a matter of the plan; see repeatsAnother.
bool Checker::matchCopy(delta_side_id_t side, const Holder &holder,
                        size_t index, bool planCopy) {
  const bool neutral =
      side == DELTA_HF || (side == DELTA_DESTINATION && neutralDestination);
  if (neutral || (*holder.expected)[index].isCopy == planCopy)
    return true;
  add(holder, index, -1, planCopy ? "values of its own" : "a copy",
      planCopy ? "a copy" : "values of its own");
  return false;
}

bool Checker::matchParams(delta_side_id_t side, std::vector<Holder> &holders) {
  if (map.numRanks(side) != holders.size()) {
    report.add({side == DELTA_SOURCE ? "source" : "destination", "",
                std::nullopt, std::to_string(holders.size()) + " ranks",
                std::to_string(map.numRanks(side))});
    return false;
  }
  bool good = true;
  for (uint32_t r = 0; r < holders.size(); ++r)
    good &= matchRank(side, r, holders[r]);
  for (Holder &holder : holders)
    for (const Expected &expected : *holder.expected)
      holder.pending.emplace_back(expected.tags->data.get(),
                                  expected.tags->data.get() +
                                      expected.tags->size());
  return good;
}

//===--- elements ---------------------------------------------------------===//

/// The tag at the source place of a tile's element.
bool Checker::tagOf(uint32_t rank, const delta_tile_info_t &tile,
                    const delta_place_t &place, uint64_t &tag) {
  const Holder &holder = sources[rank];
  const bool inRange = place.rank == rank && place.param == tile.param &&
                       place.param < holder.ofParam.size();
  const size_t index = inRange ? holder.ofParam[place.param] : 0;
  if (!inRange || place.element < 0 ||
      place.element >= count((*holder.expected)[index].shape)) {
    report.add({holder.label, "", std::nullopt,
                "tiles inside its own parameters",
                "element " + std::to_string(place.element) + " of parameter " +
                    std::to_string(place.param) + " of rank " +
                    std::to_string(place.rank)});
    return false;
  }
  if ((*holder.expected)[index].isCopy) {
    add(holder, index, place.element, "a copy, never sent", "a tile");
    return false;
  }
  tag = (*holder.expected)[index].tags->data[place.element];
  return true;
}

/// Crosses off one element of a receiver, or of the neutral layout.
void Checker::receive(std::vector<Holder> &holders, const delta_place_t &place,
                      uint64_t tag) {
  ++report.elements;
  if (place.rank >= holders.size() ||
      place.param >= holders[place.rank].ofParam.size())
    return report.add({"element " + space.describe(tag), "", std::nullopt,
                       "a destination",
                       "parameter " + std::to_string(place.param) +
                           " of rank " + std::to_string(place.rank)});
  Holder &holder = holders[place.rank];
  const size_t index = holder.ofParam[place.param];
  std::vector<uint64_t> &pending = holder.pending[index];
  if (place.element < 0 || place.element >= int64_t(pending.size()))
    return add(holder, index, -1,
               "elements below " + std::to_string(pending.size()),
               "element " + std::to_string(place.element));
  uint64_t &wanted = pending[size_t(place.element)];
  if (wanted == kReceived)
    return add(holder, index, place.element, "one value",
               "another one, from " + space.describe(tag));
  if (wanted != tag) {
    const bool padding = wanted == kPadding;
    add(holder, index, place.element,
        padding ? "nothing, for it is padding" : space.describe(wanted),
        space.describe(tag));
    // One fault, one mismatch: it is not reported as missing as well.
    if (!padding)
      wanted = kReceived;
    return;
  }
  wanted = kReceived;
  const delta_value_op_t op =
      (*(*holder.expected)[index].valueOps)[size_t(place.element)];
  if (op != place.value_op)
    add(holder, index, place.element, valueOpText(op),
        valueOpText(place.value_op));
}

void Checker::walkRank(uint32_t rank) {
  ElementPlaces places;
  const uint64_t numTiles = map.numTiles(rank);
  for (uint64_t t = 0; t < numTiles; ++t) {
    delta_tile_info_t tile = {};
    bool good = map.tile(rank, t, tile);
    for (uint32_t e = 0; good && e < tile.num_elements; ++e) {
      uint64_t tag = 0;
      good = map.element(rank, t, e, places);
      if (!good || !tagOf(rank, tile, places.source, tag))
        continue;
      receive(neutrals, places.hf, tag);
      for (const delta_place_t &place : places.destinations)
        receive(receivers, place, tag);
    }
    if (!good)
      report.add({sources[rank].label, "", std::nullopt,
                  "tile " + std::to_string(t), "an error of the plan"});
  }
}

/// Whether a neutral tensor has the tags of another one that is provided.
bool Checker::repeatsAnother(const Holder &holder, size_t param) const {
  const Array<uint64_t> &tags = *(*holder.expected)[holder.ofParam[param]].tags;
  for (size_t p = 0; p < holder.ofParam.size(); ++p) {
    const Array<uint64_t> &other = *(*holder.expected)[holder.ofParam[p]].tags;
    if (!holder.planCopies[p] && other.size() == tags.size() &&
        std::equal(tags.data.get(), tags.data.get() + tags.size(),
                   other.data.get()))
      return true;
  }
  return false;
}

void Checker::reportMissing(const std::vector<Holder> &holders, bool neutral) {
  for (const Holder &holder : holders)
    for (size_t p = 0; p < holder.ofParam.size(); ++p) {
      const size_t index = holder.ofParam[p];
      if (neutral && holder.planCopies[p]) {
        if (!repeatsAnother(holder, p))
          add(holder, index, -1, "values of its own", "a copy");
        continue;
      }
      if ((*holder.expected)[index].isUnheld)
        continue;
      const std::vector<uint64_t> &pending = holder.pending[index];
      for (size_t e = 0; e < pending.size(); ++e)
        if (pending[e] != kReceived && pending[e] != kPadding)
          add(holder, index, int64_t(e), space.describe(pending[e]), "nothing");
    }
}

Report Checker::run() {
  bool good = matchParams(DELTA_SOURCE, sources);
  good &= matchParams(DELTA_HF, neutrals);
  good &= matchParams(DELTA_DESTINATION, receivers);
  if (map.destinationIsHf() != neutralDestination) {
    report.add({"destination", "", std::nullopt, "the layout of the program",
                "another"});
    good = false;
  }
  if (!good)
    return report;
  for (uint32_t rank = 0; rank < sources.size(); ++rank)
    walkRank(rank);
  reportMissing(neutrals, /*neutral=*/true);
  reportMissing(receivers, /*neutral=*/false);
  return report;
}

} // namespace

std::optional<Report> crossCheck(const Program &program, MapSource &map,
                                 std::string &error) {
  Expectations expectations;
  if (!expectations.build(program, error))
    return std::nullopt;
  return Checker(expectations, map, !program.destination).run();
}

} // namespace delta::reference
