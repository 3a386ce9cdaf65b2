//===- SampleCheck.cpp - A plan against the interpreter, by samples -------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/reference/SampleCheck.h"

#include "tools/reference/Interpreter.h"
#include "tools/reference/SampleSide.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <unordered_map>

namespace delta::reference {

namespace {

/// Instances of one box that are sampled.
constexpr int maxInstances = 4;

class Sampler {
public:
  Sampler(const Program &program, MapSource &map, SideView &source,
          SideView *destination, uint64_t seed)
      : program(program), map(map), source(source), destination(destination),
        random(seed) {
    for (const Tensor &tensor : program.source.tensors) {
      Domain domain = source.interpreter.factsOf(tensor).domain;
      bool each = domain.expert && !tensor.stack;
      numTensors += domain.layers.size() *
                    (each ? uint64_t(program.source.numExperts) : 1);
    }
  }

  Report run() {
    if (map.destinationIsHf() != !destination ||
        map.numParams(DELTA_HF, 0) != numTensors)
      wrong("", std::to_string(numTensors) + " tensors",
            std::to_string(map.numParams(DELTA_HF, 0)));
    uint32_t numRanks = map.numRanks(DELTA_SOURCE);
    if (numRanks != source.interpreter.numRanks())
      wrong("source", std::to_string(source.interpreter.numRanks()) + " ranks",
            std::to_string(numRanks));
    if (report.mismatches)
      return report;
    for (uint32_t rank = 0; rank < numRanks; ++rank)
      sampleRank(rank);
    // What some tensor is made of; a family may drop the rest.
    std::set<int64_t> used;
    for (const Tensor &tensor : program.source.tensors)
      used.insert(tensor.value);
    const std::vector<Op> &ops = program.source.ops;
    for (auto op = ops.rbegin(); op != ops.rend(); ++op)
      for (int64_t value : op->out)
        if (used.count(value))
          used.insert(op->in.begin(), op->in.end());
    for (size_t p = 0; p < program.source.params.size(); ++p)
      if (used.count(program.source.params[p].value) &&
          !metParams.count(int64_t(p)))
        wrong("", "\"" + program.source.params[p].names[0] + "\" to be sent",
              "no box");
    for (size_t t = 0; t < program.source.tensors.size(); ++t)
      if (!metTensors.count(int64_t(t)))
        wrong("", "\"" + program.source.tensors[t].name + "\" to be produced",
              "no box");
    return report;
  }

private:
  void wrong(const std::string &where, const std::string &expected,
             const std::string &found) {
    report.add({where, "", std::nullopt, expected, found});
  }

  /// Walks the rows of a rank without looking at all their tiles.
  void sampleRank(uint32_t rank) {
    uint64_t numTiles = map.numTiles(rank);
    for (uint64_t tile = 0; tile < numTiles;) {
      delta_tile_info_t info = {};
      if (!map.tile(rank, tile, info))
        return wrong("rank " + std::to_string(rank), "a tile", "an error");
      uint64_t next = map.nextRow(rank, tile);
      if (instances[info.box]++ < maxInstances) {
        ++report.tensors;
        sampleTile(rank, tile);
        if (next - tile > 1) {
          sampleTile(rank, next - 1);
          sampleTile(rank, tile + random() % (next - tile));
        }
      }
      tile = next;
    }
  }

  void sampleTile(uint32_t rank, uint64_t tile) {
    delta_tile_info_t info = {};
    if (!map.tile(rank, tile, info) || info.num_elements == 0)
      return wrong("rank " + std::to_string(rank), "a tile", "an error");
    uint32_t n = info.num_elements;
    for (uint32_t offset :
         {uint32_t(0), n - 1, uint32_t(random() % n), uint32_t(random() % n)}) {
      ElementPlaces places;
      if (!map.element(rank, tile, offset, places))
        return wrong("rank " + std::to_string(rank), "an element", "an error");
      checkElement(places);
    }
  }

