//===- Expr.cpp - Sizes and conditions over named symbols -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/Expr.h"

#include <algorithm>
#include <map>

using namespace delta;

struct Expr::Node {
  ExprKind kind;
  int64_t number = 0;
  std::vector<std::string> names; ///< symbol, config keys, text, function
  std::vector<Expr> operands;
};

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

Expr Expr::integer(int64_t value) {
  return Expr(std::make_shared<Node>(Node{ExprKind::Int, value, {}, {}}));
}
Expr Expr::boolean(bool value) {
  return Expr(std::make_shared<Node>(Node{ExprKind::Bool, value, {}, {}}));
}
Expr Expr::string(std::string value) {
  return Expr(std::make_shared<Node>(
      Node{ExprKind::String, 0, {std::move(value)}, {}}));
}
Expr Expr::symbol(std::string name) {
  return Expr(
      std::make_shared<Node>(Node{ExprKind::Symbol, 0, {std::move(name)}, {}}));
}
Expr Expr::config(std::vector<std::string> names,
                  std::optional<Expr> fallback) {
  Node node{ExprKind::Config, 0, std::move(names), {}};
  if (fallback)
    node.operands.push_back(*fallback);
  return Expr(std::make_shared<Node>(std::move(node)));
}
Expr Expr::listed(std::string name, Expr fallback) {
  return Expr(std::make_shared<Node>(
      Node{ExprKind::Listed, 0, {std::move(name)}, {std::move(fallback)}}));
}
Expr Expr::make(ExprKind kind, std::vector<Expr> operands) {
  return Expr(std::make_shared<Node>(Node{kind, 0, {}, std::move(operands)}));
}
Expr Expr::call(std::string function, std::vector<Expr> operands) {
  return Expr(std::make_shared<Node>(
      Node{ExprKind::Call, 0, {std::move(function)}, std::move(operands)}));
}

std::optional<size_t> Expr::arity(const std::string &function) {
  static const std::map<std::string, size_t> arities = {
      {"len", 1}, {"min", 2}, {"max", 2}, {"round_up", 2}, {"select", 3}};
  auto it = arities.find(function);
  if (it == arities.end())
    return std::nullopt;
  return it->second;
}

ExprKind Expr::kind() const { return node->kind; }

std::optional<int64_t> Expr::literal() const {
  if (node->kind == ExprKind::Int)
    return node->number;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

static std::string quote(const std::string &text) {
  const char *digits = "0123456789ABCDEF";
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c < ' ' || c == 0x7f) {
      out += {'\\', digits[c / 16], digits[c % 16]};
      continue;
    }
    if (c == '"' || c == '\\')
      out += '\\';
    out += char(c);
  }
  return out + "\"";
}

std::string delta::toString(const ExprValue &value) {
  if (value.isInt())
    return std::to_string(std::get<int64_t>(value.data));
  if (value.isBool())
    return std::get<bool>(value.data) ? "true" : "false";
  if (value.isString())
    return quote(std::get<std::string>(value.data));
  std::string out = "[";
  for (const ExprValue &item : std::get<List>(value.data))
    out += (out.size() > 1 ? ", " : "") + toString(item);
  return out + "]";
}

namespace {
/// Spelling and binding strength of the infix operators.
struct Infix {
  const char *text;
  int strength;
};
} // namespace

static std::optional<Infix> infix(ExprKind kind) {
  switch (kind) {
  case ExprKind::Or:
    return Infix{" or ", 1};
  case ExprKind::And:
    return Infix{" and ", 2};
  case ExprKind::Equal:
    return Infix{" == ", 4};
  case ExprKind::NotEqual:
    return Infix{" ne ", 4};
  case ExprKind::Less:
    return Infix{" < ", 4};
  case ExprKind::LessEqual:
    return Infix{" le ", 4};
  case ExprKind::Greater:
    return Infix{" > ", 4};
  case ExprKind::GreaterEqual:
    return Infix{" ge ", 4};
  case ExprKind::Add:
    return Infix{" + ", 5};
  case ExprKind::Sub:
    return Infix{" - ", 5};
  case ExprKind::Mul:
    return Infix{" * ", 6};
  case ExprKind::Div:
    return Infix{" / ", 6};
  case ExprKind::Mod:
    return Infix{" mod ", 6};
  default:
    return std::nullopt;
  }
}

