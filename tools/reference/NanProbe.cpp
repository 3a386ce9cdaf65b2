//===- NanProbe.cpp - A plan against the run-time probe -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/reference/NanProbe.h"

#include "tools/reference/Expectations.h"
#include "tools/reference/Pull.h"

#include <map>

namespace delta::reference {

namespace {

constexpr uint32_t kNan = 0x7fc00000;

bool isNan(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }

/// (tensor, element) -> value.
using Found = std::map<std::pair<std::string, int64_t>, uint32_t>;

std::string receiverName(uint64_t rank, const std::string &name) {
  return "receiver " + std::to_string(rank) + " " + name;
}

/// A tensor that an engine does not hold need not be sent.
void dropUnheld(const Side &engine, Found &found) {
  for (auto it = found.begin(); it != found.end();)
    it = isUnheld(engine, it->first.first) ? found.erase(it) : std::next(it);
}

/// An engine's loader on what the converter found: each value goes where its
/// element of the tensor lies. Forms are no matter of places and left out.
bool load(const Program &program, Found &found, std::string &error) {
  std::optional<Interpreter> engine =
      Interpreter::create(*program.destination, error);
  TaggedSide tagged;
  if (!engine || !tagged.build(*engine, error))
    return false;
  std::map<uint64_t, uint32_t> valueOf;
  for (size_t i = 0; i < tagged.tensors().size(); ++i) {
    const Array<uint64_t> &tags = tagged.tensorTags()[i];
    for (int64_t e = 0; e < tags.size(); ++e)
      if (auto it = found.find({tagged.tensors()[i].name, e});
          it != found.end())
        valueOf[tags.data[e]] = it->second;
  }
  const uint64_t perReplica = tagged.ranks().size();
  for (uint64_t r = 0; r < perReplica * uint64_t(program.replicas); ++r) {
    const TaggedSide::Rank &rank = tagged.ranks()[r % perReplica];
    for (size_t p = 0; p < rank.params.size(); ++p)
      for (int64_t e = 0; e < rank.tags[p].size(); ++e)
        if (auto it = valueOf.find(rank.tags[p].data[e]); it != valueOf.end())
          found[{receiverName(r, rank.params[p].names.front()), e}] =
              it->second;
  }
  return true;
}

/// The converter on NaN-filled buffers, one group of parameters at a time.
Found probe(const Interpreter &interpreter, const ChangedTo &changedTo) {
  Found found;
  const Side &side = interpreter.side();
  for (const Group &group : interpreter.groups())
    for (int64_t layer : group.domain.layers)
      for (int64_t expert : interpreter.expertsOf(group.domain)) {
        std::vector<Array<uint32_t>> whole;
        for (int64_t param : group.params) {
          whole.emplace_back(side.params[size_t(param)].shape);
          Array<uint32_t> &array = whole.back();
          for (int64_t e = 0; e < array.size(); ++e)
            array.data[e] = changedTo(param, layer, expert, e).value_or(kNan);
        }
        std::vector<Array<uint32_t>> out =
            interpreter.run(group, std::move(whole), /*addScalars=*/false);
        for (size_t i = 0; i < out.size(); ++i) {
          int64_t t = group.tensors[i];
          bool stack = side.tensors[size_t(t)].stack;
          int64_t begin = stack ? expert * out[i].size() : 0;
          std::string name =
              interpreter.tensorName(t, layer, stack ? kNone : expert);
          for (int64_t e = 0; e < out[i].size(); ++e)
            if (!isNan(out[i].data[e]))
              found[{name, begin + e}] = out[i].data[e];
        }
      }
  return found;
}

/// What the plan makes of the same changes.
class Prediction {
public:
  Prediction(const Interpreter &interpreter, MapSource &map, bool isEngine)
      : interpreter(interpreter), puller(interpreter.side()), map(map),
        isEngine(isEngine) {}