  /// The element of a place on a trainer side.
  bool know(SideView &view, delta_side_id_t side, const delta_place_t &place,
            Known &out) {
    delta_param_info_t info = {};
    std::string where =
        (side == DELTA_SOURCE ? "source rank " : "destination rank ") +
        std::to_string(place.rank);
    if (!map.param(side, place.rank, place.param, info)) {
      wrong(where, "parameter " + std::to_string(place.param), "an error");
      return false;
    }
    uint32_t ranks = uint32_t(view.interpreter.numRanks());
    std::string name = namesOf(info).front();
    int64_t layer = numberOf(info.layer), expert = numberOf(info.expert);
    int64_t way = 0, param = 0;
    const std::vector<Param> &records = view.interpreter.side().params;
    auto holds = [&](int64_t p) {
      return view.holds(p, place.rank % ranks, layer, expert, info.chunk, name,
                        way);
    };
    // A class is the same record every time; the first time it is looked for.
    auto [known, isNew] = recordOfClass[side].try_emplace(info.class_index, 0);
    if (isNew)
      while (known->second + 1 < int64_t(records.size()) &&
             !holds(known->second))
        ++known->second;
    param = known->second;
    if (!holds(param)) {
      wrong(where, "no \"" + name + "\"",
            "one in chunk " + std::to_string(info.chunk));
      return false;
    }
    const Param &record = records[size_t(param)];
    Shape shape = view.interpreter.localShape(param);
    int64_t size = 1;
    for (int64_t extent : shape)
      size *= extent;
    if (shapeOf(info) != shape || dtypeName(info.dtype) != record.dtype ||
        place.element < 0 || place.element >= size) {
      wrong(where,
            "\"" + name + "\" of " + std::to_string(size) +
                " elements and type " + record.dtype,
            "element " + std::to_string(place.element) +
                " of another shape "
                "or type");
      return false;
    }
    out.origin.param = view.interpreter.original(param);
    out.origin.element = view.puller.unsharded(param, way, place.element);
    out.layer = layer;
    out.expert = expert;
    return true;
  }

  /// The element of a place in the neutral layout, pulled back on a side.
  bool pull(const SideView &view, const delta_place_t &place, Known &out) {
    delta_param_info_t info = {};
    if (!map.param(DELTA_HF, 0, place.param, info)) {
      wrong("", "tensor " + std::to_string(place.param), "an error");
      return false;
    }
    int64_t t = tensorOf(info);
    if (t == kNone) {
      wrong("", "no \"" + namesOf(info).front() + "\"", "one");
      return false;
    }
    const Tensor &record = program.source.tensors[size_t(t)];
    int64_t size = 1;
    for (int64_t extent : record.shape)
      size *= extent;
    if (shapeOf(info) != record.shape ||
        dtypeName(info.dtype) != record.dtype || place.element < 0 ||
        place.element >= size) {
      wrong("",
            "\"" + namesOf(info).front() + "\" of " + std::to_string(size) +
                " elements and type " + record.dtype,
            "element " + std::to_string(place.element) +
                " of another shape or type");
      return false;
    }
    metTensors.insert(t);
    int64_t slice = record.stack ? size / record.shape[0] : size;
    out.origin = view.puller.pull(t, place.element % slice);
    out.layer = numberOf(info.layer);
    out.expert = record.stack ? place.element / slice : numberOf(info.expert);
    return true;
  }

  static int64_t numberOf(uint32_t index) {
    return index == DELTA_NONE ? kNone : int64_t(index);
  }

  /// The record of a tensor of the plan, or kNone.
  int64_t tensorOf(const delta_param_info_t &info) {
    std::string name = namesOf(info).front();
    auto is = [&](int64_t t) {
      const Tensor &tensor = program.source.tensors[size_t(t)];
      Domain domain = source.interpreter.factsOf(tensor).domain;
      return std::binary_search(domain.layers.begin(), domain.layers.end(),
                                numberOf(info.layer)) &&
             (domain.expert && !tensor.stack) == (info.expert != DELTA_NONE) &&
             source.interpreter.tensorName(t, numberOf(info.layer),
                                           numberOf(info.expert)) == name;
    };
    auto [known, isNew] =
        recordOfClass[DELTA_HF].try_emplace(info.class_index, 0);
    if (isNew)
      while (known->second + 1 < int64_t(program.source.tensors.size()) &&
             !is(known->second))
        ++known->second;
    return is(known->second) ? known->second : kNone;
  }

  static std::string opName(bool shifted) { return shifted ? "+1" : "no op"; }

