//===- FoldInstances.cpp - Layers and experts into tables -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Where each layer and each expert lives, once a side. Megatron-Core deals
/// layers out with the virtual stage outermost: chunk 0 of all stages, then
/// chunk 1 of all stages; local numbers restart in every chunk. An engine calls
/// its layers by their global numbers.
///
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"
#include "passes/Passes.h"

namespace delta {
#define GEN_PASS_DEF_FOLDINSTANCESPASS
#include "passes/Passes.h.inc"
} // namespace delta

using namespace delta;
using namespace mlir;

static LogicalResult foldLayers(SideOp side, OpBuilder &builder) {
  std::vector<std::vector<int64_t>> stages;
  size_t numChunks = 0;
  for (Attribute stage : side.getStages()) {
    stages.emplace_back();
    for (Attribute chunk : cast<ArrayAttr>(stage))
      stages.back().push_back(cast<IntegerAttr>(chunk).getInt());
    numChunks = std::max(numChunks, stages.back().size());
  }
  SmallVector<int64_t> table;
  int64_t number = 0;
  bool isEngine = side.getEngine().has_value();
  auto add = [&](int64_t stage, int64_t chunk, int64_t local, int64_t global) {
    table.append({stage, chunk, isEngine ? global : local, number++});
  };
  for (size_t chunk = 0; chunk < numChunks; ++chunk)
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      if (chunk >= stages[stage].size())
        return side.emitOpError("stage ")
               << stage << " has " << stages[stage].size()
               << " chunks, another one has " << numChunks;
      for (int64_t local = 0; local < stages[stage][chunk]; ++local)
        add(stage, chunk, local, number);
    }
  // A stack is a chunk's beside its decoder layers: local numbers restart.
  for (auto [count, place] : side.stacksOfLayers()) {
    int64_t stage = place == "first" ? 0 : int64_t(stages.size()) - 1;
    int64_t chunk = place == "first" ? 0 : int64_t(numChunks) - 1;
    for (int64_t local = 0; local < count; ++local)
      add(stage, chunk, local, local);
  }
  side.setPlacementAttr(builder.getDenseI64ArrayAttr(table));
  return success();
}

/// An engine's experts: the first slot of each, of the first table.
static void foldSlots(SideOp side, OpBuilder &builder) {
  ArrayRef<int64_t> begins = side.getSlotBeginsAttr().asArrayRef();
  ArrayRef<int64_t> slots = side.getSlotsAttr().asArrayRef();
  SmallVector<int64_t> table(2 * side.getExperts(), -1);
  for (size_t p = 0; p + 1 < begins.size(); ++p)
    for (int64_t slot = begins[p]; slot < begins[p + 1]; ++slot)
      if (int64_t expert = slots[slot]; table[2 * expert] < 0) {
        table[2 * expert] = p;
        table[2 * expert + 1] = slot - begins[p];
      }
  side.setExpertRanksAttr(builder.getDenseI64ArrayAttr(table));
}

static LogicalResult foldExperts(SideOp side, OpBuilder &builder) {
  auto size = dyn_cast_or_null<IntegerAttr>(side.getMesh().get("ep"));
  int64_t ep = size ? size.getInt() : 1;
  int64_t experts = side.getExperts();
  if (side.getSlots()) {
    foldSlots(side, builder);
    return success();
  }
  if (experts % ep != 0)
    return side.emitOpError("(experts_c3) ")
           << experts << " experts are not divisible by ep " << ep;
  SmallVector<int64_t> table;
  for (int64_t expert = 0; expert < experts; ++expert)
    table.append({expert / (experts / ep), expert % (experts / ep)});
  side.setExpertRanksAttr(builder.getDenseI64ArrayAttr(table));
  return success();
}

namespace {
struct FoldInstances : delta::impl::FoldInstancesPassBase<FoldInstances> {
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    for (auto side : getOperation().getOps<SideOp>())
      if (failed(foldLayers(side, builder)) ||
          failed(foldExperts(side, builder)))
        return signalPassFailure();
  }
};
} // namespace
