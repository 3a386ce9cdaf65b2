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
/// It is longer than other passes because every size-dependent constraint of
/// the dialect is checked here, next to the op that has it.
///
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"
#include "passes/Layout.h"
#include "passes/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringMap.h"

#include <nlohmann/json.hpp>

#include <map>
#include <set>

namespace delta {
#define GEN_PASS_DEF_INSTANTIATEPASS
#include "passes/Passes.h.inc"
} // namespace delta

using namespace delta;
using namespace mlir;

namespace {

using Shape = std::vector<int64_t>;

std::string str(const Shape &shape) {
  std::string out = "[";
  for (int64_t size : shape)
    out += (out.size() > 1 ? ", " : "") + std::to_string(size);
  return out + "]";
}

/// Number of elements, or nothing on overflow.
std::optional<int64_t> checkedSize(const Shape &shape) {
  int64_t n = 1;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(n, size, &n))
      return std::nullopt;
  return n;
}

/// A value of the config as expressions see it.
Evaluated fromJson(const nlohmann::json &json, const std::string &path) {
  if (json.is_boolean())
    return {ExprValue{json.get<bool>()}, {}};
  if (json.is_number_integer())
    return {ExprValue{json.get<int64_t>()}, {}};
  // Some publishers write whole numbers as 1.0.
  if (json.is_number_float() &&
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

/// Names that an op can see: its own region's symbols, then its parents'.
struct Scope {
  Scope *parent = nullptr;
  std::map<std::string, ExprValue> symbols;

  const ExprValue *find(const std::string &name) const {
    for (const Scope *scope = this; scope; scope = scope->parent) {
      auto it = scope->symbols.find(name);
      if (it != scope->symbols.end())
        return &it->second;
    }
    return nullptr;
  }
};

/// Where parameters of a region live and how their names begin.
struct Context {
  Scope *scope = nullptr;
  std::string trainer, hf;
  std::optional<std::string> stage;
  std::optional<std::vector<int64_t>> layers;
  bool experts = false;
  /// Block uses that led here, innermost last, for notes and recursion.
  std::vector<UseOp> uses;
  IRMapping *values = nullptr;
};

class Instantiator {
public:
  Instantiator(ModuleOp module, FamilyOp family, nlohmann::json config,
               std::optional<nlohmann::json> keys)
      : module(module), family(family), config(std::move(config)),
        keys(std::move(keys)), builder(module.getContext()) {}

  LogicalResult run(DictionaryAttr geometry, StringRef name);

private:
  //===--- expressions ----------------------------------------------------===//

  /// Error at an op of the family, with notes for the uses that led to it.
  InFlightDiagnostic error(Operation *op, const Context &context,
                           const Twine &text) {
    InFlightDiagnostic diagnostic = op->emitOpError(text);
    for (auto it = context.uses.rbegin(); it != context.uses.rend(); ++it) {
      UseOp use = *it;
      diagnostic.attachNote(use.getLoc()) << "used here";
    }
    return diagnostic;
  }

  FailureOr<ExprValue> evaluate(Operation *op, const Context &context,
                            const Expr &expr) {
    Environment environment;
    environment.symbol = [&](const std::string &name) -> Evaluated {
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
    Evaluated result = expr.evaluate(environment);
    if (!result.value) {
      error(op, context, result.error);
      return failure();
    }
    return *result.value;
  }

  FailureOr<int64_t> evaluateInt(Operation *op, const Context &context,
                                 ExprAttr attr) {
    FailureOr<ExprValue> value = evaluate(op, context, attr.getValue());
    if (failed(value))
      return failure();
    if (!value->isInt()) {
      error(op, context, "'" + attr.getValue().str() + "' is " +
                             toString(*value) + ", required an integer");
      return failure();
    }
    return std::get<int64_t>(value->data);
  }

  FailureOr<bool> evaluateBool(Operation *op, const Context &context,
                               ExprAttr attr) {
    FailureOr<ExprValue> value = evaluate(op, context, attr.getValue());
    if (failed(value))
      return failure();
    if (!value->isBool()) {
      error(op, context, "'" + attr.getValue().str() + "' is " +
                             toString(*value) + ", required true or false");
      return failure();
    }
    return std::get<bool>(value->data);
  }

  FailureOr<Shape> evaluateSizes(Operation *op, const Context &context,
                                 ArrayAttr list, int64_t least = 1) {
    Shape shape;
    for (ExprAttr attr : list.getAsRange<ExprAttr>()) {
      FailureOr<int64_t> size = evaluateInt(op, context, attr);
      if (failed(size))
        return failure();
      if (*size < least) {
        error(op, context, "size '" + attr.getValue().str() + "' is " +
                               Twine(*size) + ", required at least " +
                               Twine(least));
        return failure();
      }
      shape.push_back(*size);
    }
    return shape;
  }

  ArrayAttr literals(const Shape &shape) {
    SmallVector<Attribute> items;
    for (int64_t size : shape)
      items.push_back(ExprAttr::get(builder.getContext(), Expr::integer(size)));
    return builder.getArrayAttr(items);
  }

  FailureOr<std::string> expandName(Operation *op, const Context &context,
                                    const std::string &prefix, StringRef name);

  //===--- ops ------------------------------------------------------------===//

  LogicalResult walk(Region &region, Context context);
  LogicalResult visit(Operation *op, Context &context);
  LogicalResult use(UseOp op, Context &context);
  LogicalResult decoder(DecoderOp op, Context &context);
  LogicalResult layers(LayersOp op, Context &context);
  LogicalResult experts(ExpertsOp op, Context &context);
  LogicalResult param(ParamOp op, Context &context);
  LogicalResult copy(CopyOp op, Context &context);
  LogicalResult tensor(TensorOp op, Context &context);
  LogicalResult unshard(UnshardOp op, Context &context);
  LogicalResult reshape(ReshapeOp op, Context &context);
  LogicalResult transpose(TransposeOp op, Context &context);
  LogicalResult split(SplitOp op, Context &context);
  template <typename OpTy>
  LogicalResult join(OpTy op, Context &context, StringRef label);
  LogicalResult take(TakeOp op, Context &context);
  LogicalResult addScalar(AddScalarOp op, Context &context);

  LogicalResult checkDim(Operation *op, Context &context, StringRef label,
                         int64_t dim, const Shape &shape) {
    if (dim >= 0 && dim < int64_t(shape.size()))
      return success();
    return error(op, context, "(" + label + ") dim " + Twine(dim) +
                                  " of a value of shape " + str(shape));
  }

  /// Facts about a bound value.
  struct Facts {
    Shape shape;
    bool experts = false;
    bool layers = false;
    bool scalar = false; ///< went through an add_scalar
  };

  mlir::Value map(Context &context, mlir::Value value) {
    return context.values->lookup(value);
  }
  const Facts &factsOf(mlir::Value bound) { return facts.at(bound.getAsOpaquePointer()); }
  void define(Context &context, mlir::Value original, mlir::Value bound, Facts f) {
    context.values->map(original, bound);
    facts[bound.getAsOpaquePointer()] = std::move(f);
  }

  int64_t axisSize(StringRef axis) {
    return std::get<int64_t>(root.symbols.at(axis.str()).data);
  }

  ModuleOp module;
  FamilyOp family;
  nlohmann::json config;
  std::optional<nlohmann::json> keys;
  OpBuilder builder;
  DictionaryAttr geometry;
  Scope root;
  std::map<const void *, Facts> facts;
  std::set<const void *> produced; ///< values that are tensors already
  std::string storage, scheme;
  int64_t numLayers = 0, numExperts = 0;
  std::vector<std::vector<int64_t>> chunks;
  Type array;
};

} // namespace

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// Resolves the holes of a name. `{layer}`, `{layer+N}` and `{expert}` stay;
/// other holes are symbols.
FailureOr<std::string> Instantiator::expandName(Operation *op,
                                                const Context &context,
                                                const std::string &prefix,
                                                StringRef name) {
  std::string out, rest = prefix + name.str();
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
    size_t plus = hole.find('+');
    std::string head = hole.substr(0, plus);
    std::string offset;
    if (plus != std::string::npos) {
      std::string text = hole.substr(plus + 1);
      const ExprValue *value = context.scope->find(text);
      bool number = !text.empty() &&
                    text.find_first_not_of("0123456789") == std::string::npos;
      if (value && value->isInt())
        text = toString(*value);
      else if (!number) {
        error(op, context, "hole '{" + hole + "}' adds '" + text +
                               "', required an integer");
        return failure();
      }
      offset = "+" + text;
    }
    if (head == "layer" || head == "expert") {
      bool fits = head == "layer" ? context.layers.has_value()
                                  : context.experts;
      if (!fits) {
        error(op, context, "hole '{" + hole + "}' is outside of 'delta." +
                               head + "s'");
        return failure();
      }
      out += "{" + head + offset + "}";
      continue;
    }
    const ExprValue *value = context.scope->find(head);
    if (!value || (!value->isString() && !value->isInt())) {
      error(op, context, "hole '{" + hole + "}' is " +
                             (value ? toString(*value) : "unknown") +
                             ", required 'layer', 'expert' or a symbol with a "
                             "text or an integer");
      return failure();
    }
    std::string text = value->isString() ? std::get<std::string>(value->data)
                                         : toString(*value);
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
      return error(op, context, "(symbol_c1) '" + o.getName() +
                                    "' is defined already");
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
    return error(op, context, "(require_c1) '" +
                                  o.getCondition().getValue().str() +
                                  "' does not hold: " + o.getReason() +
                                  " (" + sizes + ")");
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
    return join(o, context, "concat_c1");
  if (auto o = dyn_cast<InterleaveOp>(op))
    return join(o, context, "interleave_c1");
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
      return error(op, context, "(use_c2) block '@" + op.getBlock() +
                                    "' uses itself");
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
      return error(op, context, "(symbol_c1) block '@" + op.getBlock() +
                                    "' defines '" + name +
                                    "', which is defined already");
  return success();
}

LogicalResult Instantiator::decoder(DecoderOp op, Context &context) {
  FailureOr<int64_t> count = evaluateInt(op, context, op.getLayers());
  if (failed(count))
    return failure();
  if (*count < 1 || *count > (1 << 16))
    return error(op, context, "(decoder_c1) '" +
                                  op.getLayers().getValue().str() + "' is " +
                                  Twine(*count) +
                                  ", required 1 to 65536 layers");
  numLayers = *count;
  std::optional<std::string> pattern;
  if (op.getPattern()) {
    FailureOr<ExprValue> value =
        evaluate(op, context, op.getPattern()->getValue());
    if (failed(value))
      return failure();
    if (!value->isString())
      return error(op, context, "(decoder_c2) pattern is " + toString(*value) +
                                    ", required a text");
    pattern = std::get<std::string>(value->data);
    if (int64_t(pattern->size()) != numLayers)
      return error(op, context, "(decoder_c2) pattern '" + *pattern +
                                    "' has " + Twine(pattern->size()) +
                                    " layers, the config " + Twine(numLayers));
    size_t unknown = pattern->find_first_not_of(op.getKinds()->str());
    if (unknown != std::string::npos)
      return error(op, context, "(decoder_c2) layer " + Twine(unknown) +
                                    " of pattern '" + *pattern + "' is '" +
                                    Twine((*pattern)[unknown]) +
                                    "', required one of '" + *op.getKinds() +
                                    "'");
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
  if (*number < 1 || (numExperts && numExperts != *number))
    return error(op, context, "(experts_c2) number of experts is " +
                                  Twine(*number) +
                                  (numExperts ? ", elsewhere it is " +
                                                    std::to_string(numExperts)
                                              : ", required at least 1"));
  if (*number % axisSize("ep") != 0)
    return error(op, context, "(experts_c3) " + Twine(*number) +
                                  " experts are not divisible by ep " +
                                  Twine(axisSize("ep")));
  numExperts = *number;
  Context inner = context;
  inner.experts = true;
  return walk(op.getBody(), inner);
}

//===----------------------------------------------------------------------===//
// Parameters and tensors
//===----------------------------------------------------------------------===//

LogicalResult Instantiator::param(ParamOp op, Context &context) {
  if (!context.layers && !context.stage)
    return error(op, context, "(param_c1) is outside of 'delta.layers' and "
                              "'delta.on'");
  FailureOr<Shape> shape = evaluateSizes(op, context, op.getShape());
  if (failed(shape))
    return failure();
  if (shape->empty() || shape->size() > 6 || !checkedSize(*shape))
    return error(op, context, "(param_c2) shape is " + str(*shape) +
                                  ", required 1 to 6 sizes whose product "
                                  "fits 64 bits");
  SmallVector<Attribute> names, schemes;
  for (auto [name, nameScheme] :
       llvm::zip(op.getNames().getAsRange<StringAttr>(),
                 op.getSchemes().getAsRange<StringAttr>())) {
    if (!nameScheme.empty() && nameScheme.getValue() != scheme)
      continue;
    FailureOr<std::string> full =
        expandName(op, context, context.trainer, name.getValue());
    if (failed(full))
      return failure();
    names.push_back(builder.getStringAttr(*full));
    schemes.push_back(builder.getStringAttr(""));
  }
  if (names.empty())
    return error(op, context, "(param_c3) has no name for the scheme '" +
                                  scheme + "'");
  StringRef dtype = op.getDtype() == "storage" ? StringRef(storage)
                                               : op.getDtype();
  auto bound = ParamOp::create(builder, op.getLoc(), array, builder.getArrayAttr(names),
      builder.getArrayAttr(schemes), literals(*shape),
      builder.getStringAttr(dtype),
      context.layers ? StringAttr() : builder.getStringAttr(*context.stage),
      context.layers ? builder.getDenseI64ArrayAttr(*context.layers)
                     : DenseI64ArrayAttr(),
      context.experts ? builder.getUnitAttr() : UnitAttr(), StringAttr(),
      IntegerAttr(), DenseI64ArrayAttr());
  define(context, op.getResult(), bound.getResult(),
         {*shape, context.experts, context.layers.has_value(), false});
  return success();
}

LogicalResult Instantiator::copy(CopyOp op, Context &context) {
  if (!context.stage)
    return error(op, context, "(copy_c2) is outside of 'delta.on'");
  FailureOr<std::string> name =
      expandName(op, context, context.trainer, op.getName());
  if (failed(name))
    return failure();
  CopyOp::create(builder, op.getLoc(), *name, map(context, op.getOriginal()),
                         builder.getStringAttr(*context.stage));
  return success();
}

LogicalResult Instantiator::tensor(TensorOp op, Context &context) {
  FailureOr<std::string> name =
      expandName(op, context, context.hf, op.getName());
  FailureOr<Shape> shape = evaluateSizes(op, context, op.getShape());
  if (failed(name) || failed(shape))
    return failure();
  if (op.getIfListed() && !(keys && keys->contains(*name)))
    return success();
  mlir::Value value = map(context, op.getValue());
  const Facts &f = factsOf(value);
  bool stacked = op.getStacked();
  if (stacked && (!f.experts || shape->front() != numExperts))
    return error(op, context, "(tensor_c2) stacks " +
                                  Twine(f.experts ? numExperts : 0) +
                                  " experts into a leading size of " +
                                  Twine(shape->front()));
  int64_t size = numElements(f.shape) * (stacked ? numExperts : 1);
  if (shape->size() > 6 || checkedSize(*shape) != size)
    return error(op, context, "(tensor_c1) shape " + str(*shape) +
                                  " for a value of shape " + str(f.shape) +
                                  (stacked ? " of " +
                                                 std::to_string(numExperts) +
                                                 " experts"
                                           : "") +
                                  ", required " + Twine(size) + " elements");
  bool expertHole = name->find("{expert") != std::string::npos;
  if (stacked && expertHole)
    return error(op, context, "(tensor_c2) name \"" + *name +
                                  "\" of a stack has an '{expert}'");
  if ((f.layers && name->find("{layer") == std::string::npos) ||
      (f.experts && !stacked && !expertHole))
    return error(op, context, "(tensor_c3) name \"" + *name +
                                  "\" is the same for all its layers or "
                                  "experts");
  // A second tensor of one value is an alias of the first.
  bool isAlias = !produced.insert(value.getAsOpaquePointer()).second;
  TensorOp::create(builder, op.getLoc(), builder.getStringAttr(*name), value,
                           literals(*shape), op.getStackedAttr(), UnitAttr(),
                           isAlias ? builder.getUnitAttr() : UnitAttr());
  return success();
}

//===----------------------------------------------------------------------===//
// Index functions
//===----------------------------------------------------------------------===//

LogicalResult Instantiator::unshard(UnshardOp op, Context &context) {
  mlir::Value value = map(context, op.getShards());
  Facts f = factsOf(value);
  int64_t dim = op.getDim();
  if (failed(checkDim(op, context, "unshard_c2", dim, f.shape)))
    return failure();
  if ((op.getAxis() == "etp") != f.experts)
    return error(op, context, "(unshard_c5) axis is '" + op.getAxis() +
                                  "' for " +
                                  (f.experts ? "an expert" : "a common") +
                                  " parameter, required '" +
                                  (f.experts ? "etp" : "tp") + "'");
  int64_t axis = axisSize(op.getAxis());
  int64_t ways = axis;
  if (op.getWays()) {
    FailureOr<int64_t> result = evaluateInt(op, context, *op.getWays());
    if (failed(result))
      return failure();
    ways = *result;
  }
  if (ways < 1 || axis % ways != 0)
    return error(op, context, "(unshard_c6) " + Twine(ways) +
                                  " ways do not divide axis '" + op.getAxis() +
                                  "' of size " + Twine(axis));
  FailureOr<Shape> sections =
      evaluateSizes(op, context, op.getSections(), /*least=*/0);
  if (failed(sections))
    return failure();
  Shape parts = sections->empty() ? Shape{f.shape[dim]} : *sections;
  int64_t sum = 0;
  for (int64_t part : parts) {
    sum += part;
    if (part % ways != 0)
      return error(op, context,
                   "(unshard_c3) dim " + Twine(dim) + " of size " +
                       Twine(f.shape[dim]) +
                       (sections->empty() ? "" : " has a section of size " +
                                                     std::to_string(part) +
                                                     ", which") +
                       " is not divisible by axis '" + op.getAxis() +
                       "' of size " + Twine(ways));
  }
  if (sum != f.shape[dim])
    return error(op, context, "(unshard_c4) sections " + str(parts) +
                                  " sum up to " + Twine(sum) + ", dim " +
                                  Twine(dim) + " has size " +
                                  Twine(f.shape[dim]));
  auto bound = UnshardOp::create(builder, op.getLoc(), array, value, op.getDimAttr(), op.getAxisAttr(),
      ExprAttr::get(builder.getContext(), Expr::integer(ways)),
      literals(*sections));
  define(context, op.getResult(), bound.getResult(), f);
  return success();
}

LogicalResult Instantiator::reshape(ReshapeOp op, Context &context) {
  mlir::Value value = map(context, op.getValue());
  Facts f = factsOf(value);
  FailureOr<Shape> shape = evaluateSizes(op, context, op.getShape());
  if (failed(shape))
    return failure();
  if (checkedSize(*shape) != numElements(f.shape))
    return error(op, context, "(reshape_c1) shape " + str(*shape) +
                                  " for a value of shape " + str(f.shape) +
                                  ", required " +
                                  Twine(numElements(f.shape)) + " elements");
  auto bound =
      ReshapeOp::create(builder, op.getLoc(), array, value, literals(*shape));
  f.shape = *shape;
  define(context, op.getResult(), bound.getResult(), f);
  return success();
}

LogicalResult Instantiator::transpose(TransposeOp op, Context &context) {
  mlir::Value value = map(context, op.getValue());
  Facts f = factsOf(value);
  ArrayRef<int64_t> permutation = op.getPermutation();
  std::set<int64_t> dims(permutation.begin(), permutation.end());
  int64_t rank = f.shape.size();
  if (int64_t(permutation.size()) != rank || int64_t(dims.size()) != rank ||
      *dims.begin() != 0 || *dims.rbegin() != rank - 1)
    return error(op, context, "(transpose_c1) permutation " +
                                  str(Shape(permutation)) +
                                  " of a value of shape " + str(f.shape));
  auto bound = TransposeOp::create(builder, op.getLoc(), array, value,
                                           op.getPermutationAttr());
  Shape shape;
  for (int64_t dim : permutation)
    shape.push_back(f.shape[dim]);
  f.shape = shape;
  define(context, op.getResult(), bound.getResult(), f);
  return success();
}

LogicalResult Instantiator::split(SplitOp op, Context &context) {
  mlir::Value value = map(context, op.getValue());
  Facts f = factsOf(value);
  int64_t dim = op.getDim();
  FailureOr<Shape> sizes = evaluateSizes(op, context, op.getSizes());
  if (failed(sizes) ||
      failed(checkDim(op, context, "split_c2", dim, f.shape)))
    return failure();
  int64_t sum = 0;
  for (int64_t size : *sizes)
    sum += size;
  if (sum != f.shape[dim])
    return error(op, context, "(split_c3) sizes " + str(*sizes) +
                                  " sum up to " + Twine(sum) + ", dim " +
                                  Twine(dim) + " has size " +
                                  Twine(f.shape[dim]));
  SmallVector<Type> types(sizes->size(), array);
  auto bound = SplitOp::create(builder, op.getLoc(), types, value,
                                       op.getDimAttr(), literals(*sizes));
  for (size_t i = 0; i < sizes->size(); ++i) {
    Facts part = f;
    part.shape[dim] = (*sizes)[i];
    define(context, op->getResult(i), bound->getResult(i), part);
  }
  return success();
}

template <typename OpTy>
LogicalResult Instantiator::join(OpTy op, Context &context, StringRef label) {
  SmallVector<mlir::Value> values;
  for (mlir::Value value : op.getValues())
    values.push_back(map(context, value));
  if (values.empty())
    return error(op, context, "(" + label + ") has no operands");
  Facts f = factsOf(values[0]);
  int64_t dim = op.getDim();
  if (failed(checkDim(op, context, label, dim, f.shape)))
    return failure();
  int64_t sum = 0;
  for (mlir::Value value : values) {
    const Facts &other = factsOf(value);
    Shape expected = f.shape;
    if (isa<ConcatOp>(*op) && other.shape.size() == expected.size())
      expected[dim] = other.shape[dim];
    if (other.shape != expected || other.experts != f.experts ||
        other.layers != f.layers || other.scalar != f.scalar)
      return error(op, context, "(" + label + ") operands have shapes " +
                                    str(f.shape) + " and " +
                                    str(other.shape) +
                                    ", required equal ones of parameters "
                                    "that live together");
    sum += other.shape[dim];
  }
  auto bound = OpTy::create(builder, op.getLoc(), array, values,
                                    op.getDimAttr());
  f.shape[dim] = sum;
  define(context, op.getResult(), bound.getResult(), f);
  return success();
}

LogicalResult Instantiator::take(TakeOp op, Context &context) {
  mlir::Value value = map(context, op.getValue());
  Facts f = factsOf(value);
  int64_t dim = op.getDim();
  FailureOr<int64_t> size = evaluateInt(op, context, op.getSize());
  if (failed(size) || failed(checkDim(op, context, "take_c1", dim, f.shape)))
    return failure();
  if (*size < 1 || *size > f.shape[dim])
    return error(op, context, "(take_c1) first " + Twine(*size) +
                                  " rows of dim " + Twine(dim) +
                                  " of a value of shape " + str(f.shape));
  auto bound = TakeOp::create(builder, op.getLoc(), array, value, op.getDimAttr(),
      ExprAttr::get(builder.getContext(), Expr::integer(*size)),
      op.getReasonAttr());
  f.shape[dim] = *size;
  define(context, op.getResult(), bound.getResult(), f);
  return success();
}

LogicalResult Instantiator::addScalar(AddScalarOp op, Context &context) {
  mlir::Value value = map(context, op.getValue());
  Facts f = factsOf(value);
  if (op.getScalar() != 1 || f.scalar)
    return error(op, context, "(add_scalar_c1) adds " +
                                  Twine(op.getScalar()) +
                                  (f.scalar ? " after another" : "") +
                                  ", required 1, once");
  auto bound = AddScalarOp::create(builder, op.getLoc(), array, value,
                                           op.getScalarAttr());
  f.scalar = true;
  define(context, op.getResult(), bound.getResult(), f);
  return success();
}

//===----------------------------------------------------------------------===//
// Sides
//===----------------------------------------------------------------------===//

static const StringRef axes[] = {"tp", "cp",  "dp", "ep",
                                 "etp", "edp", "pp", "vpp"};

LogicalResult Instantiator::run(DictionaryAttr geometryAttr, StringRef name) {
  geometry = geometryAttr;
  array = ArrayType::get(builder.getContext());
  SmallVector<NamedAttribute> mesh;
  auto number = [&](StringRef key, int64_t fallback) {
    auto attr = dyn_cast_or_null<IntegerAttr>(geometry.get(key));
    return attr ? attr.getInt() : fallback;
  };
  for (StringRef axis : axes) {
    root.symbols[axis.str()] = ExprValue{number(axis, 1)};
    mesh.push_back(builder.getNamedAttr(
        axis, builder.getI64IntegerAttr(number(axis, 1))));
  }
  for (StringRef option : {"vocab_multiple", "mtp_layers"})
    root.symbols[option.str()] = ExprValue{number(option, 0)};
  auto text = [&](StringRef key, StringRef fallback) {
    auto attr = dyn_cast_or_null<StringAttr>(geometry.get(key));
    return (attr ? attr.getValue() : fallback).str();
  };
  storage = text("dtype", "bf16");
  scheme = text("experts", "grouped");

  builder.setInsertionPointToEnd(module.getBody());
  auto side = SideOp::create(builder, family.getLoc(), name, builder.getDictionaryAttr(mesh), 0, 0,
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
  if (numExperts == 0 && axisSize("ep") > 1)
    return family.emitOpError("ep is ")
           << axisSize("ep") << ", the model has no experts";
  if (axisSize("etp") > 1 && numExperts == 0)
    return family.emitOpError("etp is ")
           << axisSize("etp") << ", the model has no experts";

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