  void checkElement(const ElementPlaces &places) {
    ++report.elements;
    Known sent, wanted;
    if (!know(source, DELTA_SOURCE, places.source, sent) ||
        !pull(source, places.hf, wanted))
      return;
    metParams.insert(sent.origin.param);
    sent.origin.shifted = places.hf.value_op == DELTA_VALUE_ADD_ONE;
    if (!(sent == wanted))
      return wrong(
          "source rank " + std::to_string(places.source.rank),
          source.describe(wanted) + " with " + opName(wanted.origin.shifted),
          source.describe(sent) + " with " + opName(sent.origin.shifted));
    destination ? checkShards(places) : checkWhole(places, wanted);
  }

  /// Whole tensors: the element itself, and second names, at every replica.
  void checkWhole(const ElementPlaces &places, const Known &wanted) {
    std::set<std::pair<uint32_t, uint32_t>> met;
    for (const delta_place_t &place : places.destinations) {
      Known found;
      if (!pull(source, place, found))
        return;
      if (!(found == wanted) || !met.insert({place.rank, place.param}).second ||
          place.rank >= uint64_t(program.replicas))
        return wrong("receiver " + std::to_string(place.rank),
                     source.describe(wanted) + " once", source.describe(found));
    }
    int64_t names = 0;
    for (size_t t = 0; t < program.source.tensors.size(); ++t)
      names += sameValue(places, int64_t(t), wanted);
    if (int64_t(met.size()) != names * program.replicas)
      wrong("",
            source.describe(wanted) + " at " +
                std::to_string(names * program.replicas) + " places",
            std::to_string(met.size()));
  }

  /// Whether tensor record `t` has the element at the same index.
  bool sameValue(const ElementPlaces &places, int64_t t, const Known &wanted) {
    delta_param_info_t info = {};
    map.param(DELTA_HF, 0, places.hf.param, info);
    const Tensor &own = program.source.tensors[size_t(tensorOf(info))];
    const Tensor &other = program.source.tensors[size_t(t)];
    if (other.shape != own.shape || other.stack != own.stack)
      return false;
    int64_t slice = 1;
    for (size_t i = other.stack; i < other.shape.size(); ++i)
      slice *= other.shape[i];
    return source.puller.pull(t, places.hf.element % slice) == wanted.origin;
  }

  /// Another geometry: the same element there, at every rank that holds it.
  void checkShards(const ElementPlaces &places) {
    Known wanted;
    if (!pull(*destination, places.hf, wanted))
      return;
    std::set<std::pair<uint32_t, uint32_t>> met;
    for (const delta_place_t &place : places.destinations) {
      Known found;
      if (!know(*destination, DELTA_DESTINATION, place, found))
        return;
      found.origin.shifted = wanted.origin.shifted;
      if (!(found == wanted) || !met.insert({place.rank, place.param}).second)
        return wrong("destination rank " + std::to_string(place.rank),
                     destination->describe(wanted) + " once",
                     destination->describe(found));
    }
    const Side &side = destination->interpreter.side();
    int64_t expected = 0;
    for (size_t p = 0; p < side.params.size(); ++p)
      if (destination->interpreter.original(int64_t(p)) == wanted.origin.param)
        expected += destination->numHolders(int64_t(p)) * program.replicas;
    if (int64_t(met.size()) != expected)
      wrong("",
            destination->describe(wanted) + " at " + std::to_string(expected) +
                " places",
            std::to_string(met.size()));
  }

  const Program &program;
  MapSource &map;
  SideView &source;
  SideView *destination;
  std::mt19937_64 random;
  uint64_t numTensors = 0;
  /// Record of each class of the plan, by side.
  std::map<int, std::map<uint32_t, int64_t>> recordOfClass;
  std::unordered_map<uint32_t, int> instances;
  std::set<int64_t> metParams, metTensors;
  Report report;
};

} // namespace

std::optional<Report> sampleCheck(const Program &program, MapSource &map,
                                  uint64_t seed, std::string &error) {
  std::optional<Interpreter> source =
      Interpreter::create(program.source, error);
  if (!source)
    return std::nullopt;
  SideView sourceView(*source);
  if (!program.destination)
    return Sampler(program, map, sourceView, nullptr, seed).run();
  std::optional<Interpreter> destination =
      Interpreter::create(*program.destination, error);
  if (!destination)
    return std::nullopt;
  SideView destinationView(*destination);
  return Sampler(program, map, sourceView, &destinationView, seed).run();
}

} // namespace delta::reference