static int strengthOf(ExprKind kind) {
  if (auto op = infix(kind))
    return op->strength;
  if (kind == ExprKind::Not)
    return 3;
  // Lookups end with an open `else`.
  if (kind == ExprKind::Config || kind == ExprKind::Listed)
    return 0;
  return 7;
}

std::string Expr::str(bool inAttribute) const {
  auto wrap = [&](const Expr &operand, int strength) {
    std::string text = operand.str(inAttribute);
    return strengthOf(operand.kind()) < strength ? "(" + text + ")" : text;
  };
  const Node &n = *node;
  if (auto op = infix(n.kind)) {
    std::string sign = op->text;
    if (inAttribute && n.kind == ExprKind::Less)
      sign = " lt ";
    if (inAttribute && n.kind == ExprKind::Greater)
      sign = " gt ";
    // Comparisons do not chain: one inside another is in parentheses.
    bool chains = op->strength != 4;
    return wrap(n.operands[0], op->strength + !chains) + sign +
           wrap(n.operands[1], op->strength + 1);
  }
  switch (n.kind) {
  case ExprKind::Int:
    return std::to_string(n.number);
  case ExprKind::Bool:
    return n.number ? "true" : "false";
  case ExprKind::String:
    return quote(n.names[0]);
  case ExprKind::Symbol:
    return n.names[0];
  case ExprKind::Config:
  case ExprKind::Listed: {
    std::string out = n.kind == ExprKind::Config ? "config " : "listed ";
    for (size_t i = 0; i < n.names.size(); ++i)
      out += (i ? " | " : "") + quote(n.names[i]);
    return n.operands.empty() ? out
                              : out + " else " + n.operands[0].str(inAttribute);
  }
  case ExprKind::Index:
    return wrap(n.operands[0], 7) + "[" + n.operands[1].str(inAttribute) + "]";
  case ExprKind::Not:
    return "not " + wrap(n.operands[0], 3);
  case ExprKind::Negate:
    return "-" + wrap(n.operands[0], 7);
  default: {
    std::string out = n.names[0] + "(";
    for (size_t i = 0; i < n.operands.size(); ++i)
      out += (i ? ", " : "") + n.operands[i].str(inAttribute);
    return out + ")";
  }
  }
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

static Evaluated fail(std::string error) {
  return {std::nullopt, std::move(error)};
}
static Evaluated ok(ExprValue value) { return {std::move(value), {}}; }

static Evaluated arithmetic(ExprKind kind, int64_t a, int64_t b,
                            const std::string &text) {
  int64_t result = 0;
  bool overflow = false;
  switch (kind) {
  case ExprKind::Add:
    overflow = __builtin_add_overflow(a, b, &result);
    break;
  case ExprKind::Sub:
    overflow = __builtin_sub_overflow(a, b, &result);
    break;
  case ExprKind::Mul:
    overflow = __builtin_mul_overflow(a, b, &result);
    break;
  case ExprKind::Div:
  case ExprKind::Mod:
    if (b <= 0)
      return fail("'" + text + "': divisor is " + std::to_string(b) +
                  ", must be positive");
    if (kind == ExprKind::Div && a % b != 0)
      return fail("'" + text + "': " + std::to_string(a) +
                  " is not divisible by " + std::to_string(b));
    result = kind == ExprKind::Div ? a / b : ((a % b) + b) % b;
    break;
  case ExprKind::Less:
    return ok({a < b});
  case ExprKind::LessEqual:
    return ok({a <= b});
  case ExprKind::Greater:
    return ok({a > b});
  default:
    return ok({a >= b});
  }
  if (overflow)
    return fail("'" + text + "' overflows 64 bits");
  return ok({result});
}

static Evaluated evaluateIndex(const ExprValue &base, const ExprValue &index,
                               const std::string &text) {
  if (!index.isInt() || (!base.isList() && !base.isString()))
    return fail("'" + text +
                "' takes an integer index into a list or a "
                "string, got " +
                toString(base) + " and " + toString(index));
  int64_t i = std::get<int64_t>(index.data);
  int64_t size = base.isList() ? std::get<List>(base.data).size()
                               : std::get<std::string>(base.data).size();
  if (i < 0 || i >= size)
    return fail("'" + text + "': index " + std::to_string(i) +
                " is outside of " + std::to_string(size) + " entries");
  if (base.isList())
    return ok(std::get<List>(base.data)[i]);
  return ok({std::string(1, std::get<std::string>(base.data)[i])});
}

static Evaluated evaluateCall(const std::string &function,
                              const std::vector<ExprValue> &arguments,
                              const std::string &text) {
  if (function == "len") {
    if (arguments[0].isList())
      return ok({int64_t(std::get<List>(arguments[0].data).size())});
    if (arguments[0].isString())
      return ok({int64_t(std::get<std::string>(arguments[0].data).size())});
    return fail("'" + text + "' takes a list or a string, got " +
                toString(arguments[0]));
  }
  if (!arguments[0].isInt() || !arguments[1].isInt())
    return fail("'" + text + "' takes integers, got " + toString(arguments[0]) +
                " and " + toString(arguments[1]));
  int64_t a = std::get<int64_t>(arguments[0].data);
  int64_t b = std::get<int64_t>(arguments[1].data);
  if (function == "min")
    return ok({std::min(a, b)});
  if (function == "max")
    return ok({std::max(a, b)});
  if (b <= 0)
    return fail("'" + text + "': multiple is " + std::to_string(b) +
                ", must be positive");
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b - 1, &sum))
    return fail("'" + text + "' overflows 64 bits");
  return ok({sum / b * b});
}

