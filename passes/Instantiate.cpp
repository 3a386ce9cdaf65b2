//===- Instantiate.cpp - Bind a family to a config and a geometry ---------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Walks a family once for each geometry, evaluates its expressions, follows
/// its uses and leaves a side of straight-line ops. Layers and experts are not
/// unrolled: a parameter keeps the list of its layers.
///
//===----------------------------------------------------------------------===//

#include "passes/Instantiator.h"
#include "passes/Layout.h"
#include "passes/Passes.h"

namespace delta {
#define GEN_PASS_DEF_INSTANTIATEPASS
#include "passes/Passes.h.inc"
} // namespace delta

using namespace delta;
using namespace mlir;

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

LogicalResult Instantiator::walk(Region &region, Context context) {
  if (region.empty())
    return success();
  Scope scope{context.scope, {}};
  context.scope = &scope;
  for (Operation &op : region.front())
    if (failed(visit(&op, context)))
      return failure();
  return success();
}

LogicalResult Instantiator::visit(Operation *op, Context &context) {
  auto conditional = [&](ExprAttr condition, Region &then, Region &otherwise) {
    FailureOr<bool> value = evaluateBool(op, context, condition);
    if (failed(value))
      return LogicalResult(failure());
    return walk(*value ? then : otherwise, context);
  };
  reads.clear();
  if (auto o = dyn_cast<SymbolOp>(op)) {
    Scope::Symbol symbol;
    FailureOr<ExprValue> value =
        evaluateFresh(op, context, o.getValue().getValue(), symbol.origins);
    if (failed(value))
      return failure();
    symbol.value = *value;
    if (!context.scope->symbols.emplace(o.getName().str(), symbol).second)
      return error(op, context,
                   "(symbol_c1) '" + o.getName() + "' is defined already");
    return success();
  }
  if (auto o = dyn_cast<RequireOp>(op)) {
    FailureOr<bool> value = evaluateBool(op, context, o.getCondition());
    if (failed(value))
      return failure();
    if (*value)
      return success();
    std::string sizes;
    for (StringRef axis : {"tp", "ep", "etp", "pp", "vpp"})
      sizes += (sizes.empty() ? "" : ", ") + axis.str() + " " +
               std::to_string(axisSize(axis));
    return error(op, context,
                 "(require_c1) '" + o.getCondition().getValue().str() +
                     "' does not hold: " + o.getReason() + " (" + sizes + ")");
  }
  if (auto o = dyn_cast<IfOp>(op))
    return conditional(o.getCondition(), o.getThenRegion(), o.getElseRegion());
  if (auto o = dyn_cast<ConfigPartOp>(op)) {
    if (!configPart.empty())
      return error(op, context,
                   "(config_part_c1) is the second one of its family");
    configPart = o.getKey().str();
    return success();
  }
  if (auto o = dyn_cast<OnOp>(op)) {
    Context inner = context;
    inner.stage = o.getStage().str();
    return walk(o.getBody(), inner);
  }
  if (auto o = dyn_cast<ScopeOp>(op)) {
    Context inner = context;
    inner.trainer.clear();
    for (const std::string &prefix : context.trainer) {
      inner.trainer.push_back(prefix + o.getTrainer().str());
      if (o.getOther())
        inner.trainer.push_back(prefix + o.getOther()->str());
    }
    inner.hf += o.getHf();
    return walk(o.getBody(), inner);
  }
  if (auto o = dyn_cast<DropOp>(op)) {
    if (isDestination && !isLayout())
      return error(op, context,
                   "(drop_c1) leaves values of the destination that no tensor "
                   "holds: " +
                       o.getReason());
    DropOp::create(builder, o.getLoc(), map(context, o.getValue()),
                   o.getReasonAttr());
    return success();
  }
  if (auto o = dyn_cast<UseOp>(op))
    return use(o, context);
  if (auto o = dyn_cast<DecoderOp>(op))
    return decoder(o, context);
  if (auto o = dyn_cast<LayersOp>(op))
    return layers(o, context);
  if (auto o = dyn_cast<StackOp>(op))
    return stack(o, context);
  if (auto o = dyn_cast<ExpertsOp>(op))
    return experts(o, context);
  if (auto o = dyn_cast<ParamOp>(op))
    return param(o, context);
  if (auto o = dyn_cast<CopyOp>(op))
    return copy(o, context);
  if (auto o = dyn_cast<RefreshOp>(op))
    return refresh(o, context);
  if (auto o = dyn_cast<TensorOp>(op))
    return tensor(o, context);
  if (auto o = dyn_cast<UnshardOp>(op))
    return unshard(o, context);
  if (auto o = dyn_cast<ReshapeOp>(op))
    return reshape(o, context);
  if (auto o = dyn_cast<TransposeOp>(op))
    return transpose(o, context);
  if (auto o = dyn_cast<SplitOp>(op))
    return split(o, context);
  if (auto o = dyn_cast<ConcatOp>(op))
    return join(op, o.getDim(), context, "concat_c1");
  if (auto o = dyn_cast<InterleaveOp>(op))
    return join(op, o.getDim(), context, "interleave_c1");
  if (auto o = dyn_cast<TakeOp>(op))
    return take(o, context);
  if (auto o = dyn_cast<AddScalarOp>(op))
    return addScalar(o, context);
  if (auto o = dyn_cast<CastOp>(op))
    return bindCast(o, context);
  if (auto o = dyn_cast<PassthroughOp>(op))
    return passthrough(o, context);
  return error(op, context, "does not belong into a family");
}

