//===- DeltaDialect.cpp - Registration, type and attributes ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace delta;
using namespace mlir;

#include "dialect/DeltaDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/DeltaTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/DeltaAttrs.cpp.inc"

void DeltaDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/DeltaTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/DeltaAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/DeltaOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

namespace {
/// Recursive descent over the tokens of the surrounding text, one function a
/// level of binding strength.
class ExprParser {
public:
  explicit ExprParser(AsmParser &parser) : parser(parser) {}

  ParseResult parseOr(Expr &out) {
    if (parseAnd(out))
      return failure();
    while (succeeded(parser.parseOptionalKeyword("or")))
      if (binary(ExprKind::Or, out, &ExprParser::parseAnd))
        return failure();
    return success();
  }

private:
  using Level = ParseResult (ExprParser::*)(Expr &);

  ParseResult binary(ExprKind kind, Expr &left, Level next) {
    Expr right;
    if ((this->*next)(right))
      return failure();
    left = Expr::make(kind, {left, right});
    return success();
  }

  ParseResult parseAnd(Expr &out) {
    if (parseNot(out))
      return failure();
    while (succeeded(parser.parseOptionalKeyword("and")))
      if (binary(ExprKind::And, out, &ExprParser::parseNot))
        return failure();
    return success();
  }

  ParseResult parseNot(Expr &out) {
    if (failed(parser.parseOptionalKeyword("not")))
      return parseComparison(out);
    Expr operand;
    if (parseNot(operand))
      return failure();
    out = Expr::make(ExprKind::Not, {operand});
    return success();
  }

  ParseResult parseComparison(Expr &out) {
    if (parseSum(out))
      return failure();
    std::optional<ExprKind> kind;
    if (optionalComparison(kind))
      return failure();
    if (!kind)
      return success();
    if (binary(*kind, out, &ExprParser::parseSum))
      return failure();
    SMLoc loc = parser.getCurrentLocation();
    kind.reset();
    if (optionalComparison(kind))
      return failure();
    return kind ? parser.emitError(loc, "comparisons do not chain; "
                                        "parentheses say which comes first")
                : success();
  }

  ParseResult optionalComparison(std::optional<ExprKind> &kind) {
    if (succeeded(parser.parseOptionalEqual())) {
      kind = ExprKind::Equal;
      return parser.parseEqual();
    }
    for (auto [word, meaning] :
         std::initializer_list<std::pair<StringRef, ExprKind>>{
             {"ne", ExprKind::NotEqual},
             {"lt", ExprKind::Less},
             {"le", ExprKind::LessEqual},
             {"gt", ExprKind::Greater},
             {"ge", ExprKind::GreaterEqual}})
      if (succeeded(parser.parseOptionalKeyword(word))) {
        kind = meaning;
        return success();
      }
    if (inAttribute)
      return success();
    if (succeeded(parser.parseOptionalLess()))
      kind = ExprKind::Less;
    else if (succeeded(parser.parseOptionalGreater()))
      kind = ExprKind::Greater;
    return success();
  }

  ParseResult parseSum(Expr &out) {
    if (parseProduct(out))
      return failure();
    while (true) {
      if (succeeded(parser.parseOptionalPlus())) {
        if (binary(ExprKind::Add, out, &ExprParser::parseProduct))
          return failure();
      } else if (succeeded(parser.parseOptionalMinus())) {
        if (binary(ExprKind::Sub, out, &ExprParser::parseProduct))
          return failure();
      } else {
        return success();
      }
    }
  }

  ParseResult parseProduct(Expr &out) {
    if (parseIndexed(out))
      return failure();
    while (true) {
      std::optional<ExprKind> kind;
      if (succeeded(parser.parseOptionalStar()))
        kind = ExprKind::Mul;
      else if (succeeded(parser.parseOptionalSlash()))
        kind = ExprKind::Div;
      else if (succeeded(parser.parseOptionalKeyword("mod")))
        kind = ExprKind::Mod;
      if (!kind)
        return success();
      if (binary(*kind, out, &ExprParser::parseIndexed))
        return failure();
    }
  }

