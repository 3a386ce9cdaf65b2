//===- Side.cpp - Ranks and parameters of one side ------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Side.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

using namespace delta::runtime;

Side::Side(const delta_tables_t &tables, delta_side_id_t id,
           std::shared_ptr<const Slots> placement)
    : tables(&tables), side(&tables.source), numReplicas(1), neutral(false),
      isEngine(false) {
  if (id == DELTA_SOURCE)
    return;
  neutral = id != DELTA_DESTINATION || tables.destination_is_hf;
  side = neutral ? &tables.hf : &tables.destination;
  if (id == DELTA_COPIED) {
    side = &tables.copied;
    numReplicas = tables.copied.num_classes != 0;
  }
  if (id != DELTA_DESTINATION)
    return;
  numReplicas = std::max(tables.destination.replicas, 1u);
  isEngine = !neutral && tables.engine;
  slots = placement ? std::move(placement) : Slots::ofPlan(tables);
}

Coordinates Side::coordinates(uint32_t rank) const {
  Coordinates at;
  at.replica = rank / side->ranks_per_replica;
  uint32_t local = rank % side->ranks_per_replica;
  at.pp = local / getRanksPerStage();
  local %= getRanksPerStage();
  at.tp = local % side->tp;
  at.cp = local / side->tp % side->cp;
  at.dp = local / side->tp / side->cp;
  at.etp = local % side->etp;
  at.ep = local / side->etp % side->ep;
  at.edp = local / side->etp / side->ep;
  return at;
}

uint32_t Side::wayOf(const delta_class_t &type, const Coordinates &at) const {
  if (type.axis == DELTA_AXIS_TP)
    return at.tp / (side->tp / type.ways);
  if (type.axis == DELTA_AXIS_ETP)
    return at.etp / (side->etp / type.ways);
  if (type.axis == DELTA_AXIS_STAGE)
    return (at.tp + side->tp * (at.cp + side->cp * at.dp)) /
           (getRanksPerStage() / type.ways);
  return 0;
}

/// True if `layer` is one of the class's.
static bool hasLayer(const delta_tables_t &tables, const delta_class_t &type,
                     uint32_t layer) {
  const delta_layer_kind_t &kind = tables.layer_kinds[type.layer_kind];
  const uint32_t *begin = tables.layer_ids + kind.first;
  return std::binary_search(begin, begin + kind.count, layer);
}

uint32_t Side::stageOf(const delta_class_t &type, uint32_t layer) const {
  if (type.layer_kind == DELTA_NONE)
    return type.stage;
  if (layer == DELTA_NONE || !hasLayer(*tables, type, layer))
    return DELTA_NONE;
  return side->layers[layer].stage;
}

uint32_t Side::chunkOf(const delta_class_t &type, uint32_t layer) const {
  return type.layer_kind == DELTA_NONE ? type.chunk : side->layers[layer].chunk;
}

std::vector<uint32_t> Side::layersOf(const delta_class_t &type,
                                     uint32_t stage) const {
  if (type.layer_kind == DELTA_NONE)
    return type.stage == stage ? std::vector<uint32_t>{DELTA_NONE}
                               : std::vector<uint32_t>{};
  std::vector<uint32_t> layers;
  const delta_layer_kind_t &kind = tables->layer_kinds[type.layer_kind];
  for (uint32_t i = kind.first; i < kind.first + kind.count; ++i)
    if (side->layers[tables->layer_ids[i]].stage == stage)
      layers.push_back(tables->layer_ids[i]);
  return layers;
}

std::vector<uint32_t> Side::expertsOf(const delta_class_t &type,
                                      uint32_t ep) const {
  if (type.num_experts == 0)
    return {DELTA_NONE};
  std::vector<uint32_t> experts;
  for (uint32_t expert = 0; expert < type.num_experts; ++expert)
    if (side->experts[expert].ep == ep)
      experts.push_back(expert);
  return experts;
}

int64_t Side::expertOffset(const delta_class_t &type, uint32_t expert) const {
  if (type.expert_stride == 0 || expert == DELTA_NONE)
    return 0;
  return int64_t(side->experts[expert].local) * type.expert_stride;
}

uint32_t Side::numSlices(const delta_class_t &type, uint32_t ep) const {
  return hasSlots(type) ? slots->numSlotsOf(ep)
                        : uint32_t(expertsOf(type, ep).size());
}

int64_t Side::partOffset(const delta_class_t &type, uint32_t ep) const {
  const delta_class_t &whole = side->classes[type.part_of];
  return int64_t(numSlices(whole, ep) + type.part_slot) * whole.expert_stride;
}