LogicalResult Instantiator::use(UseOp op, Context &context) {
  auto block = module.lookupSymbol<BlockOp>(op.getBlock());
  if (!block)
    return error(op, context, "(use_c1) no block '@" + op.getBlock() + "'");
  for (UseOp outer : context.uses)
    if (outer.getBlock() == op.getBlock())
      return error(op, context,
                   "(use_c2) block '@" + op.getBlock() + "' uses itself");
  Scope bindings{context.scope, {}};
  for (auto [name, value] : llvm::zip(op.getNames().getAsRange<StringAttr>(),
                                      op.getValues().getAsRange<ExprAttr>())) {
    Scope::Symbol &symbol = bindings.symbols[name.getValue().str()];
    FailureOr<ExprValue> result =
        evaluateFresh(op, context, value.getValue(), symbol.origins);
    if (failed(result))
      return failure();
    symbol.value = *result;
  }
  Context inner = context;
  Scope own{&bindings, {}};
  inner.scope = &own;
  inner.uses.push_back(op);
  IRMapping values;
  inner.values = &values;
  for (Operation &child : block.getBody().front())
    if (failed(visit(&child, inner)))
      return failure();
  // What the block defines is known after the use.
  for (auto &[name, symbol] : own.symbols)
    if (!context.scope->symbols.emplace(name, symbol).second)
      return error(op, context,
                   "(symbol_c1) block '@" + op.getBlock() + "' defines '" +
                       name + "', which is defined already");
  return success();
}

