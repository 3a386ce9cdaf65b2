//===- SampleCheck.cpp - A plan against the interpreter, by samples -------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/reference/SampleCheck.h"

#include "tools/reference/Expectations.h"
#include "tools/reference/SamplePlaces.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <unordered_map>

namespace delta::reference {

namespace {

/// Instances of one box that are sampled at least, and the share of the others:
/// experts lie otherwise in each layer and on each rank.
constexpr int maxInstances = 4;
constexpr uint64_t oneInstanceOf = 256;

class Sampler : private PlaceReader {
public:
  Sampler(const Program &program, MapSource &map, SideView &source,
          SideView *destination, uint64_t seed)
      : PlaceReader(program, map, source, report), destination(destination),
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
    reportUnmet(source, metParams, "to be sent");
    if (destination && !program.destination->engine.empty())
      reportUnmet(*destination, metReceived, "to be received");
    for (size_t t = 0; t < program.source.tensors.size(); ++t)
      if (!metTensors.count(int64_t(t)) && isSent(int64_t(t)))
        wrong("", "\"" + program.source.tensors[t].name + "\" to be produced",
              "no box");
    return report;
  }

private:
  /// False for a tensor of the source that the engine does not hold.
  bool isSent(int64_t t) const {
    if (!destination || program.destination->engine.empty())
      return true;
    const Domain &domain =
        source.interpreter.factsOf(program.source.tensors[size_t(t)]).domain;
    return !isUnheld(*program.destination,
                     source.interpreter.tensorName(t, domain.layers.front(),
                                                   domain.expert ? 0 : kNone));
  }

  /// Parameters that some tensor is made of, and of which no element was met. A
  /// family may drop the rest.
  void reportUnmet(const SideView &view, const std::set<int64_t> &met,
                   const std::string &what) {
    const Side &side = view.interpreter.side();
    std::set<int64_t> used;
    for (size_t t = 0; t < side.tensors.size(); ++t)
      if (&view != &source || isSent(int64_t(t)))
        used.insert(side.tensors[t].value);
    for (auto op = side.ops.rbegin(); op != side.ops.rend(); ++op)
      for (int64_t value : op->out)
        if (used.count(value))
          used.insert(op->in.begin(), op->in.end());
    for (size_t p = 0; p < side.params.size(); ++p)
      if (used.count(side.params[p].value) && !met.count(int64_t(p)))
        wrong("",
              "\"" +
                  (side.params[p].slotOf
                       ? view.interpreter.globalName(int64_t(p), 0, kNone)
                       : side.params[p].names[0]) +
                  "\" " + what,
              "no box");
  }

  /// Walks the rows of a rank without looking at all their tiles.
  void sampleRank(uint32_t rank) {
    uint64_t numTiles = map.numTiles(rank);
    for (uint64_t tile = 0; tile < numTiles;) {
      delta_tile_info_t info = {};
      if (!map.tile(rank, tile, info))
        return wrong("rank " + std::to_string(rank), "a tile", "an error");
      uint64_t next = map.nextRow(rank, tile);
      if (instances[info.box]++ < maxInstances ||
          random() % oneInstanceOf == 0) {
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

  static std::string opName(bool shifted) { return shifted ? "+1" : "no op"; }

  void checkElement(const ElementPlaces &places) {
    ++report.elements;
    Known sent, wanted;
    if (!know(source, DELTA_SOURCE, places.source, sent) ||
        !pull(places.hf, wanted))
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
      if (!pull(place, found))
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

  /// The destination's records of a tensor of the source, in a layer.
  const std::vector<int64_t> &heldRecords(int64_t t,
                                          const delta_param_info_t &info) {
    auto [known, isNew] = heldBy.try_emplace({t, info.layer});
    if (!isNew)
      return known->second;
    int64_t layer = numberOf(info.layer), expert = numberOf(info.expert);
    std::string name = namesOf(info).front();
    const std::vector<Tensor> &tensors = program.destination->tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      Domain domain = destination->interpreter.factsOf(tensors[i]).domain;
      if (std::binary_search(domain.layers.begin(), domain.layers.end(),
                             layer) &&
          destination->interpreter.tensorName(int64_t(i), layer, expert) ==
              name)
        known->second.push_back(int64_t(i));
    }
    if (known->second.empty() && !isUnheld(*program.destination, name))
      wrong("destination", "\"" + name + "\" to be held", "no such tensor");
    return known->second;
  }

  /// What the element becomes there: op and type of the destination.
  std::optional<delta_value_op_t> wantedOp(int64_t t, int64_t held) const {
    const Tensor &tensor = program.source.tensors[size_t(t)];
    const Tensor &other = program.destination->tensors[size_t(held)];
    const ValueFacts &facts = source.interpreter.factsOf(tensor);
    const ValueFacts &heldFacts = destination->interpreter.factsOf(other);
    if (!program.destination->engine.empty())
      return engineOp(facts, facts.heldDtype,
                      {tensor.dtype, heldFacts.form, heldFacts.heldDtype});
    return facts.scalars == heldFacts.scalars ? DELTA_VALUE_ID
                                              : neutralOp(facts);
  }

  struct Wanted {
    Known known;
    std::optional<delta_value_op_t> op;
  };

  /// Another geometry: the same element there, at every rank that holds it.
  void checkShards(const ElementPlaces &places) {
    delta_param_info_t info = {};
    int64_t t = neutralRecord(places.hf, info);
    if (t == kNone)
      return;
    std::vector<Wanted> wanted;
    int64_t expected = 0;
    const Side &side = destination->interpreter.side();
    for (int64_t held : heldRecords(t, info)) {
      Known known = pullFrom(*destination, held, places.hf.element, info);
      metReceived.insert(known.origin.param);
      known.origin.shifted = false;
      wanted.push_back({known, wantedOp(t, held)});
      for (size_t p = 0; p < side.params.size(); ++p)
        if (destination->interpreter.original(int64_t(p)) == known.origin.param)
          expected +=
              destination->numPlaces(int64_t(p), known) * program.replicas;
    }
    std::set<std::tuple<uint32_t, uint32_t, int64_t>> met;
    for (const delta_place_t &place : places.destinations) {
      Known found;
      if (!know(*destination, DELTA_DESTINATION, place, found))
        return;
      auto it = std::find_if(wanted.begin(), wanted.end(),
                             [&](auto &one) { return one.known == found; });
      std::string where = "destination rank " + std::to_string(place.rank);
      if (it == wanted.end() ||
          !met.insert({place.rank, place.param, place.element}).second)
        return wrong(where,
                     (wanted.empty()
                          ? "nothing"
                          : destination->describe(wanted.front().known)) +
                         " once",
                     destination->describe(found));
      if (it->op != place.value_op)
        return wrong(where,
                     destination->describe(found) + " with " +
                         (it->op ? valueOpText(*it->op) : "no op at all"),
                     valueOpText(place.value_op));
    }
    if (int64_t(met.size()) != expected)
      wrong("",
            source.describe(pullFrom(source, t, places.hf.element, info)) +
                " at " + std::to_string(expected) + " places",
            std::to_string(met.size()));
  }

  SideView *destination;
  std::mt19937_64 random;
  uint64_t numTensors = 0;
  std::unordered_map<uint32_t, int> instances;
  std::set<int64_t> metParams, metReceived;
  /// The destination's records of (record, layer) of the source's tensors.
  std::map<std::pair<int64_t, uint32_t>, std::vector<int64_t>> heldBy;
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
