//===- Rollout.cpp - Against what an engine's loader did ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares a plan from a trainer to an engine with the parameters that the
/// engine's own loader filled. The trainer plays no role but that each element
/// comes from somewhere: an element of a parameter is compared by the place in
/// the checkpoint that the plan says for it.
///
/// Block scales of quantized weights are no parameters of the plan. They lie as
/// the weights do: the number in a parameter's grid is that of the tensor's
/// block from which all elements of the parameter's block come.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-check/CompiledMap.h"
#include "tools/delta-check/RolloutCase.h"
#include "tools/reference/Moves.h"

#include <filesystem>

namespace delta::check {
namespace {

using reference::count;
using reference::Shape;

/// What the plan says of one parameter of one rank, by memory element.
struct Planned {
  std::string name; ///< of the golden parameter; empty: it has none
  Shape shape, stride;
  std::vector<int64_t> tags;    ///< -1: nothing
  std::vector<int32_t> tensors; ///< number in the neutral layout, -1: nothing
  std::vector<int64_t> elements;
  delta_value_op_t valueOp = DELTA_VALUE_ID; ///< bits that any element has
  bool mixesOps = false;

  /// Memory element of an index.
  int64_t at(const Shape &index) const {
    int64_t element = 0;
    for (size_t d = 0; d < index.size(); ++d)
      element += index[d] * stride[d];
    return element;
  }
};

class RolloutCheck {
public:
  RolloutCheck(const std::string &directory, CheckReport &report)
      : directory(directory), report(report) {}

  bool read(std::string &error) { return golden.read(directory, error); }
  bool compile(const Json &trainer, const std::string &family,
               std::string &error);
  void compare();

private:
  using Params = std::map<std::string, RolloutParam>;

  void plan(uint32_t rank);
  void collect();
  void deliver(const reference::ElementPlaces &places);
  void compareParam(const std::string &where, const std::string &name,
                    const RolloutParam &param);
  void compareTags(const std::string &where, const std::string &name,
                   const RolloutParam &param, const Planned &found);
  std::optional<Planned> gridOf(const std::string &name,
                                const RolloutParam &param) const;
  int64_t gridTag(const Planned &weights, const Shape &index,
                  const std::string &suffix) const;