LogicalResult Instantiator::decoder(DecoderOp op, Context &context) {
  if (numLayers != 0)
    return error(op, context, "(family_c1) is the second one of its family");
  FailureOr<int64_t> count = evaluateInt(op, context, op.getLayers());
  if (failed(count))
    return failure();
  if (*count < 1 || *count > (1 << 16))
    return error(op, context,
                 "(decoder_c1) '" + op.getLayers().getValue().str() + "' is " +
                     Twine(*count) + ", required 1 to 65536 layers");
  numLayers = numRows = *count;
  std::optional<std::string> pattern;
  if (op.getPattern()) {
    FailureOr<ExprValue> value =
        evaluate(op, context, op.getPattern()->getValue());
    if (failed(value))
      return failure();
    if (!value->isString())
      return error(op, context,
                   "(decoder_c2) pattern is " + toString(*value) +
                       ", required a text");
    pattern = std::get<std::string>(value->data);
    if (int64_t(pattern->size()) != numLayers)
      return error(op, context,
                   "(decoder_c2) pattern '" + *pattern + "' has " +
                       Twine(pattern->size()) + " layers, the config " +
                       Twine(numLayers));
    size_t unknown = pattern->find_first_not_of(op.getKinds()->str());
    if (unknown != std::string::npos)
      return error(op, context,
                   "(decoder_c2) layer " + Twine(unknown) + " of pattern '" +
                       *pattern + "' is '" + Twine((*pattern)[unknown]) +
                       "', required one of '" + *op.getKinds() + "'");
  }

  PipelineLayout layout;
  layout.pp = axisSize("pp");
  layout.vpp = axisSize("vpp");
  auto flag = [&](StringRef name) {
    auto attr = dyn_cast_or_null<BoolAttr>(geometry.get(name));
    return attr && attr.getValue();
  };
  layout.accountForEmbedding = flag("account_for_embedding");
  layout.accountForLoss = flag("account_for_loss");
  if (auto text = dyn_cast_or_null<StringAttr>(geometry.get("pp_layout")))
    layout.pattern = text.getValue().str();
  if (auto list = dyn_cast_or_null<ArrayAttr>(geometry.get("pp_layout")))
    for (Attribute stage : list) {
      if (auto number = dyn_cast<IntegerAttr>(stage))
        layout.stages.push_back(number.getInt());
      if (auto inner = dyn_cast<ArrayAttr>(stage)) {
        layout.chunks.emplace_back();
        for (Attribute chunk : inner)
          layout.chunks.back().push_back(cast<IntegerAttr>(chunk).getInt());
      }
    }
  std::string text;
  bool isGiven =
      layout.pattern || !layout.stages.empty() || !layout.chunks.empty();
  if (op.getPerStage() && !isGiven &&
      failed(layersPerStage(op, context, layout)))
    return failure();
  auto result = layersOfChunks(numLayers, layout, pattern, text);
  if (!result)
    return error(op, context, text);
  chunks = *result;
  return success();
}

LogicalResult Instantiator::layers(LayersOp op, Context &context) {
  if (numLayers == 0)
    return error(op, context,
                 "(layers_c2) stands before the 'delta.decoder', which gives "
                 "the number of layers");
  return bindLayers(op, op.getCondition(), 0, numLayers, op.getBody(), context);
}

LogicalResult Instantiator::stack(StackOp op, Context &context) {
  if (numLayers == 0)
    return error(op, context,
                 "(stack_c2) stands before the 'delta.decoder', after whose "
                 "layers its own are numbered");
  FailureOr<int64_t> count = evaluateInt(op, context, op.getLayers());
  if (failed(count))
    return failure();
  if (*count < 0 || *count > (1 << 16))
    return error(op, context,
                 "(stack_c3) '" + op.getLayers().getValue().str() + "' is " +
                     Twine(*count) + ", required 0 to 65536 layers");
  if (*count == 0)
    return success();
  int64_t firstRow = numRows;
  numRows += *count;
  stacks.push_back(builder.getArrayAttr(
      {builder.getI64IntegerAttr(*count), op.getStageAttr()}));
  return bindLayers(op, op.getCondition().value_or(ExprAttr()), firstRow,
                    *count, op.getBody(), context);
}

LogicalResult Instantiator::bindLayers(Operation *op, ExprAttr condition,
                                       int64_t firstRow, int64_t count,
                                       Region &body, const Context &context) {
  std::vector<int64_t> chosen;
  for (int64_t layer = 0; layer < count; ++layer) {
    Scope scope{context.scope, {{"layer", {ExprValue{layer}, {}}}}};
    Context inner = context;
    inner.scope = &scope;
    FailureOr<bool> value =
        condition ? evaluateBool(op, inner, condition) : true;
    if (failed(value))
      return failure();
    if (*value)
      chosen.push_back(firstRow + layer);
  }
  if (chosen.empty())
    return success();
  Context inner = context;
  inner.layers = std::move(chosen);
  inner.firstRow = firstRow;
  return walk(body, inner);
}

