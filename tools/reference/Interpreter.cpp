//===- Interpreter.cpp - Execute the reference program --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Placement of layers, experts and shards on ranks, and the execution of one
/// group of ops.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/Interpreter.h"

#include "tools/reference/SideChecker.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace delta::reference {

std::optional<Interpreter> Interpreter::create(Side side, std::string &error) {
  error.clear();
  Interpreter interpreter(std::move(side));
  if (!SideChecker(interpreter, error).check())
    return std::nullopt;
  interpreter.placeLayers();
  interpreter.findGroups();
  return interpreter;
}

//===--- names ------------------------------------------------------------===//

std::string expandName(const std::string &name, int64_t layer, int64_t expert) {
  std::string out;
  size_t at = 0;
  while (at < name.size()) {
    const size_t open = name.find('{', at);
    const size_t close = name.find('}', open);
    if (open == std::string::npos || close == std::string::npos)
      break;
    out += name.substr(at, open - at);
    const std::string hole = name.substr(open + 1, close - open - 1);
    const size_t sign = hole.find_first_of("+-");
    int64_t value = hole.compare(0, 5, "layer") == 0 ? layer : expert;
    if (sign != std::string::npos)
      value += std::strtoll(hole.c_str() + sign, nullptr, 10);
    out += std::to_string(value);
    at = close + 1;
  }
  return out + name.substr(at);
}

std::string Interpreter::globalName(int64_t param, int64_t layer,
                                    int64_t expert) const {
  const Param &record = checked.params[size_t(param)];
  if (record.slotOf)
    return globalName(*record.slotOf, layer, kNone) + " slot " +
           std::to_string(record.slot);
  return expandName(record.names.front(), layer, expert) +
         (record.stack ? " expert " + std::to_string(expert) : "");
}

std::string Interpreter::tensorName(int64_t tensor, int64_t layer,
                                    int64_t expert) const {
  return expandName(checked.tensors[size_t(tensor)].name, layer, expert);
}

//===--- placement --------------------------------------------------------===//

void Interpreter::placeLayers() {
  const Geometry &g = checked.geometry;
  for (int64_t chunk = 0; chunk < g.vpp; ++chunk)
    for (int64_t stage = 0; stage < g.pp; ++stage)
      for (int64_t local = 0;
           local < g.stageLayers[size_t(stage)][size_t(chunk)]; ++local)
        places.push_back(
            {stage, chunk,
             checked.engine.empty() ? local : int64_t(places.size())});
  for (size_t i = 0; i < g.stackLayers.size(); ++i)
    for (int64_t local = 0; local < g.stackLayers[i]; ++local)
      places.push_back(g.stackStages[i] == Stage::First
                           ? LayerPlace{0, 0, local}
                           : LayerPlace{g.pp - 1, g.vpp - 1, local});
}

int64_t Interpreter::numRanks() const {
  const Geometry &g = checked.geometry;
  return g.tp * g.cp * g.dp * g.pp;
}

Coordinates Interpreter::coordinates(int64_t rank) const {
  const Geometry &g = checked.geometry;
  const int64_t perStage = g.tp * g.cp * g.dp;
  const int64_t inStage = rank % perStage;
  Coordinates at;
  at.pp = rank / perStage;
  at.tp = inStage % g.tp;
  at.cp = inStage / g.tp % g.cp;
  at.dp = inStage / (g.tp * g.cp);
  at.etp = inStage % g.etp;
  at.ep = inStage / g.etp % g.ep;
  at.edp = inStage / (g.etp * g.ep);
  at.inStage = inStage;
  return at;
}

int64_t Interpreter::original(int64_t param) const {
  return checked.params[size_t(param)].copyOf.value_or(param);
}

Domain Interpreter::domainOf(int64_t param) const {
  const Param &record = checked.params[size_t(param)];
  Domain domain = {record.layers, record.expert};
  if (domain.layers.empty())
    domain.layers = {kNone};
  return domain;
}

Shape Interpreter::localShape(int64_t param) const {
  return shardShape(checked.params[size_t(param)].shape, splitOf(param));
}

std::vector<int64_t> Interpreter::expertsOf(const Domain &domain) const {
  if (!domain.expert)
    return {kNone};
  std::vector<int64_t> experts(static_cast<size_t>(checked.numExperts));
  std::iota(experts.begin(), experts.end(), 0);
  return experts;
}

int64_t Interpreter::wayOf(int64_t param, const Coordinates &at) const {
  const Geometry &g = checked.geometry;
  const std::string &axis = axes[size_t(param)];
  const int64_t ways = splitOf(param).ways;
  if (axis == "tp")
    return at.tp / (g.tp / ways);
  if (axis == "etp")
    return at.etp / (g.etp / ways);
  if (axis == "stage")
    return at.inStage / (g.tp * g.cp * g.dp / ways);
  return 0;
}