  ParseResult parseIndexed(Expr &out) {
    if (parsePrimary(out))
      return failure();
    // A size list may follow a name; only symbols are indexed.
    while (out.kind() == ExprKind::Symbol &&
           succeeded(parser.parseOptionalLSquare())) {
      Expr index;
      if (parseOr(index) || parser.parseRSquare())
        return failure();
      out = Expr::make(ExprKind::Index, {out, index});
    }
    return success();
  }

  ParseResult parsePrimary(Expr &out) {
    SMLoc loc = parser.getCurrentLocation();
    if (succeeded(parser.parseOptionalLParen()))
      return failure(parseOr(out) || parser.parseRParen());
    if (succeeded(parser.parseOptionalMinus())) {
      Expr operand;
      if (parseIndexed(operand))
        return failure();
      out = Expr::make(ExprKind::Negate, {operand});
      return success();
    }
    std::string text;
    if (succeeded(parser.parseOptionalString(&text))) {
      out = Expr::string(text);
      return success();
    }
    // Keywords first: the integer parser would take `true` for -1.
    StringRef name;
    if (failed(parser.parseOptionalKeyword(&name))) {
      int64_t number = 0;
      OptionalParseResult integer = parser.parseOptionalInteger(number);
      if (!integer.has_value())
        return parser.emitError(loc, "expected an expression: a number, a "
                                     "text, a symbol, 'config', 'listed' or "
                                     "'('");
      out = Expr::integer(number);
      return *integer;
    }
    if (name == "true" || name == "false") {
      out = Expr::boolean(name == "true");
      return success();
    }
    if (name == "config")
      return parseConfig(out);
    if (name == "listed")
      return parseListed(out);
    std::optional<size_t> arity = Expr::arity(name.str());
    if (!arity || failed(parser.parseOptionalLParen())) {
      out = Expr::symbol(name.str());
      return success();
    }
    std::vector<Expr> operands(1);
    if (parseOr(operands[0]))
      return failure();
    while (succeeded(parser.parseOptionalComma())) {
      operands.emplace_back();
      if (parseOr(operands.back()))
        return failure();
    }
    if (operands.size() != *arity)
      return parser.emitError(loc, "'") << name << "' takes " << *arity
                                        << " operands, got " << operands.size();
    out = Expr::call(name.str(), std::move(operands));
    return parser.parseRParen();
  }

  ParseResult parseConfig(Expr &out) {
    std::vector<std::string> names(1);
    if (parser.parseString(&names[0]))
      return failure();
    while (succeeded(parser.parseOptionalVerticalBar())) {
      names.emplace_back();
      if (parser.parseString(&names.back()))
        return failure();
    }
    std::optional<Expr> fallback;
    if (succeeded(parser.parseOptionalKeyword("else"))) {
      fallback.emplace();
      if (parseOr(*fallback))
        return failure();
    }
    out = Expr::config(std::move(names), fallback);
    return success();
  }

  ParseResult parseListed(Expr &out) {
    std::string name;
    Expr fallback;
    if (parser.parseString(&name) || parser.parseKeyword("else") ||
        parseOr(fallback))
      return failure();
    out = Expr::listed(std::move(name), std::move(fallback));
    return success();
  }

  AsmParser &parser;

public:
  /// Inside `#delta.expr<...>` the signs `<` and `>` are brackets.
  bool inAttribute = false;
};
} // namespace

ParseResult delta::parseExpr(AsmParser &parser, Expr &expr) {
  return ExprParser(parser).parseOr(expr);
}

Attribute ExprAttr::parse(AsmParser &parser, Type) {
  Expr expr;
  ExprParser exprParser(parser);
  exprParser.inAttribute = true;
  if (parser.parseLess() || exprParser.parseOr(expr) || parser.parseGreater())
    return {};
  return ExprAttr::get(parser.getContext(), expr);
}

void ExprAttr::print(AsmPrinter &printer) const {
  printer << "<" << getValue().str(/*inAttribute=*/true) << ">";
}

//===----------------------------------------------------------------------===//
// Maps
//===----------------------------------------------------------------------===//

