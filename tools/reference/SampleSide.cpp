//===- SampleSide.cpp - Single elements of one side -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/reference/SampleSide.h"

#include <algorithm>

namespace delta::reference {

int64_t SideView::wayOf(int64_t param, const Coordinates &at) const {
  const Geometry &g = interpreter.side().geometry;
  const std::string &axis = puller.axis(param);
  int64_t coordinate = at.inStage, size = g.tp * g.cp * g.dp;
  if (axis == "tp")
    coordinate = at.tp, size = g.tp;
  if (axis == "etp")
    coordinate = at.etp, size = g.etp;
  return coordinate * puller.ways(param) / size;
}

std::vector<int64_t> SideView::expertsOf(int64_t layer, int64_t ep) const {
  const Geometry &g = interpreter.side().geometry;
  std::vector<int64_t> experts;
  if (g.slots.empty()) {
    int64_t each = interpreter.side().numExperts / g.ep;
    for (int64_t e = 0; e < each; ++e)
      experts.push_back(ep * each + e);
    return experts;
  }
  const std::vector<int64_t> &table =
      g.slots.size() > 1 ? g.slots[size_t(layer)] : g.slots[0];
  experts.assign(table.begin() + g.slotBegins[size_t(ep)],
                 table.begin() + g.slotBegins[size_t(ep) + 1]);
  return experts;
}

bool SideView::holds(int64_t param, uint32_t rank, int64_t layer,
                     int64_t expert, uint32_t chunk,
                     const std::string &name) const {
  const Side &side = interpreter.side();
  const Geometry &g = side.geometry;
  const Param &record = side.params[size_t(param)];
  Coordinates at = interpreter.coordinates(rank);
  LayerPlace place;
  if (record.stage == Stage::Last)
    place = {g.pp - 1, g.vpp - 1, 0};
  else if (record.stage == Stage::Layers) {
    if (!std::binary_search(record.layers.begin(), record.layers.end(), layer))
      return false;
    place = interpreter.layerPlaces()[size_t(layer)];
  }
  bool isExperts = record.expert && !record.stack;
  if ((record.stage == Stage::Layers) != (layer != kNone) || record.slotOf ||
      isExperts != (expert != kNone) || place.stage != at.pp ||
      place.chunk != int64_t(chunk))
    return false;
  int64_t namedExpert = expert;
  if (isExperts) {
    std::vector<int64_t> own = expertsOf(layer, at.ep);
    auto it = std::find(own.begin(), own.end(), expert);
    if (it == own.end())
      return false;
    if (side.engine.empty())
      namedExpert = it - own.begin();
  }
  return expandName(record.names[0], place.local, namedExpert) == name;
}

/// Sizes of one shard, by the rule that finds its elements.
static int64_t sizeOf(const Interpreter &interpreter, int64_t param) {
  int64_t size = 1;
  for (int64_t extent : interpreter.localShape(param))
    size *= extent;
  return size;
}

Shape SideView::memoryShape(int64_t param, uint32_t rank) const {
  const Param &record = interpreter.side().params[size_t(param)];
  Shape shape = interpreter.localShape(param);
  if (record.stack) {
    int64_t layer = record.layers.front();
    int64_t ep = interpreter.coordinates(rank).ep;
    shape.insert(shape.begin(),
                 int64_t(expertsOf(layer, ep).size()) + record.extra);
  }
  return shape;
}

Shape SideView::shownShape(int64_t param, uint32_t rank) const {
  return viewed(memoryShape(param, rank),
                interpreter.side().params[size_t(param)].view);
}

std::optional<Known> SideView::locate(int64_t param, uint32_t rank,
                                      int64_t layer, int64_t expert,
                                      int64_t element) const {
  const Side &side = interpreter.side();
  Coordinates at = interpreter.coordinates(rank);
  int64_t owner = param;
  if (side.params[size_t(param)].stack) {
    std::vector<int64_t> own = expertsOf(layer, at.ep);
    int64_t each = sizeOf(interpreter, param);
    int64_t slot = element / each, numOwn = int64_t(own.size());
    element %= each;
    if (slot < numOwn) {
      expert = own[size_t(slot)];
    } else {
      owner = kNone;
      for (size_t p = 0; p < side.params.size(); ++p)
        if (side.params[p].slotOf == param &&
            side.params[p].slot == slot - numOwn)
          owner = int64_t(p);
      if (owner == kNone)
        return std::nullopt;
    }
  }
  Known known;
  known.origin.param = interpreter.original(owner);
  known.origin.element = puller.unsharded(owner, wayOf(owner, at), element);
  known.layer = layer;
  known.expert = expert;
  return known;
}

std::string SideView::describe(const Known &known) const {
  return "\"" +
         interpreter.globalName(known.origin.param, known.layer, known.expert) +
         "\" element " + std::to_string(known.origin.element);
}

int64_t SideView::numPlaces(int64_t param, const Known &known) const {
  const Geometry &g = interpreter.side().geometry;
  const bool isExperts = interpreter.side().params[size_t(param)].expert;
  std::vector<int64_t> slots(size_t(g.ep), 1);
  for (int64_t ep = 0; isExperts && ep < g.ep; ++ep) {
    std::vector<int64_t> own = expertsOf(known.layer, ep);
    slots[size_t(ep)] = std::count(own.begin(), own.end(), known.expert);
  }
  int64_t places = 0;
  for (int64_t rank = 0; rank < g.tp * g.cp * g.dp; ++rank) {
    Coordinates at = interpreter.coordinates(rank);
    if (puller.isIn(param, wayOf(param, at), known.origin.element))
      places += slots[size_t(at.ep)];
  }
  return places;
}

} // namespace delta::reference
