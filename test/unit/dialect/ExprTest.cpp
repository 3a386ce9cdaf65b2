//===- ExprTest.cpp - Values, failures and text of expressions ------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/Expr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace delta;
using testing::HasSubstr;

namespace {

Expr integer(int64_t value) { return Expr::integer(value); }
Expr symbol(const char *name) { return Expr::symbol(name); }
Expr make(ExprKind kind, Expr a, Expr b) { return Expr::make(kind, {a, b}); }

/// n = 6, tied = true, kinds = "M*", list = [1, "a"], broken fails; the config
/// has "present" = 3 and "odd", which cannot be read.
Environment environment() {
  Environment env;
  env.symbol = [](const std::string &name) -> Evaluated {
    if (name == "n")
      return {ExprValue{int64_t(6)}, {}};
    if (name == "tied")
      return {ExprValue{true}, {}};
    if (name == "kinds")
      return {ExprValue{std::string("M*")}, {}};
    if (name == "list")
      return {
          ExprValue{List{ExprValue{int64_t(1)}, ExprValue{std::string("a")}}},
          {}};
    return {std::nullopt, "unknown symbol '" + name + "'"};
  };
  env.config = [](const std::string &key) -> Evaluated {
    if (key == "present")
      return {ExprValue{int64_t(3)}, {}};
    if (key == "odd")
      return {std::nullopt, "config.odd is 1.5"};
    return {};
  };
  return env;
}

std::string value(const Expr &expr) {
  Evaluated result = expr.evaluate(environment());
  return result.value ? toString(*result.value) : "error: " + result.error;
}

TEST(Expr, ArithmeticOfIntegers) {
  EXPECT_EQ(value(make(ExprKind::Add, symbol("n"), integer(2))), "8");
  EXPECT_EQ(value(make(ExprKind::Sub, symbol("n"), integer(9))), "-3");
  EXPECT_EQ(value(make(ExprKind::Mul, symbol("n"), integer(7))), "42");
  EXPECT_EQ(value(make(ExprKind::Div, symbol("n"), integer(3))), "2");
  EXPECT_EQ(value(make(ExprKind::Mod, symbol("n"), integer(4))), "2");
  EXPECT_EQ(value(Expr::make(ExprKind::Negate, {symbol("n")})), "-6");
}

TEST(Expr, ModuloIsNeverNegative) {
  for (int64_t a = -9; a < 10; ++a)
    for (int64_t b = 1; b < 5; ++b) {
      int64_t naive = a;
      while (naive < 0)
        naive += b;
      EXPECT_EQ(value(make(ExprKind::Mod, integer(a), integer(b))),
                std::to_string(naive % b));
    }
}

TEST(Expr, DivisionIsExact) {
  EXPECT_EQ(value(make(ExprKind::Div, symbol("n"), integer(4))),
            "error: 'n / 4': 6 is not divisible by 4");
  EXPECT_EQ(value(make(ExprKind::Div, symbol("n"), integer(0))),
            "error: 'n / 0': divisor is 0, must be positive");
  EXPECT_EQ(value(make(ExprKind::Mod, symbol("n"), integer(-2))),
            "error: 'n mod -2': divisor is -2, must be positive");
}

TEST(Expr, OverflowIsAnError) {
  const int64_t least = INT64_MIN, most = INT64_MAX;
  EXPECT_THAT(value(make(ExprKind::Add, integer(most), integer(1))),
              HasSubstr("overflows 64 bits"));
  EXPECT_THAT(value(make(ExprKind::Sub, integer(least), integer(1))),
              HasSubstr("overflows 64 bits"));
  EXPECT_THAT(value(make(ExprKind::Mul, integer(most), integer(2))),
              HasSubstr("overflows 64 bits"));
  EXPECT_THAT(value(Expr::make(ExprKind::Negate, {integer(least)})),
              HasSubstr("overflows 64 bits"));
  EXPECT_THAT(value(Expr::call("round_up", {integer(most), integer(2)})),
              HasSubstr("overflows 64 bits"));
}

TEST(Expr, Comparisons) {
  auto all = [](int64_t a, int64_t b) {
    std::string text;
    for (ExprKind kind :
         {ExprKind::Equal, ExprKind::NotEqual, ExprKind::Less,
          ExprKind::LessEqual, ExprKind::Greater, ExprKind::GreaterEqual})
      text += value(make(kind, integer(a), integer(b)))[0];
    return text;
  };
  EXPECT_EQ(all(1, 2), "ftttff");
  EXPECT_EQ(all(2, 2), "tfftft");
  EXPECT_EQ(all(3, 2), "ftfftt");
  EXPECT_EQ(value(make(ExprKind::Equal, symbol("kinds"), Expr::string("M*"))),
            "true");
  EXPECT_EQ(value(make(ExprKind::Equal, symbol("tied"), integer(1))),
            "error: 'tied == 1' compares true with 1, required two values of "
            "one kind");
  EXPECT_EQ(value(make(ExprKind::Less, symbol("kinds"), integer(1))),
            "error: 'kinds < 1' takes integers, got \"M*\"");
}

TEST(Expr, AndAndOrStopWhereTheValueIsKnown) {
  Expr no = Expr::boolean(false), yes = Expr::boolean(true);
  EXPECT_EQ(value(make(ExprKind::And, no, symbol("broken"))), "false");
  EXPECT_EQ(value(make(ExprKind::Or, yes, symbol("broken"))), "true");
  EXPECT_EQ(value(make(ExprKind::And, yes, symbol("broken"))),
            "error: unknown symbol 'broken'");
  EXPECT_EQ(value(make(ExprKind::And, yes, symbol("n"))),
            "error: 'n' is 6, required true or false");
  EXPECT_EQ(value(Expr::make(ExprKind::Not, {yes})), "false");
  EXPECT_EQ(value(Expr::make(ExprKind::Not, {symbol("n")})),
            "error: 'n' is 6, required true or false");
}

TEST(Expr, IndexOfListsAndTexts) {
  auto at = [](const char *name, Expr index) {
    return value(make(ExprKind::Index, symbol(name), index));
  };
  EXPECT_EQ(at("list", integer(1)), "\"a\"");
  EXPECT_EQ(at("kinds", integer(1)), "\"*\"");
  EXPECT_EQ(at("kinds", integer(2)),
            "error: 'kinds[2]': index 2 is outside of 2 entries");
  EXPECT_EQ(at("kinds", integer(-1)),
            "error: 'kinds[-1]': index -1 is outside of 2 entries");
  EXPECT_EQ(at("n", integer(0)), "error: 'n[0]' takes an integer index into a "
                                 "list or a string, got 6 and 0");
  EXPECT_EQ(at("kinds", symbol("tied")),
            "error: 'kinds[tied]' takes an integer index into a list or a "
            "string, got \"M*\" and true");
}

TEST(Expr, Functions) {
  EXPECT_EQ(value(Expr::call("len", {symbol("list")})), "2");
  EXPECT_EQ(value(Expr::call("len", {symbol("kinds")})), "2");
  EXPECT_EQ(value(Expr::call("len", {symbol("n")})),
            "error: 'len(n)' takes a list or a string, got 6");
  EXPECT_EQ(value(Expr::call("min", {symbol("n"), integer(4)})), "4");
  EXPECT_EQ(value(Expr::call("max", {symbol("n"), integer(4)})), "6");
  for (int64_t n = 0; n < 20; ++n)
    for (int64_t multiple = 1; multiple < 6; ++multiple) {
      int64_t naive = n;
      while (naive % multiple != 0)
        ++naive;
      EXPECT_EQ(value(Expr::call("round_up", {integer(n), integer(multiple)})),
                std::to_string(naive));
    }
  EXPECT_EQ(value(Expr::call("round_up", {integer(1), integer(0)})),
            "error: 'round_up(1, 0)': multiple is 0, must be positive");
}

TEST(Expr, SelectEvaluatesTheChosenOneOnly) {
  EXPECT_EQ(value(Expr::call("select",
                             {symbol("tied"), integer(1), symbol("broken")})),
            "1");
  EXPECT_EQ(value(Expr::call("select", {Expr::boolean(false), symbol("broken"),
                                        integer(2)})),
            "2");
  EXPECT_EQ(value(Expr::call("select", {symbol("n"), integer(1), integer(2)})),
            "error: 'n' is 6, required true or false");
}

TEST(Expr, ConfigTakesTheFirstPresentKey) {
  EXPECT_EQ(value(Expr::config({"absent", "present"}, std::nullopt)), "3");
  EXPECT_EQ(value(Expr::config({"present"}, symbol("broken"))), "3");
  EXPECT_EQ(value(Expr::config({"absent"}, symbol("n"))), "6");
  EXPECT_EQ(value(Expr::config({"absent", "missing"}, std::nullopt)),
            "error: config has no \"absent\" or \"missing\"");
  // A key that is there but cannot be read is not passed over.
  EXPECT_EQ(value(Expr::config({"odd", "present"}, integer(1))),
            "error: config.odd is 1.5");
}

TEST(Expr, TextKeepsTheTree) {
  Expr a = symbol("a"), b = symbol("b"), c = symbol("c");
  auto text = [](const Expr &expr) { return expr.str(); };
  EXPECT_EQ(text(make(ExprKind::Sub, a, make(ExprKind::Sub, b, c))),
            "a - (b - c)");
  EXPECT_EQ(text(make(ExprKind::Sub, make(ExprKind::Sub, a, b), c)),
            "a - b - c");
  EXPECT_EQ(text(make(ExprKind::Mul, make(ExprKind::Add, a, b), c)),
            "(a + b) * c");
  EXPECT_EQ(text(make(ExprKind::Equal, make(ExprKind::Equal, a, b), c)),
            "(a == b) == c");
  EXPECT_EQ(text(make(ExprKind::And, make(ExprKind::Or, a, b), c)),
            "(a or b) and c");
  EXPECT_EQ(text(make(ExprKind::Add, Expr::config({"k"}, a), b)),
            "(config \"k\" else a) + b");
  EXPECT_EQ(text(Expr::make(ExprKind::Not, {make(ExprKind::And, a, b)})),
            "not (a and b)");
  EXPECT_EQ(text(Expr::make(ExprKind::Negate, {make(ExprKind::Add, a, b)})),
            "-(a + b)");
  EXPECT_EQ(text(Expr::string("\"\\\n")), "\"\\\"\\\\\\0A\"");
  EXPECT_EQ(make(ExprKind::Less, a, make(ExprKind::Mul, b, c)).str(true),
            "a lt b * c");
  EXPECT_EQ(make(ExprKind::Greater, a, b).str(true), "a gt b");
}

TEST(Expr, TextOfValues) {
  EXPECT_EQ(
      toString(ExprValue{List{ExprValue{int64_t(-1)}, ExprValue{false},
                              ExprValue{List{ExprValue{std::string("x")}}}}}),
      "[-1, false, [\"x\"]]");
  EXPECT_NE(ExprValue{int64_t(1)}, ExprValue{true});
}

} // namespace
