//===- Layout.cpp - Where the parameters of a rank lie --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layout.h"

#include "BenchError.h"

#include "codegen/device/IndexFunctions.h"
#include "runtime/Side.h"

#include <algorithm>
#include <memory>

using namespace delta::bench;
namespace device = delta::device;

/// Parameters begin at multiples of as much, as allocations of a device do.
static constexpr uint64_t Alignment = 256;

static uint64_t joined(uint64_t key, uint64_t number) {
  return device::mix(key + (number + 1) * 0x9e3779b97f4a7c15u);
}

/// Class, layer, expert and way: ranks that agree in them hold the same.
static uint64_t keyOf(const delta_side_t &side, uint32_t rank,
                      const delta_param_info_t &info) {
  const delta_class_t &type = side.classes[info.class_index];
  const bool isCopy = type.copy_of != DELTA_NONE;
  const uint32_t at = rank % (side.tp * side.cp * side.dp);
  uint32_t expert = info.expert, way = 0;
  if (type.num_experts && expert == DELTA_NONE)
    expert = at / side.etp % side.ep;
  if (type.axis == DELTA_AXIS_TP)
    way = at % side.tp / (side.tp / type.ways);
  else if (type.axis == DELTA_AXIS_ETP)
    way = at % side.etp / (side.etp / type.ways);
  else if (type.axis == DELTA_AXIS_STAGE)
    way = at / (side.tp * side.cp * side.dp / type.ways);
  uint64_t key = joined(0, isCopy ? type.copy_of : info.class_index);
  for (uint64_t part : {isCopy ? DELTA_NONE : info.layer, expert, way})
    key = joined(key, part);
  return key;
}

Layout::Layout(const delta_plan_api_t &api, delta_side_id_t side, uint32_t rank)
    : rank(rank) {
  const delta_side_t &table =
      side == DELTA_SOURCE ? api.tables->source : api.tables->destination;
  delta_index_t *made = nullptr;
  must([&](delta_error_t error) { return api.index_create(&made, error); });
  std::unique_ptr<delta_index_t, void (*)(delta_index_t *)> index(
      made, api.index_destroy);
  items.resize(api.param_count(made, side, rank));
  for (uint32_t i = 0; i < items.size(); ++i) {
    Item &item = items[i];
    if (api.param_info(made, side, rank, i, &item.info) != DELTA_OK)
      throw BenchError("rank " + std::to_string(rank) + ": parameter " +
                       std::to_string(i) + " is not in the plan's index");
    item.name = std::string(item.info.name);
    item.name.resize(std::min(item.name.find('\n'), item.name.size()));
    item.elementBytes = runtime::elementSize(item.info.dtype);
    item.at = numBytes;
    item.numBytes = uint64_t(item.info.num_elements) * item.elementBytes;
    if (side == DELTA_SOURCE)
      item.key = keyOf(table, rank, item.info);
    numBytes =
        (numBytes + item.numBytes + Alignment - 1) / Alignment * Alignment;
  }
}

std::vector<delta_param_t> Layout::bind(uint8_t *block) const {
  std::vector<delta_param_t> params(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const delta_param_info_t &info = items[i].info;
    delta_param_t &param = params[i] = {};
    param.name = items[i].name.c_str();
    param.chunk = info.chunk;
    param.dtype = info.dtype;
    param.rank = info.rank;
    std::copy(info.shape, info.shape + DELTA_MAX_RANK, param.shape);
    std::copy(info.stride, info.stride + DELTA_MAX_RANK, param.stride);
    param.data = block + items[i].at;
  }
  return params;
}

std::string Layout::differenceFrom(const Layout &other) const {
  if (items.size() != other.items.size())
    return "rank " + std::to_string(rank) + " has " +
           std::to_string(items.size()) + " and " +
           std::to_string(other.items.size()) + " parameters";
  for (size_t i = 0; i < items.size(); ++i) {
    const Item &own = items[i], &its = other.items[i];
    if (own.name != its.name || own.info.dtype != its.info.dtype ||
        own.info.rank != its.info.rank || own.info.chunk != its.info.chunk ||
        !std::equal(own.info.shape, own.info.shape + DELTA_MAX_RANK,
                    its.info.shape))
      return "parameter " + std::to_string(i) + " of rank " +
             std::to_string(rank) + " is \"" + own.name + "\" " +
             runtime::shapeText(own.info.shape, own.info.rank) + " and \"" +
             its.name + "\" " +
             runtime::shapeText(its.info.shape, its.info.rank);
  }
  return "";
}