std::pair<int64_t, int64_t> Interpreter::slotsOf(int64_t ep) const {
  const Geometry &g = checked.geometry;
  if (!g.slotBegins.empty())
    return {g.slotBegins[size_t(ep)], g.slotBegins[size_t(ep) + 1]};
  const int64_t each = checked.numExperts / g.ep;
  return {ep * each, (ep + 1) * each};
}

int64_t Interpreter::expertIn(int64_t layer, int64_t slot) const {
  const auto &tables = checked.geometry.slots;
  if (tables.empty())
    return slot;
  return tables[tables.size() == 1 ? 0 : size_t(layer)][size_t(slot)];
}

int64_t Interpreter::partIn(int64_t param, int64_t slot) const {
  for (size_t i = 0; i < checked.params.size(); ++i)
    if (checked.params[i].slotOf == param && checked.params[i].slot == slot)
      return int64_t(i);
  return kNone;
}

/// Whether a rank has the layer's instance, or the only one, of a parameter.
bool Interpreter::isHeld(int64_t param, int64_t layer, const Coordinates &at,
                         LayerPlace &place) const {
  const Geometry &g = checked.geometry;
  place = LayerPlace();
  if (layer != kNone)
    place = places[size_t(layer)];
  else if (checked.params[size_t(param)].stage == Stage::Last)
    place = {g.pp - 1, g.vpp - 1, 0};
  return place.stage == at.pp;
}

std::vector<std::string> Interpreter::namesOf(int64_t param, int64_t layer,
                                              int64_t expert) const {
  std::vector<std::string> names;
  for (const std::string &name : checked.params[size_t(param)].names)
    names.push_back(expandName(name, layer, expert));
  return names;
}

/// The parameter whose slots are the experts of a rank.
LocalParam Interpreter::stackOf(int64_t param, const LocalParam &local,
                                const Coordinates &at) const {
  LocalParam stack = local;
  const auto [begin, end] = slotsOf(at.ep);
  const int64_t extra = checked.params[size_t(param)].extra;
  const int64_t size = count(localShape(param));
  stack.shape = localShape(param);
  stack.shape.insert(stack.shape.begin(), end - begin + extra);
  for (int64_t slot = begin; slot < end; ++slot)
    stack.pieces.push_back({param, expertIn(local.layer, slot),
                            wayOf(param, at), (slot - begin) * size});
  for (int64_t slot = 0; slot < extra; ++slot)
    if (const int64_t part = partIn(param, slot); part != kNone)
      stack.pieces.push_back(
          {part, kNone, wayOf(part, at), (end - begin + slot) * size});
  return stack;
}

std::vector<LocalParam> Interpreter::paramsOf(int64_t rank) const {
  const Coordinates at = coordinates(rank);
  const bool engine = !checked.engine.empty();
  std::vector<LocalParam> held;
  for (int64_t i = 0; i < int64_t(checked.params.size()); ++i) {
    const Param &param = checked.params[size_t(i)];
    if (param.slotOf)
      continue;
    LocalParam local;
    local.param = i;
    LayerPlace place;
    for (const int64_t layer : domainOf(i).layers) {
      if (!isHeld(i, layer, at, place))
        continue;
      local.layer = layer;
      local.chunk = place.chunk;
      if (param.stack) {
        local.names = namesOf(i, place.local, kNone);
        held.push_back(stackOf(i, local, at));
        continue;
      }
      // A trainer's names count a rank's own experts.
      const auto [begin, end] =
          param.expert ? slotsOf(at.ep) : std::pair<int64_t, int64_t>(0, 1);
      for (int64_t slot = begin; slot < end; ++slot) {
        local.expert = param.expert ? expertIn(layer, slot) : kNone;
        local.names =
            namesOf(i, place.local, engine ? local.expert : slot - begin);
        local.shape = localShape(i);
        local.pieces = {{i, local.expert, wayOf(i, at), 0}};
        held.push_back(local);
      }
    }
  }
  return held;
}

//===--- groups -----------------------------------------------------------===//

/// Root of a value in a union-find forest, with path halving.
static int64_t root(std::map<int64_t, int64_t> &parent, int64_t value) {
  while (parent[value] != value)
    value = parent[value] = parent[parent[value]];
  return value;
}

