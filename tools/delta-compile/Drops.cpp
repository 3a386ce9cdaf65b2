//===- Drops.cpp - What a side leaves out, for the page -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Drops.h"

#include "passes/Classes.h"

using namespace delta;

std::vector<report::Drop> delta::dropsOf(SideOp side) {
  std::vector<report::Drop> drops;
  if (!side)
    return drops;
  SideClasses classes(side);
  for (auto drop : side.getBody().front().getOps<DropOp>()) {
    ApplyOp apply = applyOf(drop);
    for (auto [value, attr] :
         llvm::zip(apply.getValues(), apply.getMaps().getAsRange<MapAttr>())) {
      report::Drop out;
      out.classIndex = classes.number.lookup(value.getDefiningOp());
      out.reason = drop.getReason().str();
      const ShardedMap &map = attr.getValue();
      for (size_t way = 0; way < map.ways.size(); ++way)
        for (const Piece &piece : map.ways[way].pieces) {
          report::Strided elements = {piece.source, {}};
          for (const Loop &loop : piece.loops)
            elements.loops.push_back({loop.extent, loop.source});
          out.parts.push_back({uint32_t(way), elements});
        }
      if (!out.parts.empty())
        drops.push_back(std::move(out));
    }
  }
  return drops;
}