LogicalResult Instantiator::experts(ExpertsOp op, Context &context) {
  FailureOr<int64_t> number = evaluateInt(op, context, op.getNumber());
  if (failed(number))
    return failure();
  if (!context.layers)
    return error(op, context,
                 "(experts_c1) is outside of 'delta.layers' and 'delta.stack'");
  if (*number < 1 || *number > (1 << 16) ||
      (numExperts && numExperts != *number))
    return error(op, context,
                 "(experts_c2) number of experts is " + Twine(*number) +
                     (numExperts
                          ? ", elsewhere it is " + std::to_string(numExperts)
                          : ", required 1 to 65536"));
  if (!isLayout() && *number % axisSize("ep") != 0)
    return error(op, context,
                 "(experts_c3) " + Twine(*number) +
                     " experts are not divisible by ep " +
                     Twine(axisSize("ep")));
  numExperts = *number;
  Context inner = context;
  inner.experts = true;
  return walk(op.getBody(), inner);
}

//===----------------------------------------------------------------------===//
// Sides
//===----------------------------------------------------------------------===//

static const StringRef axes[] = {"tp",  "cp",  "dp", "ep",
                                 "etp", "edp", "pp", "vpp"};

LogicalResult Instantiator::run(DictionaryAttr geometryAttr, StringRef name) {
  geometry = geometryAttr;
  isDestination = name == "destination";
  array = ArrayType::get(builder.getContext());
  SmallVector<NamedAttribute> mesh;
  auto number = [&](StringRef key, int64_t fallback) {
    auto attr = dyn_cast_or_null<IntegerAttr>(geometry.get(key));
    return attr ? attr.getInt() : fallback;
  };
  for (StringRef axis : axes) {
    root.symbols[axis.str()].value = ExprValue{number(axis, 1)};
    mesh.push_back(
        builder.getNamedAttr(axis, builder.getI64IntegerAttr(number(axis, 1))));
  }
  // mtp_layers -1: not given, the config decides.
  for (auto [key, fallback] : {std::pair<StringRef, int64_t>{"mtp_layers", -1},
                               {"vocab_multiple", 0},
                               {"scores", 0}})
    root.symbols[key.str()].value = ExprValue{number(key, fallback)};
  auto text = [&](StringRef key, StringRef fallback) {
    auto attr = dyn_cast_or_null<StringAttr>(geometry.get(key));
    return (attr ? attr.getValue() : fallback).str();
  };
  if (isLayout()) {
    root.symbols["moe_pad"].value = ExprValue{number("moe_pad", 0)};
    root.symbols["w13_order"].value = ExprValue{text("w13_order", "gate_up")};
    root.symbols["fuse_shared_experts"].value =
        ExprValue{number("fuse_shared_experts", 0) != 0};
    root.symbols["attention_dp"].value = ExprValue{number("attention_dp", 1)};
    root.symbols["redundant_experts"].value =
        ExprValue{number("redundant_experts", 0)};
    root.symbols["expert_placement"].value =
        ExprValue{text("expert_placement", "linear")};
  }
  storage = text("dtype", "bf16");
  scheme = text("experts", "grouped");

  builder.setInsertionPointToEnd(module.getBody());
  auto side = SideOp::create(
      builder, family.getLoc(), name, builder.getDictionaryAttr(mesh), 0, 0,
      builder.getArrayAttr({}), ArrayAttr(), StringAttr(), DenseI64ArrayAttr(),
      DenseI64ArrayAttr(), DenseI64ArrayAttr(), DenseI64ArrayAttr());
  side.getBody().emplaceBlock();
  builder.setInsertionPointToStart(&side.getBody().front());

  IRMapping values;
  Context context;
  context.scope = &root;
  context.values = &values;
  // The number of layers is needed before the first `layers`; the op may come
  // after symbols that it uses, never after layers.
  if (failed(walk(family.getBody(), context)))
    return failure();

  if (numLayers == 0)
    return error(family, context, "(family_c1) binds no 'delta.decoder' op");

  SmallVector<Attribute> stages;
  for (const std::vector<int64_t> &stage : chunks)
    stages.push_back(builder.getI64ArrayAttr(stage));
  side.setLayers(numLayers);
  side.setExperts(numExperts);
  side.setStagesAttr(builder.getArrayAttr(stages));
  if (!this->stacks.empty())
    side.setStacksAttr(builder.getArrayAttr(this->stacks));
  if (isLayout() && failed(placeExperts(side)))
    return failure();
  if (number("mtp_layers", -1) > 0 && !askedForMtp)
    return error(family, context,
                 "mtp_layers is " + Twine(number("mtp_layers", -1)) +
                     ", the family has no multi-token-prediction layers");
  if (number("scores", 0) > 0 && !askedForScores)
    return error(family, context,
                 "head has " + Twine(number("scores", 0)) +
                     " scores, the family has no head but the LM head");
  for (StringRef axis : {"ep", "etp"})
    if (numExperts == 0 && !(isLayout() && axis == "etp") && axisSize(axis) > 1)
      return error(family, context,
                   axis + " is " + Twine(axisSize(axis)) +
                       ", the model has no experts");

  if (!defaults.empty() && name == "source") {
    std::string text;
    for (const auto &[key, value] : defaults)
      text += (text.empty() ? "" : ", ") + key + " = " + value;
    module.emitRemark("the config leaves out or nulls: ") << text;
  }

  // A parameter that nothing reads was forgotten.
  for (auto param : side.getBody().front().getOps<ParamOp>()) {
    bool read = llvm::any_of(param.getResult().getUsers(), [](Operation *user) {
      return !isa<CopyOp, RefreshOp>(user);
    });
    if (!read)
      return param.emitOpError("parameter ")
             << param.getNames()[0]
             << " has no tensor; a 'delta.drop' says why one has none";
  }
  return success();
}

