//===- SampleSide.cpp - Single elements of one side -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/reference/SampleSide.h"

#include <algorithm>

namespace delta::reference {

bool SideView::holds(int64_t param, uint32_t rank, int64_t layer,
                     int64_t expert, uint32_t chunk, const std::string &name,
                     int64_t &outWay) const {
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
  if ((record.stage == Stage::Layers) != (layer != kNone) ||
      record.expert != (expert != kNone) || place.stage != at.pp ||
      place.chunk != int64_t(chunk))
    return false;
  int64_t localExpert = expert;
  if (record.expert) {
    int64_t each = side.numExperts / g.ep;
    if (expert / each != at.ep)
      return false;
    localExpert = expert % each;
  }
  const std::string &axis = puller.axis(param);
  int64_t ways = puller.ways(param);
  outWay = axis == "tp"    ? at.tp / (g.tp / ways)
           : axis == "etp" ? at.etp / (g.etp / ways)
                           : 0;
  return expandName(record.names[0], place.local, localExpert) == name;
}

std::string SideView::describe(const Known &known) const {
  return "\"" +
         interpreter.globalName(known.origin.param, known.layer, known.expert) +
         "\" element " + std::to_string(known.origin.element);
}

int64_t SideView::numHolders(int64_t param) const {
  const Geometry &g = interpreter.side().geometry;
  int64_t ranks = g.tp * g.cp * g.dp / puller.ways(param);
  return interpreter.side().params[size_t(param)].expert ? ranks / g.ep : ranks;
}

} // namespace delta::reference