Evaluated Expr::evaluate(const Environment &environment) const {
  const Node &n = *node;
  auto truth = [&](const Expr &operand, bool &out) -> std::string {
    Evaluated result = operand.evaluate(environment);
    if (!result.value)
      return result.error;
    if (!result.value->isBool())
      return "'" + operand.str() + "' is " + toString(*result.value) +
             ", required true or false";
    out = std::get<bool>(result.value->data);
    return {};
  };

  switch (n.kind) {
  case ExprKind::Int:
    return ok({n.number});
  case ExprKind::Bool:
    return ok({bool(n.number)});
  case ExprKind::String:
    return ok({n.names[0]});
  case ExprKind::Symbol:
    return environment.symbol(n.names[0]);
  case ExprKind::Config: {
    for (const std::string &name : n.names) {
      Evaluated result = environment.config(name);
      if (result.value || !result.error.empty())
        return result;
    }
    if (!n.operands.empty()) {
      Evaluated result = n.operands[0].evaluate(environment);
      if (result.value && environment.fallback)
        environment.fallback(n.names, *result.value);
      return result;
    }
    std::string keys;
    for (const std::string &name : n.names)
      keys += (keys.empty() ? "" : " or ") + quote(name);
    return fail("config has no " + keys);
  }
  case ExprKind::Listed: {
    Evaluated result;
    if (environment.listed)
      result = environment.listed(n.names[0]);
    return result.value || !result.error.empty()
               ? result
               : n.operands[0].evaluate(environment);
  }
  case ExprKind::Not: {
    bool value = false;
    std::string error = truth(n.operands[0], value);
    return error.empty() ? ok({!value}) : fail(error);
  }
  case ExprKind::And:
  case ExprKind::Or: {
    bool value = false;
    for (const Expr &operand : n.operands) {
      std::string error = truth(operand, value);
      if (!error.empty())
        return fail(error);
      if (value == (n.kind == ExprKind::Or))
        break;
    }
    return ok({value});
  }
  default:
    break;
  }

  if (n.kind == ExprKind::Call && n.names[0] == "select") {
    bool value = false;
    std::string error = truth(n.operands[0], value);
    if (!error.empty())
      return fail(error);
    return n.operands[value ? 1 : 2].evaluate(environment);
  }
  std::vector<ExprValue> values;
  for (const Expr &operand : n.operands) {
    Evaluated result = operand.evaluate(environment);
    if (!result.value)
      return result;
    values.push_back(*result.value);
  }
  if (n.kind == ExprKind::Call)
    return evaluateCall(n.names[0], values, str());
  if (n.kind == ExprKind::Index)
    return evaluateIndex(values[0], values[1], str());
  if (n.kind == ExprKind::Equal || n.kind == ExprKind::NotEqual) {
    if (values[0].data.index() != values[1].data.index())
      return fail("'" + str() + "' compares " + toString(values[0]) + " with " +
                  toString(values[1]) + ", required two values of one kind");
    return ok({(values[0] == values[1]) == (n.kind == ExprKind::Equal)});
  }
  for (const ExprValue &value : values)
    if (!value.isInt())
      return fail("'" + str() + "' takes integers, got " + toString(value));
  int64_t a = std::get<int64_t>(values[0].data);
  if (n.kind == ExprKind::Negate)
    return arithmetic(ExprKind::Sub, 0, a, str());
  return arithmetic(n.kind, a, std::get<int64_t>(values[1].data), str());
}