namespace {
struct Instantiate : delta::impl::InstantiatePassBase<Instantiate> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<FamilyOp> families, layouts;
    for (auto family : module.getOps<FamilyOp>())
      (family.getEngine() ? layouts : families).push_back(family);
    for (auto [list, what, most] : {std::tuple(&families, "families", 1),
                                    std::tuple(&layouts, "layouts", 0)})
      if (list->size() > 1 || int(list->size()) < most) {
        module.emitError("(family_c2) module has ")
            << list->size() << " " << what << ", required one";
        return signalPassFailure();
      }
    auto parse = [&](StringRef name,
                     nlohmann::json fallback) -> std::optional<nlohmann::json> {
      auto text = module->getAttrOfType<StringAttr>(name);
      if (!text)
        return fallback;
      nlohmann::json json = nlohmann::json::parse(
          text.getValue().str(), nullptr, /*allow_exceptions=*/false);
      if (json.is_object())
        return json;
      module.emitError("attribute '") << name << "' is not a JSON object";
      return std::nullopt;
    };
    auto config = parse("delta.config", nlohmann::json::object());
    auto keys = parse("delta.keys", nlohmann::json());
    if (!config || !keys)
      return signalPassFailure();
    std::optional<nlohmann::json> keyList;
    if (keys->is_object())
      keyList = *keys;
    auto source = module->getAttrOfType<DictionaryAttr>("delta.source");
    if (!source)
      source = DictionaryAttr::get(&getContext());
    auto destination =
        module->getAttrOfType<DictionaryAttr>("delta.destination");

    Instantiator first(module, families[0], *config, keyList);
    if (failed(first.run(source, "source")))
      return signalPassFailure();
    if (destination) {
      Instantiator second(module, layouts.empty() ? families[0] : layouts[0],
                          *config, keyList);
      if (failed(second.run(destination, "destination")))
        return signalPassFailure();
    }
    for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
      if (!isa<SideOp>(op))
        op.erase();
  }
};
} // namespace