ParamShape Side::shapeOf(const delta_class_t &type,
                         const Coordinates &at) const {
  ParamShape out;
  for (uint32_t dim = 0; dim < DELTA_MAX_RANK; ++dim) {
    out.shape[dim] = type.shape[dim];
    out.stride[dim] = 1;
  }
  if (hasSlots(type) || type.extra_slots)
    out.shape[0] = int64_t(numSlices(type, at.ep)) + type.extra_slots;
  out.numElements = 1;
  for (uint32_t i = type.rank; i-- > 0;) {
    uint32_t dim = dimensionAt(type, i);
    out.stride[dim] = out.numElements;
    out.numElements *= out.shape[dim];
  }
  return out;
}

std::vector<Param> Side::params(uint32_t rank) const {
  Coordinates at = coordinates(rank);
  std::vector<Param> params;
  for (uint32_t index = 0; index < side->num_classes; ++index) {
    const delta_class_t &type = side->classes[index];
    if (type.part_of != DELTA_NONE)
      continue;
    std::vector<uint32_t> experts = {DELTA_NONE};
    if (type.expert_stride == 0)
      experts = expertsOf(type, at.ep);
    for (uint32_t layer : layersOf(type, at.pp))
      for (uint32_t expert : experts)
        params.push_back({index, layer, expert});
  }
  return params;
}

uint32_t Side::find(const std::vector<Param> &params, uint32_t classIndex,
                    uint32_t layer, uint32_t expert) const {
  if (side->classes[classIndex].part_of != DELTA_NONE)
    classIndex = side->classes[classIndex].part_of;
  const delta_class_t &type = side->classes[classIndex];
  if (type.layer_kind == DELTA_NONE)
    layer = DELTA_NONE;
  if (type.num_experts == 0 || type.expert_stride != 0)
    expert = DELTA_NONE;
  auto key = [](const Param &param) {
    return std::tie(param.classIndex, param.layer, param.expert);
  };
  Param wanted = {classIndex, layer, expert};
  auto it = std::lower_bound(
      params.begin(), params.end(), wanted,
      [&](const Param &a, const Param &b) { return key(a) < key(b); });
  if (it == params.end() || key(*it) != key(wanted))
    return DELTA_NONE;
  return uint32_t(it - params.begin());
}

std::string Side::name(const Param &param, uint32_t alternative) const {
  const delta_class_t &type = side->classes[param.classIndex];
  int64_t layer = 0, expert = 0;
  if (param.layer != DELTA_NONE) {
    const delta_placement_t &place = side->layers[param.layer];
    layer = neutral ? place.number : place.local;
  }
  if (param.expert != DELTA_NONE)
    expert =
        neutral || isEngine ? param.expert : side->experts[param.expert].local;

  std::string out;
  const char *text = side->names[type.first_name + alternative];
  while (*text) {
    if (*text != '{') {
      out += *text++;
      continue;
    }
    ++text; // {layer}, {layer+61}, {expert}, ...
    int64_t number = *text == 'l' ? layer : expert;
    while (*text && *text != '}' && *text != '+' && *text != '-')
      ++text;
    char *end = const_cast<char *>(text);
    if (*text == '+' || *text == '-') // wraps around in a name that is nonsense
      number = int64_t(uint64_t(number) + uint64_t(strtoll(text, &end, 10)));
    out += std::to_string(number);
    text = *end == '}' ? end + 1 : end;
  }
  return out;
}

int64_t delta::runtime::numElements(const delta_class_t &type) {
  int64_t count = 1;
  for (uint32_t dim = 0; dim < type.rank; ++dim)
    count *= type.shape[dim];
  return count;
}

uint32_t delta::runtime::elementSize(delta_dtype_t dtype) {
  switch (dtype) {
  case DELTA_BF16:
  case DELTA_FP16:
    return 2;
  case DELTA_FP32:
    return 4;
  case DELTA_INT64:
    return 8;
  }
  return 0;
}

std::string delta::runtime::dtypeName(delta_dtype_t dtype) {
  switch (dtype) {
  case DELTA_BF16:
    return "bf16";
  case DELTA_FP16:
    return "fp16";
  case DELTA_FP32:
    return "fp32";
  case DELTA_INT64:
    return "int64";
  }
  return "dtype " + std::to_string(dtype);
}

std::string delta::runtime::shapeText(const int64_t *shape, uint32_t rank) {
  std::string text = "[";
  for (uint32_t dim = 0; dim < rank; ++dim)
    text += (dim ? ", " : "") + std::to_string(shape[dim]);
  return text + "]";
}