static ParseResult parseSizes(AsmParser &parser, int64_t &source,
                              int64_t &destination) {
  return failure(parser.parseInteger(source) || parser.parseArrow() ||
                 parser.parseInteger(destination));
}

/// `+ step way` after an offset.
static ParseResult parseStep(AsmParser &parser, int64_t &step) {
  if (failed(parser.parseOptionalPlus()))
    return success();
  return failure(parser.parseInteger(step) || parser.parseKeyword("way"));
}

static ParseResult parsePiece(AsmParser &parser, int64_t numWays,
                              WayPiece &out) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLBrace())
    return failure();
  out.wayBegin = 0;
  out.wayEnd = numWays;
  if (succeeded(parser.parseOptionalKeyword("ways"))) {
    int64_t last = 0;
    if (parser.parseInteger(out.wayBegin) || parser.parseKeyword("to") ||
        parser.parseInteger(last) || parser.parseColon())
      return failure();
    out.wayEnd = last + 1;
  }
  if (parser.parseInteger(out.piece.source) ||
      parseStep(parser, out.sourceStep) || parser.parseArrow() ||
      parser.parseInteger(out.piece.destination) ||
      parseStep(parser, out.destinationStep))
    return failure();
  while (succeeded(parser.parseOptionalComma())) {
    Loop loop{};
    if (parser.parseInteger(loop.extent) || parser.parseKeyword("x") ||
        parser.parseLParen() || parser.parseInteger(loop.source) ||
        parser.parseComma() || parser.parseInteger(loop.destination) ||
        parser.parseRParen())
      return failure();
    if (loop.extent < 1 || loop.source < 1 || loop.destination < 1)
      return parser.emitError(loc, "loop of extent ")
             << loop.extent << " and strides " << loop.source << ", "
             << loop.destination << ", required positive numbers";
    out.piece.loops.push_back(loop);
  }
  if (parser.parseRBrace())
    return failure();
  if (out.wayBegin < 0 || out.wayEnd > numWays || out.wayBegin >= out.wayEnd)
    return parser.emitError(loc, "ways ")
           << out.wayBegin << " to " << out.wayEnd - 1 << ", required some of "
           << numWays << " ways";
  return success();
}

Attribute MapAttr::parse(AsmParser &parser, Type) {
  int64_t numWays = 0, source = 0, destination = 0;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword("ways") ||
      parser.parseInteger(numWays) || parser.parseComma() ||
      parseSizes(parser, source, destination))
    return {};
  if (numWays < 1 || numWays > 1024) {
    parser.emitError(loc, "map of ") << numWays << " ways, required 1 to 1024";
    return {};
  }
  if (source < 0 || destination < 0) {
    parser.emitError(loc, "map from an array of ")
        << source << " elements into one of " << destination
        << ", required numbers that are not negative";
    return {};
  }
  std::vector<WayPiece> pieces;
  while (succeeded(parser.parseOptionalComma())) {
    pieces.emplace_back();
    if (parsePiece(parser, numWays, pieces.back()))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return MapAttr::get(parser.getContext(),
                      ShardedMap::expand(numWays, source, destination, pieces));
}

void MapAttr::print(AsmPrinter &printer) const {
  const ShardedMap &map = getValue();
  int64_t numWays = map.ways.size();
  printer << "<ways " << numWays << ", " << map.sourceSize() << " -> "
          << map.destinationSize();
  auto step = [&](int64_t value) {
    if (value)
      printer << " + " << value << " way";
  };
  for (const WayPiece &piece : map.compress()) {
    printer << ", {";
    if (piece.wayBegin != 0 || piece.wayEnd != numWays)
      printer << "ways " << piece.wayBegin << " to " << piece.wayEnd - 1
              << ": ";
    printer << piece.piece.source;
    step(piece.sourceStep);
    printer << " -> " << piece.piece.destination;
    step(piece.destinationStep);
    for (const Loop &loop : piece.piece.loops)
      printer << ", " << loop.extent << " x (" << loop.source << ", "
              << loop.destination << ")";
    printer << "}";
  }
  printer << ">";
}