void Interpreter::findGroups() {
  std::map<int64_t, int64_t> parent;
  for (const auto &[value, facts] : values)
    parent[value] = value;
  for (const Op &op : checked.ops) {
    for (const int64_t value : op.in)
      parent[root(parent, value)] = root(parent, op.in[0]);
    for (const int64_t value : op.out)
      parent[root(parent, value)] = root(parent, op.in[0]);
  }
  std::map<int64_t, size_t> groupOfRoot;
  const auto groupOf = [&](int64_t value) -> Group & {
    const auto [found, isNew] =
        groupOfRoot.emplace(root(parent, value), allGroups.size());
    if (isNew)
      allGroups.emplace_back();
    return allGroups[found->second];
  };
  for (size_t i = 0; i < checked.params.size(); ++i) {
    if (checked.params[i].copyOf)
      continue;
    Group &group = groupOf(checked.params[i].value);
    group.params.push_back(int64_t(i));
    group.domain = domainOf(int64_t(i));
    group.dtype = checked.params[i].dtype;
  }
  for (size_t i = 0; i < checked.ops.size(); ++i)
    groupOf(checked.ops[i].in[0]).ops.push_back(int64_t(i));
  for (size_t i = 0; i < checked.tensors.size(); ++i)
    groupOf(checked.tensors[i].value).tensors.push_back(int64_t(i));
}

//===--- execution --------------------------------------------------------===//

namespace {

/// The live values of one execution: an array is dropped, or handed over,
/// with its last use.
template <class T> class LiveValues {
public:
  explicit LiveValues(const std::map<int64_t, ValueFacts> &facts)
      : facts(facts) {}

  void define(int64_t value, Array<T> array) {
    live[value] = {std::move(array), facts.at(value).uses};
  }

  const Array<T> &get(int64_t value) const { return live.at(value).array; }

  /// One use is over.
  void release(int64_t value) {
    Entry &entry = live.at(value);
    if (--entry.usesLeft == 0)
      entry.array = Array<T>();
  }

  /// The array itself at its last use, else a copy.
  Array<T> take(int64_t value) {
    Entry &entry = live.at(value);
    if (--entry.usesLeft == 0)
      return std::move(entry.array);
    Array<T> copy(entry.array.shape);
    std::memcpy(copy.data.get(), entry.array.data.get(),
                size_t(copy.size()) * sizeof(T));
    return copy;
  }

private:
  struct Entry {
    Array<T> array;
    int64_t usesLeft = 0;
  };
  const std::map<int64_t, ValueFacts> &facts;
  std::map<int64_t, Entry> live;
};

template <class T>
void execute(const Op &op, const std::string &dtype, bool addScalars,
             LiveValues<T> &live) {
  std::vector<Array<T>> out;
  if (op.kind == "split") {
    out = split(live.get(op.in[0]), op.dim, op.sizes);
    live.release(op.in[0]);
  } else if (op.kind == "transpose") {
    out.push_back(transpose(live.get(op.in[0]), op.permutation));
    live.release(op.in[0]);
  } else if (op.kind == "concat" || op.kind == "interleave") {
    std::vector<const Array<T> *> in;
    for (const int64_t value : op.in)
      in.push_back(&live.get(value));
    out.push_back(op.kind == "concat" ? concat(in, op.dim)
                                      : interleave(in, op.dim));
    for (const int64_t value : op.in)
      live.release(value);
  } else {
    // "unshard" is over: the values of parameters are whole. "cast" is still
    // to come: arrays keep the parameters' type.
    Array<T> array = live.take(op.in[0]);
    if (op.kind == "reshape")
      array.shape = op.shape;
    else if (op.kind == "take")
      array = take(std::move(array), op.dim, op.size);
    else if (op.kind == "add_scalar" && addScalars)
      addScalar(array, dtype, op.scalar);
    out.push_back(std::move(array));
  }
  for (size_t i = 0; i < out.size(); ++i)
    live.define(op.out[i], std::move(out[i]));
}

} // namespace

template <class T>
std::vector<Array<T>> Interpreter::run(const Group &group,
                                       std::vector<Array<T>> whole,
                                       bool addScalars) const {
  LiveValues<T> live(values);
  for (size_t i = 0; i < group.params.size(); ++i)
    live.define(checked.params[size_t(group.params[i])].value,
                std::move(whole[i]));
  for (const int64_t op : group.ops)
    execute(checked.ops[size_t(op)], group.dtype, addScalars, live);
  std::vector<Array<T>> tensors;
  for (const int64_t tensor : group.tensors)
    tensors.push_back(live.take(checked.tensors[size_t(tensor)].value));
  return tensors;
}

template std::vector<Array<uint16_t>>
Interpreter::run(const Group &, std::vector<Array<uint16_t>>, bool) const;
template std::vector<Array<uint32_t>>
Interpreter::run(const Group &, std::vector<Array<uint32_t>>, bool) const;
template std::vector<Array<uint64_t>>
Interpreter::run(const Group &, std::vector<Array<uint64_t>>, bool) const;

} // namespace delta::reference
