//===- CoalesceRuns.cpp - Neighboring pieces into longer runs -------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"
#include "passes/Passes.h"

namespace delta {
#define GEN_PASS_DEF_COALESCERUNSPASS
#include "passes/Passes.h.inc"
} // namespace delta

using namespace delta;
using namespace mlir;

namespace {
struct CoalesceRuns : delta::impl::CoalesceRunsPassBase<CoalesceRuns> {
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    getOperation().walk([&](ApplyOp apply) {
      SmallVector<Attribute> maps;
      for (MapAttr attr : apply.getMaps().getAsRange<MapAttr>()) {
        ShardedMap map = attr.getValue();
        for (IndexMap &way : map.ways)
          way.coalesce();
        maps.push_back(MapAttr::get(&getContext(), map));
      }
      apply.setMapsAttr(builder.getArrayAttr(maps));
    });
  }
};
} // namespace
