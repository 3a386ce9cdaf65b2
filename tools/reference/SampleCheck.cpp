//===- SampleCheck.cpp - A plan against the interpreter, by samples -------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/reference/SampleCheck.h"

#include "tools/reference/Interpreter.h"
#include "tools/reference/Pull.h"
#include "tools/reference/TaggedSide.h"

#include <map>
#include <random>
#include <set>
#include <unordered_map>

namespace delta::reference {

namespace {

/// Instances of one box that are sampled.
constexpr int maxInstances = 4;
/// Source ranks that are looked at, spread over all of them.
constexpr uint32_t maxRanks = 96;

/// An element under the name by which both sides know it.
struct Known {
  Origin origin;
  int64_t layer = kNone, expert = kNone;

  bool operator==(const Known &o) const {
    return origin == o.origin && layer == o.layer && expert == o.expert;
  }
};

/// One side, and what its ranks hold by (chunk, usual name).
class SideView {
public:
  SideView(const Interpreter &interpreter)
      : interpreter(interpreter), puller(interpreter.side()) {}

  const Interpreter &interpreter;
  Puller puller;

  const LocalParam *find(uint32_t rank, uint32_t chunk,
                         const std::string &name) {
    auto [entry, isNew] = held.try_emplace(rank);
    if (isNew)
      for (LocalParam &param : interpreter.paramsOf(rank)) {
        std::string key = std::to_string(param.chunk) + ":" + param.names[0];
        entry->second.emplace(key, std::move(param));
      }
    auto it = entry->second.find(std::to_string(chunk) + ":" + name);
    return it == entry->second.end() ? nullptr : &it->second;
  }

  std::string describe(const Known &known) const {
    return "\"" +
           interpreter.globalName(known.origin.param, known.layer,
                                  known.expert) +
           "\" element " + std::to_string(known.origin.element);
  }

  /// Ranks of one replica that hold an element: those of its stage and expert
  /// rank, one in `ways` of them.
  int64_t numHolders(int64_t param) const {
    const Geometry &g = interpreter.side().geometry;
    int64_t ranks = g.tp * g.cp * g.dp / puller.ways(param);
    return interpreter.side().params[size_t(param)].expert ? ranks / g.ep
                                                           : ranks;
  }

private:
  std::unordered_map<uint32_t, std::unordered_map<std::string, LocalParam>>
      held;
};

class Sampler {
public:
  Sampler(const Program &program, MapSource &map, SideView &source,
          SideView *destination, uint64_t seed)
      : program(program), map(map), source(source), destination(destination),
        random(seed) {
    std::vector<NeutralTensor> all = neutralTensors(source.interpreter);
    for (NeutralTensor &tensor : all)
      tensors.emplace(tensor.name, tensor);
  }

  Report run() {
    if (map.destinationIsHf() != !destination ||
        map.numParams(DELTA_HF, 0) != tensors.size())
      wrong("", std::to_string(tensors.size()) + " tensors",
            std::to_string(map.numParams(DELTA_HF, 0)));
    uint32_t numRanks = map.numRanks(DELTA_SOURCE);
    if (numRanks != source.interpreter.numRanks())
      wrong("source", std::to_string(source.interpreter.numRanks()) + " ranks",
            std::to_string(numRanks));
    if (report.mismatches)
      return report;
    uint32_t count = std::min(numRanks, maxRanks);
    for (uint32_t i = 0; i < count; ++i)
      sampleRank(uint32_t(uint64_t(i) * numRanks / count));
    for (size_t p = 0; p < program.source.params.size(); ++p)
      if (!program.source.params[p].copyOf && !metParams.count(int64_t(p)))
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
      delta_tile_info_t info = {}, other = {};
      if (!map.tile(rank, tile, info))
        return wrong("rank " + std::to_string(rank), "a tile", "an error");
      uint64_t low = tile, step = 1;
      while (low + step < numTiles && map.tile(rank, low + step, other) &&
             other.row == info.row) {
        low += step;
        step *= 2;
      }
      for (; step; step /= 2)
        if (low + step < numTiles && map.tile(rank, low + step, other) &&
            other.row == info.row)
          low += step;
      if (instances[info.box]++ < maxInstances) {
        ++report.tensors;
        sampleTile(rank, tile);
        if (low != tile) {
          sampleTile(rank, low);
          sampleTile(rank, tile + random() % (low - tile + 1));
        }
      }
      tile = low + 1;
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
    const LocalParam *held = view.find(place.rank % ranks, info.chunk, name);
    if (!held) {
      wrong(where, "no \"" + name + "\"",
            "one in chunk " + std::to_string(info.chunk));
      return false;
    }
    const Param &record = view.interpreter.side().params[size_t(held->param)];
    Shape shape = view.interpreter.localShape(held->param);
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
    out.origin.param = view.interpreter.original(held->param);
    out.origin.element =
        view.puller.unsharded(held->param, held->way, place.element);
    out.layer = held->layer;
    out.expert = held->expert;
    return true;
  }

  /// The element of a place in the neutral layout, pulled back on a side.
  bool pull(const SideView &view, const delta_place_t &place, Known &out) {
    delta_param_info_t info = {};
    if (!map.param(DELTA_HF, 0, place.param, info)) {
      wrong("", "tensor " + std::to_string(place.param), "an error");
      return false;
    }
    auto it = tensors.find(namesOf(info).front());
    if (it == tensors.end()) {
      wrong("", "no \"" + namesOf(info).front() + "\"", "one");
      return false;
    }
    const NeutralTensor &tensor = it->second;
    const Tensor &record = program.source.tensors[size_t(tensor.tensor)];
    int64_t size = 1;
    for (int64_t extent : record.shape)
      size *= extent;
    if (shapeOf(info) != record.shape ||
        dtypeName(info.dtype) != record.dtype || place.element < 0 ||
        place.element >= size) {
      wrong("",
            "\"" + tensor.name + "\" of " + std::to_string(size) +
                " elements and type " + record.dtype,
            "element " + std::to_string(place.element) +
                " of another shape or type");
      return false;
    }
    metTensors.insert(tensor.tensor);
    int64_t slice = record.stack ? size / record.shape[0] : size;
    out.origin = view.puller.pull(tensor.tensor, place.element % slice);
    out.layer = tensor.layer;
    out.expert = record.stack ? place.element / slice : tensor.expert;
    return true;
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
    const Tensor &own =
        program.source
            .tensors[size_t(tensors.at(namesOf(info).front()).tensor)];
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
  std::unordered_map<std::string, NeutralTensor> tensors;
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