  const std::string directory;
  CheckReport &report;
  RolloutCase golden;
  CompiledMap compiled;
  std::vector<std::string> neutralNames;
  std::vector<std::vector<Planned>> planned; ///< by rank and parameter
  uint32_t rank = 0;                         ///< that is being compared
};

bool RolloutCheck::compile(const Json &trainer, const std::string &family,
                           std::string &error) {
  Json model;
  model["config"] = std::filesystem::absolute(directory + "/config.json");
  model["trainer"] = trainer;
  model["rollout"] = golden.rollout();
  const Json keys = golden.keys();
  return compiled.compile(model, &keys, family, error);
}

/// The parameters of a rank of the plan, and which golden ones they are.
void RolloutCheck::plan(uint32_t rank) {
  reference::MapSource &map = compiled.map();
  const std::string where = "rank " + std::to_string(rank);
  const Params none;
  const Params &wanted =
      rank < golden.ranks().size() ? golden.ranks()[rank] : none;
  std::vector<Planned> &params = planned.emplace_back();
  for (uint32_t p = 0; p < map.numParams(DELTA_DESTINATION, rank); ++p) {
    Planned &param = params.emplace_back();
    delta_param_info_t info = {};
    if (!map.param(DELTA_DESTINATION, rank, p, info)) {
      report.add({where, "", std::nullopt, "parameter " + std::to_string(p),
                  "an error of the plan"});
      continue;
    }
    param.shape = reference::shapeOf(info);
    param.stride.assign(info.stride, info.stride + info.rank);
    const auto size = size_t(count(param.shape));
    param.tags.assign(size, -1);
    param.tensors.assign(size, -1);
    param.elements.assign(size, -1);
    const std::vector<std::string> names = reference::namesOf(info);
    std::string second = "none";
    for (const std::string &name : names) {
      const auto it = wanted.find(name);
      if (it != wanted.end() && it->second.aliasOf.empty())
        param.name = name;
      else if (it != wanted.end())
        second = "a second name of \"" + it->second.aliasOf + "\"";
    }
    if (param.name.empty())
      report.add({where, names.front(), std::nullopt, second, "a parameter"});
    else if (param.shape != wanted.at(param.name).shape) {
      report.add({where, param.name, std::nullopt,
                  "shape " + reference::toText(wanted.at(param.name).shape),
                  "shape " + reference::toText(param.shape)});
      param.name.clear();
    }
  }
}

void RolloutCheck::deliver(const reference::ElementPlaces &places) {
  const bool known = places.hf.param < neutralNames.size();
  const RolloutTensor *tensor =
      known ? golden.tensor(neutralNames[places.hf.param]) : nullptr;
  const int64_t tag = tensor ? tensor->firstTag + places.hf.element : -1;
  for (const delta_place_t &place : places.destinations) {
    const bool there =
        place.rank < planned.size() && place.param < planned[place.rank].size();
    Planned *to = there ? &planned[place.rank][place.param] : nullptr;
    if (!known || !to || place.element < 0 ||
        place.element >= int64_t(to->tags.size()) ||
        (tensor && places.hf.element >= count(tensor->shape))) {
      report.add({"", "", std::nullopt, "a place in a parameter",
                  "element " + std::to_string(place.element) +
                      " of parameter " + std::to_string(place.param) +
                      " of rank " + std::to_string(place.rank)});
      continue;
    }
    const auto at = size_t(place.element);
    if (to->tensors[at] >= 0)
      report.add({"rank " + std::to_string(place.rank), to->name, std::nullopt,
                  golden.describe(to->tags[at]) + " alone",
                  "also " + golden.describe(tag)});
    const delta_value_op_t form = place.value_op & DELTA_VALUE_NEG_EXP;
    to->mixesOps |= to->valueOp != form && to->valueOp != DELTA_VALUE_ID;
    to->valueOp |= form;
    to->tags[at] = tag;
    to->tensors[at] = int32_t(places.hf.param);
    to->elements[at] = places.hf.element;
  }
}

/// Walks all tiles of all trainer ranks.
void RolloutCheck::collect() {
  reference::MapSource &map = compiled.map();
  for (uint32_t p = 0; p < map.numParams(DELTA_HF, 0); ++p) {
    delta_param_info_t info = {};
    map.param(DELTA_HF, 0, p, info);
    neutralNames.push_back(reference::namesOf(info).front());
  }
  reference::ElementPlaces places;
  for (uint32_t source = 0; source < map.numRanks(DELTA_SOURCE); ++source)
    for (uint64_t t = 0, end = map.numTiles(source); t < end; ++t) {
      delta_tile_info_t tile = {};
      bool good = map.tile(source, t, tile);
      for (uint32_t e = 0; good && e < tile.num_elements; ++e)
        if ((good = map.element(source, t, e, places)))
          deliver(places);
      if (!good)
        report.add({"source rank " + std::to_string(source), "", std::nullopt,
                    "tile " + std::to_string(t), "an error of the plan"});
    }
}

/// The tag of one number of a grid: that of the block from which all elements
/// of the weights' block come; -1 where that tensor has no grid, -2 where they
/// come from several.
int64_t RolloutCheck::gridTag(const Planned &weights, const Shape &index,
                              const std::string &suffix) const {
  Shape begin = index, size(index.size(), 1);
  const size_t first = index.size() - golden.block.size();
  for (size_t d = first; d < index.size(); ++d) {
    begin[d] = index[d] * golden.block[d - first];
    size[d] = std::min(golden.block[d - first], weights.shape[d] - begin[d]);
  }
  std::optional<int64_t> found;
  for (int64_t e = 0; e < count(size); ++e) {
    Shape at = reference::indexOf(size, e);
    for (size_t d = 0; d < at.size(); ++d)
      at[d] += begin[d];
    const auto element = size_t(weights.at(at));
    int64_t tag = -1;
    const int32_t number = weights.tensors[element];
    const RolloutTensor *tensor =
        number < 0 ? nullptr : golden.tensor(neutralNames[size_t(number)]);
    if (tensor && tensor->grid && tensor->suffix == suffix) {
      Shape place =
          reference::indexOf(tensor->shape, weights.elements[element]);
      const size_t from = place.size() - golden.block.size();
      int64_t cell = 0;
      for (size_t d = 0; d < place.size(); ++d)
        cell = cell * tensor->grid->shape[d] +
               (d < from ? place[d] : place[d] / golden.block[d - from]);
      tag = tensor->grid->firstTag + cell;
    }
    if (found.value_or(tag) != tag)
      return -2;
    found = tag;
  }
  return found.value_or(-2);
}

/// The grid of weights that the plan binds, as they imply it.
std::optional<Planned> RolloutCheck::gridOf(const std::string &name,
                                            const RolloutParam &param) const {
  for (const Planned &weights : planned[rank]) {
    const std::string prefix = weights.name + "_";
    if (weights.name.empty() || golden.block.empty() ||
        name.rfind(prefix, 0) != 0 ||
        weights.shape.size() < golden.block.size())
      continue;
    Planned grid;
    grid.name = name;
    grid.shape = weights.shape;
    const size_t first = grid.shape.size() - golden.block.size();
    for (size_t d = first; d < grid.shape.size(); ++d)
      grid.shape[d] = (grid.shape[d] + golden.block[d - first] - 1) /
                      golden.block[d - first];
    if (grid.shape != param.shape)
      continue;
    int64_t step = count(grid.shape);
    for (const int64_t size : grid.shape)
      grid.stride.push_back(step /= size);
    for (int64_t cell = 0; cell < count(grid.shape); ++cell)
      grid.tags.push_back(gridTag(weights, reference::indexOf(grid.shape, cell),
                                  name.substr(weights.name.size())));
    return grid;
  }
  return std::nullopt;
}

void RolloutCheck::compareTags(const std::string &where,
                               const std::string &name,
                               const RolloutParam &param,
                               const Planned &found) {
  for (size_t d = 0; d < param.shape.size(); ++d)
    if (param.shape[d] > 1 && param.stride[d] != found.stride[d]) {
      report.add({where, name, std::nullopt,
                  "strides " + reference::toText(param.stride),
                  "strides " + reference::toText(found.stride)});
      return;
    }
  const std::string op = found.valueOp & DELTA_VALUE_NEG_EXP ? "neg_exp" : "";
  if (op != param.valueOp || found.mixesOps)
    report.add({where, name, std::nullopt, "value op \"" + param.valueOp + "\"",
                "value op \"" + op + "\""});
  for (int64_t e = 0; e < count(param.shape); ++e) {
    const Shape index = reference::indexOf(param.shape, e);
    const int64_t wanted = golden.tags[size_t(param.offset + e)];
    const int64_t tag = found.tags[size_t(found.at(index))];
    if (wanted != tag)
      report.add({where, name, index, golden.describe(wanted),
                  tag == -2 ? "several blocks" : golden.describe(tag)});
  }
}

void RolloutCheck::compareParam(const std::string &where,
                                const std::string &name,
                                const RolloutParam &param) {
  ++report.tensors;
  report.elements += count(param.shape);
  for (const Planned &found : planned[rank])
    if (found.name == name)
      return compareTags(where, name, param, found);
  if (param.mapped == 0) {
    Planned nothing;
    nothing.stride = param.stride;
    nothing.tags.assign(size_t(count(param.shape)), -1);
    report.unbound += count(param.shape);
    return compareTags(where, name, param, nothing);
  }
  if (const std::optional<Planned> grid = gridOf(name, param))
    return compareTags(where, name, param, *grid);
  report.add({where, name, std::nullopt,
              std::to_string(param.mapped) + " elements", "no parameter"});
}

void RolloutCheck::compare() {
  const auto numRanks = compiled.map().numRanks(DELTA_DESTINATION);
  if (numRanks != golden.ranks().size()) {
    report.add({"", "", std::nullopt,
                std::to_string(golden.ranks().size()) + " ranks",
                std::to_string(numRanks)});
    return;
  }
  for (rank = 0; rank < numRanks; ++rank)
    plan(rank);
  collect();
  for (rank = 0; rank < numRanks; ++rank)
    for (const auto &[name, param] : golden.ranks()[rank])
      if (param.aliasOf.empty())
        compareParam("rank " + std::to_string(rank), name, param);
}

} // namespace

bool checkRollout(const std::string &directory, const std::string &geometry,
                  const std::string &family, CheckReport &report,
                  std::string &error) {
  Json trainer = {{"tp", 1}};
  if (!geometry.empty()) {
    const auto file = readJson(geometry, error);
    if (!file)
      return false;
    if (file->is_object() && file->contains("trainer"))
      trainer = (*file)["trainer"];
  }
  RolloutCheck check(directory, report);
  if (!check.read(error) || !check.compile(trainer, family, error))
    return false;
  check.compare();
  return true;
}

} // namespace delta::check