  bool run(const ChangedTo &changedTo, Found &out) {
    for (uint32_t rank = 0; rank < map.numRanks(DELTA_SOURCE); ++rank) {
      std::map<std::string, LocalParam> held;
      for (LocalParam &param : interpreter.paramsOf(rank))
        held.emplace(std::to_string(param.chunk) + ":" + param.names[0],
                     std::move(param));
      for (uint64_t t = 0; t < map.numTiles(rank); ++t) {
        delta_tile_info_t tile = {};
        ElementPlaces places;
        if (!map.tile(rank, t, tile))
          return false;
        for (uint32_t e = 0; e < tile.num_elements; ++e)
          if (!map.element(rank, t, e, places) ||
              !add(places, held, changedTo, out))
            return false;
      }
    }
    return true;
  }

private:
  bool add(const ElementPlaces &places,
           const std::map<std::string, LocalParam> &held,
           const ChangedTo &changedTo, Found &out) {
    delta_param_info_t info = {}, tensor = {};
    if (!map.param(DELTA_SOURCE, places.source.rank, places.source.param,
                   info) ||
        !map.param(DELTA_HF, 0, places.hf.param, tensor))
      return false;
    auto it =
        held.find(std::to_string(info.chunk) + ":" + namesOf(info).front());
    if (it == held.end())
      return false;
    const LocalParam &param = it->second;
    std::optional<uint32_t> value =
        changedTo(param.param, param.layer, param.expert,
                  puller.unsharded(param.param, param.pieces.front().way,
                                   places.source.element));
    if (!value)
      return true;
    // The probe knows tensors only, a value at all its names, and an engine's
    // parameters, into which they are loaded.
    for (const delta_place_t &place : places.destinations) {
      delta_param_info_t other = {};
      const bool whole = map.destinationIsHf();
      if (!whole && !isEngine)
        break;
      if (!map.param(whole ? DELTA_HF : DELTA_DESTINATION,
                     whole ? 0 : place.rank, place.param, other))
        return false;
      const std::string name = namesOf(other).front();
      out[{whole ? name : receiverName(place.rank, name), place.element}] =
          *value;
    }
    out[{namesOf(tensor).front(), places.hf.element}] = *value;
    return true;
  }

  const Interpreter &interpreter;
  Puller puller;
  MapSource &map;
  const bool isEngine;
};

} // namespace

ChangedTo someElements() {
  return [](int64_t param, int64_t layer, int64_t expert,
            int64_t element) -> std::optional<uint32_t> {
    uint64_t mixed = uint64_t(param * 1009 + layer * 131 + expert * 31 + 7) *
                         0x9e3779b97f4a7c15 +
                     uint64_t(element);
    if (mixed % 17)
      return std::nullopt;
    // Positive floats below infinity: no two elements of one tensor alike.
    return uint32_t(element % 0x3fffffff) + 0x01000000;
  };
}

std::optional<Report> nanProbe(const Program &program, MapSource &map,
                               const ChangedTo &changedTo, std::string &error) {
  std::optional<Interpreter> interpreter =
      Interpreter::create(program.source, error);
  if (!interpreter)
    return std::nullopt;
  Report report;
  Found seen = probe(*interpreter, changedTo), said;
  const bool isEngine =
      program.destination && !program.destination->engine.empty();
  if (isEngine && !load(program, seen, error))
    return std::nullopt;
  if (!Prediction(*interpreter, map, isEngine).run(changedTo, said)) {
    report.add({"", "", std::nullopt, "a plan of this program", "another"});
    return report;
  }
  if (isEngine) {
    dropUnheld(*program.destination, seen);
    dropUnheld(*program.destination, said);
  }
  // A NaN that the plan moves leaves no trace with the probe.
  for (auto it = said.begin(); it != said.end();)
    it = isNan(it->second) ? said.erase(it) : std::next(it);
  report.elements = int64_t(seen.size());
  auto shown = [](uint32_t bits) { return std::to_string(bits); };
  for (auto &[place, value] : seen) {
    auto it = said.find(place);
    if (it == said.end() || it->second != value)
      report.add({"", place.first, std::vector<int64_t>{place.second},
                  "value " + shown(value),
                  it == said.end() ? "nothing" : "value " + shown(it->second)});
    if (it != said.end())
      said.erase(it);
  }
  for (auto &[place, value] : said)
    report.add({"", place.first, std::vector<int64_t>{place.second}, "nothing",
                "value " + shown(value)});
  return report;
}

} // namespace delta::reference
