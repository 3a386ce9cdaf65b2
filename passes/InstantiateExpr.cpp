//===- InstantiateExpr.cpp - Expressions and names of a family ------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What expressions look up while a family is bound: symbols, the config, the
/// key list. Remembers which keys a value comes from, so that an error about a
/// size can point to the config.
///
//===----------------------------------------------------------------------===//

#include "passes/Instantiator.h"
#include "passes/NameTemplate.h"

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

std::pair<const nlohmann::json *, std::string>
Instantiator::lookup(const std::string &key) const {
  auto find = [&](const nlohmann::json &object,
                  const std::string &name) -> const nlohmann::json * {
    auto it = object.find(name);
    return it == object.end() || it->is_null() ? nullptr : &*it;
  };
  if (const nlohmann::json *part =
          configPart.empty() ? nullptr : find(config, configPart);
      part && part->is_object())
    if (const nlohmann::json *value = find(*part, key))
      return {value, configPart + "." + key};
  const nlohmann::json *value = &config;
  for (size_t at = 0; value && at <= key.size();) {
    size_t dot = std::min(key.find('.', at), key.size());
    value =
        value->is_object() ? find(*value, key.substr(at, dot - at)) : nullptr;
    at = dot + 1;
  }
  return {value, key};
}

Evaluated Instantiator::isListed(Operation *op, const Context &context,
                                 const std::string &name) {
  if (!keys)
    return {};
  FailureOr<std::string> full = expandName(op, context, NameOf::Tensor, name);
  if (failed(full))
    return {std::nullopt, " "};
  std::vector<int64_t> rows = {0};
  if (context.layers && full->find("{layer") != std::string::npos)
    rows = *context.layers;
  bool each = context.experts && full->find("{expert") != std::string::npos;
  std::optional<bool> listed;
  std::string first;
  for (int64_t row : rows)
    for (int64_t expert = 0; expert < (each ? numExperts : 1); ++expert) {
      std::string filled = fillName(*full, row, expert);
      bool here = keys->contains(filled);
      if (listed && *listed != here)
        return {std::nullopt, "the checkpoint lists \"" +
                                  (here ? filled : first) + "\" and not \"" +
                                  (here ? first : filled) +
                                  "\", required all of them or none"};
      if (!listed)
        first = filled;
      listed = here;
    }
  return {ExprValue{*listed}, {}};
}

FailureOr<ExprValue> Instantiator::evaluate(Operation *op,
                                            const Context &context,
                                            const Expr &expr) {
  Environment environment;
  environment.symbol = [&](const std::string &name) -> Evaluated {
    askedForMtp |= name == "mtp_layers";
    askedForScores |= name == "scores";
    if (const Scope::Symbol *symbol = context.scope->find(name)) {
      for (const auto &[key, value] : symbol->origins)
        reads.insert({key, value});
      return {symbol->value, {}};
    }
    return {std::nullopt, "unknown symbol '" + name + "'"};
  };
  environment.config = [&](const std::string &key) -> Evaluated {
    auto [json, path] = lookup(key);
    if (!json)
      return {};
    reads.insert({path, json->dump()});
    return fromJson(*json, "config." + path);
  };
  environment.listed = [&](const std::string &name) {
    return isListed(op, context, name);
  };
  environment.fallback = [&](const std::vector<std::string> &keys,
                             const ExprValue &value) {
    // Sizes and options that a family names; not what it asks in passing.
    if (isa<SymbolOp, UseOp>(op))
      defaults[keys.front()] = toString(value);
  };
  Evaluated result = expr.evaluate(environment);
  if (!result.value) {
    // A name that makes no sense has been reported.
    if (result.error != " ")
      error(op, context, result.error);
    return failure();
  }
  return *result.value;
}

FailureOr<ExprValue> Instantiator::evaluateFresh(Operation *op,
                                                 const Context &context,
                                                 const Expr &expr,
                                                 Origins &outOrigins) {
  Origins outer;
  std::swap(outer, reads);
  FailureOr<ExprValue> value = evaluate(op, context, expr);
  outOrigins = reads;
  reads.insert(outer.begin(), outer.end());
  return value;
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

void Instantiator::noteOrigins(InFlightDiagnostic &diagnostic, Operation *op,
                               const Context &context) {
  auto places = module->getAttrOfType<DictionaryAttr>("delta.config_places");
  if (!places)
    return;
  Origins origins = reads;
  for (mlir::Value operand : op->getOperands())
    if (mlir::Value bound = context.values->lookupOrNull(operand))
      if (auto it = facts.find(bound.getAsOpaquePointer()); it != facts.end())
        origins.insert(it->second.origins.begin(), it->second.origins.end());
  for (const auto &[key, value] : origins)
    if (auto place = dyn_cast_or_null<LocationAttr>(places.get(key)))
      diagnostic.attachNote(Location(place))
          << "config." << key << " is "
          << (value.size() > 60 ? value.substr(0, 57) + "..." : value);
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// `N` of a hole `{layer+N}`: an integer or a symbol with one; -1: neither.
static int64_t offsetOf(const std::string &text, const Scope &scope) {
  if (const Scope::Symbol *symbol = scope.find(text))
    return symbol->value.isInt() ? std::get<int64_t>(symbol->value.data) : -1;
  int64_t offset = -1;
  return StringRef(text).getAsInteger(10, offset) ? -1 : offset;
}

FailureOr<std::string> Instantiator::expandName(Operation *op,
                                                const Context &context,
                                                NameOf kind, StringRef name,
                                                size_t alternative) {
  bool isTensor = kind == NameOf::Tensor;
  std::string out,
      rest =
          (isTensor ? context.hf : context.trainer[alternative]) + name.str();
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
      offset = offsetOf(text, *context.scope);
      if (offset < 0 || offset > (1 << 20)) {
        error(op, context,
              "hole '{" + hole + "}' adds '" + text +
                  "', required an integer from 0 to 1048576");
        return failure();
      }
    }
    const Scope::Symbol *symbol = context.scope->find(head);
    // In `where` a layer is a number like any other.
    bool open = head == "expert" || (head == "layer" && !symbol);
    if (open &&
        !(head == "layer" ? context.layers.has_value() : context.experts)) {
      error(op, context,
            "hole '{" + hole + "}' is outside of 'delta." + head + "s'");
      return failure();
    }
    if (open) {
      // A stack's layers are numbered on after the decoder's.
      if (isTensor && head == "layer")
        offset -= context.firstRow;
      out += "{" + head + (offset > 0 ? "+" : "") +
             (offset ? std::to_string(offset) : "") + "}";
      continue;
    }
    const ExprValue *value = symbol ? &symbol->value : nullptr;
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
