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

/// A value of the config as expressions see it.
static Evaluated fromJson(const nlohmann::json &json, const std::string &path) {
  if (json.is_boolean())
    return {ExprValue{json.get<bool>()}, {}};
  if (json.is_number_integer())
    return {ExprValue{json.get<int64_t>()}, {}};
  // Some publishers write whole numbers as 1.0.
  if (json.is_number_float() && std::abs(json.get<double>()) < 0x1p62 &&
      json.get<double>() == double(int64_t(json.get<double>())))
    return {ExprValue{int64_t(json.get<double>())}, {}};
  if (json.is_string())
    return {ExprValue{json.get<std::string>()}, {}};
  if (!json.is_array())
    return {std::nullopt, path + " is " + json.dump() +
                              ", required an integer, a text, a boolean or a "
                              "list of them"};
  List list;
  for (size_t i = 0; i < json.size(); ++i) {
    Evaluated item = fromJson(json[i], path + "[" + std::to_string(i) + "]");
    if (!item.value)
      return item;
    list.push_back(*item.value);
  }
  return {ExprValue{list}, {}};
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

FailureOr<ExprValue> Instantiator::evaluate(Operation *op,
                                            const Context &context,
                                            const Expr &expr) {
  Environment environment;
  environment.symbol = [&](const std::string &name) -> Evaluated {
    askedForMtp |= name == "mtp_layers";
    if (const ExprValue *value = context.scope->find(name))
      return {*value, {}};
    return {std::nullopt, "unknown symbol '" + name + "'"};
  };
  environment.config = [&](const std::string &key) -> Evaluated {
    auto it = config.find(key);
    if (it == config.end() || it->is_null())
      return {};
    return fromJson(*it, "config." + key);
  };
  environment.fallback = [&](const std::vector<std::string> &keys,
                             const ExprValue &value) {
    // Sizes and options that a family names; not what it asks in passing.
    if (isa<SymbolOp, UseOp>(op))
      defaults[keys.front()] = toString(value);
  };
  Evaluated result = expr.evaluate(environment);
  if (!result.value) {
    error(op, context, result.error);
    return failure();
  }
  return *result.value;
}

FailureOr<int64_t> Instantiator::evaluateInt(Operation *op,
                                             const Context &context,
                                             ExprAttr attr) {
  FailureOr<ExprValue> value = evaluate(op, context, attr.getValue());
  if (failed(value))
    return failure();
  if (!value->isInt()) {
    error(op, context,
          "'" + attr.getValue().str() + "' is " + toString(*value) +
              ", required an integer");
    return failure();
  }
  return std::get<int64_t>(value->data);
}

FailureOr<bool> Instantiator::evaluateBool(Operation *op,
                                           const Context &context,
                                           ExprAttr attr) {
  FailureOr<ExprValue> value = evaluate(op, context, attr.getValue());
  if (failed(value))
    return failure();
  if (!value->isBool()) {
    error(op, context,
          "'" + attr.getValue().str() + "' is " + toString(*value) +
              ", required true or false");
    return failure();
  }
  return std::get<bool>(value->data);
}

FailureOr<Shape> Instantiator::evaluateSizes(Operation *op,
                                             const Context &context,
                                             ArrayAttr list, int64_t least) {
  Shape shape;
  for (ExprAttr attr : list.getAsRange<ExprAttr>()) {
    FailureOr<int64_t> size = evaluateInt(op, context, attr);
    if (failed(size))
      return failure();
    if (*size < least) {
      error(op, context,
            "size '" + attr.getValue().str() + "' is " + Twine(*size) +
                ", required at least " + Twine(least));
      return failure();
    }
    shape.push_back(*size);
  }
  return shape;
}

ArrayAttr Instantiator::literals(const Shape &shape) {
  SmallVector<Attribute> items;
  for (int64_t size : shape)
    items.push_back(ExprAttr::get(builder.getContext(), Expr::integer(size)));
  return builder.getArrayAttr(items);
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

FailureOr<std::string> Instantiator::expandName(Operation *op,
                                                const Context &context,
                                                const std::string &prefix,
                                                StringRef name) {
  std::string out, rest = prefix + name.str();
  int64_t numHoles = 0;
  for (size_t at = 0; at < rest.size();) {
    if (rest[at] != '{') {
      out += rest[at++];
      continue;
    }
    size_t end = rest.find('}', at);
    if (end == std::string::npos) {
      error(op, context, "name \"" + rest + "\" has an open hole");
      return failure();
    }
    std::string hole = rest.substr(at + 1, end - at - 1);
    at = end + 1;
    // A text that holds its own name would be filled in for ever.
    if (++numHoles > 100) {
      error(op, context,
            "hole '{" + hole + "}' stands for a text that needs it again");
      return failure();
    }
    size_t plus = hole.find('+');
    std::string head = hole.substr(0, plus);
    int64_t offset = 0;
    if (plus != std::string::npos) {
      std::string text = hole.substr(plus + 1);
      const ExprValue *value = context.scope->find(text);
      if (value && value->isInt())
        offset = std::get<int64_t>(value->data);
      else if (StringRef(text).getAsInteger(10, offset))
        offset = -1;
      if (offset < 0 || offset > (1 << 20)) {
        error(op, context,
              "hole '{" + hole + "}' adds '" + text +
                  "', required an integer from 0 to 1048576");
        return failure();
      }
    }
    if (head == "layer" || head == "expert") {
      bool fits =
          head == "layer" ? context.layers.has_value() : context.experts;
      if (!fits) {
        error(op, context,
              "hole '{" + hole + "}' is outside of 'delta." + head + "s'");
        return failure();
      }
      out += "{" + head + (offset ? "+" + std::to_string(offset) : "") + "}";
      continue;
    }
    const ExprValue *value = context.scope->find(head);
    if (!value || (!value->isString() && !value->isInt())) {
      error(op, context,
            "hole '{" + hole + "}' is " +
                (value ? toString(*value) : "unknown") +
                ", required 'layer', 'expert' or a symbol with a "
                "text or an integer");
      return failure();
    }
    if (value->isString() && offset != 0) {
      error(op, context,
            "hole '{" + hole + "}' adds to the text " + toString(*value));
      return failure();
    }
    std::string text =
        value->isString()
            ? std::get<std::string>(value->data)
            : std::to_string(std::get<int64_t>(value->data) + offset);
    // A bound name may itself have holes: resolve them in place.
    rest = text + rest.substr(at);
    at = 0;
  }
  return out;
}

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
  if (auto o = dyn_cast<SymbolOp>(op)) {
    FailureOr<ExprValue> value = evaluate(op, context, o.getValue().getValue());
    if (failed(value))
      return failure();
    if (!context.scope->symbols.emplace(o.getName().str(), *value).second)
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
  if (auto o = dyn_cast<OnOp>(op)) {
    Context inner = context;
    inner.stage = o.getStage().str();
    return walk(o.getBody(), inner);
  }
  if (auto o = dyn_cast<ScopeOp>(op)) {
    Context inner = context;
    inner.trainer += o.getTrainer();
    inner.hf += o.getHf();
    return walk(o.getBody(), inner);
  }
  if (auto o = dyn_cast<DropOp>(op)) {
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
  if (auto o = dyn_cast<ExpertsOp>(op))
    return experts(o, context);
  if (auto o = dyn_cast<ParamOp>(op))
    return param(o, context);
  if (auto o = dyn_cast<CopyOp>(op))
    return copy(o, context);
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
    FailureOr<ExprValue> result = evaluate(op, context, value.getValue());
    if (failed(result))
      return failure();
    bindings.symbols[name.getValue().str()] = *result;
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
  for (auto &[name, value] : own.symbols)
    if (!context.scope->symbols.emplace(name, value).second)
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
  numLayers = *count;
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
  std::vector<int64_t> chosen;
  for (int64_t layer = 0; layer < numLayers; ++layer) {
    Scope scope{context.scope, {{"layer", ExprValue{layer}}}};
    Context inner = context;
    inner.scope = &scope;
    FailureOr<bool> value = evaluateBool(op, inner, op.getCondition());
    if (failed(value))
      return failure();
    if (*value)
      chosen.push_back(layer);
  }
  if (chosen.empty())
    return success();
  Context inner = context;
  inner.layers = std::move(chosen);
  return walk(op.getBody(), inner);
}

LogicalResult Instantiator::experts(ExpertsOp op, Context &context) {
  FailureOr<int64_t> number = evaluateInt(op, context, op.getNumber());
  if (failed(number))
    return failure();
  if (!context.layers)
    return error(op, context, "(experts_c1) is outside of 'delta.layers'");
  if (*number < 1 || *number > (1 << 16) ||
      (numExperts && numExperts != *number))
    return error(op, context,
                 "(experts_c2) number of experts is " + Twine(*number) +
                     (numExperts
                          ? ", elsewhere it is " + std::to_string(numExperts)
                          : ", required 1 to 65536"));
  if (*number % axisSize("ep") != 0)
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
    root.symbols[axis.str()] = ExprValue{number(axis, 1)};
    mesh.push_back(
        builder.getNamedAttr(axis, builder.getI64IntegerAttr(number(axis, 1))));
  }
  root.symbols["vocab_multiple"] = ExprValue{number("vocab_multiple", 0)};
  // -1: not given, the config decides.
  root.symbols["mtp_layers"] = ExprValue{number("mtp_layers", -1)};
  auto text = [&](StringRef key, StringRef fallback) {
    auto attr = dyn_cast_or_null<StringAttr>(geometry.get(key));
    return (attr ? attr.getValue() : fallback).str();
  };
  storage = text("dtype", "bf16");
  scheme = text("experts", "grouped");

  builder.setInsertionPointToEnd(module.getBody());
  auto side = SideOp::create(
      builder, family.getLoc(), name, builder.getDictionaryAttr(mesh), 0, 0,
      builder.getArrayAttr({}), DenseI64ArrayAttr(), DenseI64ArrayAttr());
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

  SmallVector<Attribute> stages;
  for (const std::vector<int64_t> &stage : chunks)
    stages.push_back(builder.getI64ArrayAttr(stage));
  side.setLayers(numLayers);
  side.setExperts(numExperts);
  side.setStagesAttr(builder.getArrayAttr(stages));
  if (number("mtp_layers", -1) > 0 && !askedForMtp)
    return error(family, context,
                 "mtp_layers is " + Twine(number("mtp_layers", -1)) +
                     ", the family has no multi-token-prediction layers");
  for (StringRef axis : {"ep", "etp"})
    if (numExperts == 0 && axisSize(axis) > 1)
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
      return !isa<CopyOp>(user);
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
    auto families = llvm::to_vector(module.getOps<FamilyOp>());
    if (families.size() != 1) {
      module.emitError("module has ")
          << families.size() << " families, required one";
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
      Instantiator second(module, families[0], *config, keyList);
      if (failed(second.run(destination, "destination")))
        return signalPassFailure();
    }
    for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
      if (!isa<SideOp>(op))
        op.erase();
  }
};
} // namespace
