//===- Expr.h - Sizes and conditions over named symbols ---------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The expressions of family texts as a plain immutable value type, usable
/// without an MLIRContext. Division is exact: `a / b` with a remainder is an
/// error that names both numbers, which states most divisibility rules.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_DIALECT_EXPR_H
#define DELTA_DIALECT_EXPR_H

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace delta {

/// What an expression evaluates to. Booleans are not integers.
struct ExprValue;
using List = std::vector<ExprValue>;
struct ExprValue {
  std::variant<int64_t, bool, std::string, List> data;

  bool isInt() const { return std::holds_alternative<int64_t>(data); }
  bool isBool() const { return std::holds_alternative<bool>(data); }
  bool isString() const { return std::holds_alternative<std::string>(data); }
  bool isList() const { return std::holds_alternative<List>(data); }
  bool operator==(const ExprValue &other) const { return data == other.data; }
  bool operator!=(const ExprValue &other) const { return !(*this == other); }
};

/// Prints `12`, `true`, `"text"`, `[1, 2]`.
std::string toString(const ExprValue &value);

/// Result of an evaluation: a value, or one line that says what is wrong.
struct Evaluated {
  std::optional<ExprValue> value;
  std::string error;
};

/// What an expression may look up.
struct Environment {
  /// ExprValue of a symbol; an error text if it is unknown or failed itself.
  std::function<Evaluated(const std::string &name)> symbol;
  /// ExprValue of a key of the model's config. No value and no error: the key
  /// is absent or null.
  std::function<Evaluated(const std::string &key)> config;
  /// Whether a checkpoint's key list has a name; no value and no error: there
  /// is no key list. May be empty: there never is one.
  std::function<Evaluated(const std::string &name)> listed = {};
  /// Told that none of `keys` is there and what counts instead; may be empty.
  std::function<void(const std::vector<std::string> &keys,
                     const ExprValue &value)>
      fallback = {};
};

enum class ExprKind {
  Int,    ///< `12`
  Bool,   ///< `true`
  String, ///< `"M"`
  Symbol, ///< `n`
  Config, ///< `config "a" | "b" else x`: names, at most one child
  Listed, ///< `listed "name" else x`: is a name in the key list?
  Index,  ///< `list[i]`, also a character of a string
  Not,    ///< `not a`
  Negate, ///< `-a`
  Add,
  Sub,
  Mul,
  Div, ///< exact
  Mod,
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  And, ///< short-circuit
  Or,  ///< short-circuit
  Call ///< `len(x)`, `min(a, b)`, `max(a, b)`, `round_up(a, b)`,
       ///< `select(c, a, b)`: only the chosen one is evaluated
};

class Expr {
public:
  Expr() : Expr(integer(0)) {}

  static Expr integer(int64_t value);
  static Expr boolean(bool value);
  static Expr string(std::string value);
  static Expr symbol(std::string name);
  /// `names` are tried in order; `fallback` counts when none is present.
  static Expr config(std::vector<std::string> names,
                     std::optional<Expr> fallback);
  /// `fallback` counts where there is no key list.
  static Expr listed(std::string name, Expr fallback);
  static Expr make(ExprKind kind, std::vector<Expr> operands);
  static Expr call(std::string function, std::vector<Expr> operands);

  /// Number of operands of a function, or nothing if there is none by this
  /// name.
  static std::optional<size_t> arity(const std::string &function);

  ExprKind kind() const;
  /// The integer, if the expression is a literal one.
  std::optional<int64_t> literal() const;
  /// Folds the expression. Fails on unknown names, wrong types, division by
  /// zero or with a remainder, index out of range, 64-bit overflow.
  Evaluated evaluate(const Environment &environment) const;
  /// Text that parses to the same expression. Inside an attribute `<` and `>`
  /// are brackets: there they are spelled `lt` and `gt`.
  std::string str(bool inAttribute = false) const;

  bool operator==(const Expr &other) const { return str() == other.str(); }

private:
  struct Node;
  explicit Expr(std::shared_ptr<const Node> node) : node(std::move(node)) {}
  std::shared_ptr<const Node> node;
};

} // namespace delta

#endif // DELTA_DIALECT_EXPR_H
