//===- InstantiateLayout.cpp - What only layouts of engines have ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Binds what an engine does in its own way: how it deals out layers, where its
/// experts lie, what its ranks hold in part alike.
///
//===----------------------------------------------------------------------===//

#include "passes/Instantiator.h"

using namespace delta;
using namespace mlir;

/// How an engine deals its layers out by itself.
LogicalResult Instantiator::layersPerStage(DecoderOp op, Context &context,
                                           PipelineLayout &layout) {
  int64_t sum = 0;
  for (int64_t stage = 0; stage < layout.pp; ++stage) {
    Scope scope{context.scope, {{"stage", {ExprValue{stage}, {}}}}};
    Context inner = context;
    inner.scope = &scope;
    FailureOr<int64_t> count = evaluateInt(op, inner, *op.getPerStage());
    if (failed(count))
      return failure();
    layout.stages.push_back(*count);
    sum += *count;
    if (*count < 0)
      return error(op, context,
                   "(decoder_c3) stage " + Twine(stage) + " has " +
                       Twine(*count) + " layers");
  }
  if (sum != numLayers)
    return error(op, context,
                 "(decoder_c3) stages of " + str(layout.stages) +
                     " layers, the model has " + Twine(numLayers));
  return success();
}

/// Slots of an engine's experts: those that the geometry gives, else an expert
/// in each, dealt out in their order: the first ranks have one more where ep
/// does not divide them.
LogicalResult Instantiator::placeExperts(SideOp side) {
  side.setEngineAttr(family.getEngineAttr());
  if (numExperts == 0)
    return success();
  int64_t ep = axisSize("ep");
  auto numbers = [&](StringRef key) -> std::vector<int64_t> {
    auto list = dyn_cast_or_null<DenseI64ArrayAttr>(geometry.get(key));
    return list ? std::vector<int64_t>(list.asArrayRef())
                : std::vector<int64_t>();
  };
  std::vector<int64_t> slots = numbers("expert_slots"), begins = {0};
  auto extra = dyn_cast_or_null<IntegerAttr>(geometry.get("redundant_experts"));
  auto robin = dyn_cast_or_null<StringAttr>(geometry.get("expert_placement"));
  int64_t perTable = numExperts + (extra ? extra.getInt() : 0);
  int64_t numTables = 1;
  if (!slots.empty()) {
    auto tables =
        dyn_cast_or_null<IntegerAttr>(geometry.get("expert_slot_tables"));
    numTables = tables ? tables.getInt() : 1;
    perTable = int64_t(slots.size()) / numTables;
  }
  for (int64_t p = 0; p < ep; ++p)
    begins.push_back(begins.back() + perTable / ep + (p < perTable % ep));
  if (slots.empty()) {
    for (int64_t slot = 0; slot < perTable; ++slot)
      slots.push_back(slot % numExperts);
    if (robin && robin.getValue() == "round_robin") {
      slots.clear();
      for (int64_t p = 0; p < ep; ++p)
        for (int64_t expert = p; expert < numExperts; expert += ep)
          slots.push_back(expert);
    }
  }
  if (numTables != 1 && numTables != side.numAllLayers())
    return side.emitOpError("expert_placement has ")
           << numTables << " tables, required one, or one for each of "
           << side.numAllLayers() << " layers";
  for (int64_t table = 0; table < numTables; ++table) {
    std::vector<int64_t> count(numExperts);
    for (int64_t slot = 0; slot < perTable; ++slot) {
      int64_t expert = slots[table * perTable + slot];
      if (expert < 0 || expert >= numExperts)
        return side.emitOpError("expert_placement: slot ")
               << slot << " holds expert " << expert << " of " << numExperts;
      ++count[expert];
    }
    auto missing = llvm::find(count, 0);
    if (missing != count.end())
      return side.emitOpError("expert_placement: no slot")
             << (numTables > 1 ? " of table " + std::to_string(table)
                               : std::string())
             << " holds expert " << missing - count.begin() << " of "
             << numExperts;
  }
  side.setSlotsAttr(builder.getDenseI64ArrayAttr(slots));
  side.setSlotBeginsAttr(builder.getDenseI64ArrayAttr(begins));
  return success();
}

/// The slots of a stack are its parameter's leading dimension.
LogicalResult Instantiator::checkStacked(ParamOp op, Context &context,
                                         const Shape &shape) {
  if (shape.size() > 5)
    return error(op, context,
                 "(param_c2) shape of a slot is " + str(shape) +
                     ", required 1 to 5 sizes");
  if (op.getSlot() ? context.experts : !context.experts)
    return error(op, context,
                 op.getSlot()
                     ? "(param_c5) is a slot of its own inside 'delta.experts'"
                     : "(param_c5) stacks experts outside of 'delta.experts'");
  for (StringAttr name : op.getNames().getAsRange<StringAttr>())
    if (name.getValue().contains("{expert"))
      return error(op, context,
                   "(param_c5) name \"" + name.str() +
                       "\" of a stack has an '{expert}'");
  return success();
}

/// The stack that has the slot stands before it, on the same layers.
LogicalResult Instantiator::checkSlot(ParamOp bound, Context &context) {
  int64_t number = *bound.getSlot()->getValue().literal();
  for (auto other :
       bound->getParentOfType<SideOp>().getBody().front().getOps<ParamOp>()) {
    if (other.getNames() != bound.getNames() || other == bound ||
        !other.getExperts() || !other.getStacked())
      continue;
    int64_t extra =
        other.getExtra() ? *other.getExtra()->getValue().literal() : 0;
    llvm::SmallDenseSet<int64_t> layers(other.getLayers()->begin(),
                                        other.getLayers()->end());
    bool alike = other.getShape() == bound.getShape() &&
                 other.getDtype() == bound.getDtype() &&
                 llvm::all_of(*bound.getLayers(), [&](int64_t layer) {
                   return layers.contains(layer);
                 });
    if (number < extra && alike)
      return success();
    return error(bound, context,
                 "(param_c5) slot " + Twine(number) + " of a stack of " +
                     Twine(extra) +
                     " extra ones, required one of them, of the same shape, "
                     "type and layers");
  }
  return error(bound, context,
               "(param_c5) no stacked parameter of its name "
               "stands before it");
}

LogicalResult Instantiator::refresh(RefreshOp op, Context &context) {
  if (!isLayout())
    return error(op, context, "(refresh_c1) stands in a trainer's family");
  RefreshOp::create(builder, op.getLoc(), op.getMethodAttr(),
                    map(context, op.getParam()));
  return success();
}

/// Distinct parts of each section.
FailureOr<Shape> Instantiator::waysOfSections(UnshardOp op, Context &context,
                                              int64_t ways, size_t count) {
  Shape out(count, ways);
  if (!op.getSectionWays())
    return out;
  if (!isLayout()) {
    error(op, context,
          "(unshard_c7) has ways for a section, in the family of a trainer");
    return failure();
  }
  FailureOr<Shape> own =
      evaluateSizes(op, context, *op.getSectionWays(), /*least=*/0);
  if (failed(own))
    return failure();
  for (size_t i = 0; i < count; ++i) {
    if ((*own)[i] == 0)
      continue;
    out[i] = (*own)[i];
    if (ways % out[i] == 0)
      continue;
    error(op, context,
          "(unshard_c7) " + Twine(out[i]) + " ways of section " + Twine(i) +
              " do not divide the " + Twine(ways) + " of the others");
    return failure();
  }
  return out;
}
