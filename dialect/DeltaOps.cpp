//===- DeltaOps.cpp - Syntax and verifiers of the ops ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Expressions stand bare in the text of an op, so most ops have a parser of
/// their own. Verifiers check what can be checked before sizes are numbers;
/// the rest is checked when a model is bound (passes/Instantiate.cpp).
///
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"

#include "mlir/IR/Builders.h"

using namespace delta;
using namespace mlir;

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

static ParseResult parseExprAttr(OpAsmParser &parser, OperationState &result,
                                 StringRef name) {
  Expr expr;
  if (parseExpr(parser, expr))
    return failure();
  result.addAttribute(name, ExprAttr::get(parser.getContext(), expr));
  return success();
}

/// `[a, b, c]`
static ParseResult parseExprList(OpAsmParser &parser, OperationState &result,
                                 StringRef name) {
  SmallVector<Attribute> items;
  auto item = [&]() -> ParseResult {
    Expr expr;
    if (parseExpr(parser, expr))
      return failure();
    items.push_back(ExprAttr::get(parser.getContext(), expr));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, item))
    return failure();
  result.addAttribute(name, parser.getBuilder().getArrayAttr(items));
  return success();
}

static void printExprList(OpAsmPrinter &printer, ArrayAttr list) {
  printer << "[";
  llvm::interleaveComma(
      list.getAsRange<ExprAttr>(), printer,
      [&](ExprAttr expr) { printer << expr.getValue().str(); });
  printer << "]";
}

static ParseResult parseKeywordAttr(OpAsmParser &parser, OperationState &result,
                                    StringRef name) {
  StringRef keyword;
  if (parser.parseKeyword(&keyword))
    return failure();
  result.addAttribute(name, parser.getBuilder().getStringAttr(keyword));
  return success();
}

static ParseResult parseStringAttr(OpAsmParser &parser, OperationState &result,
                                   StringRef name) {
  std::string text;
  if (parser.parseString(&text))
    return failure();
  result.addAttribute(name, parser.getBuilder().getStringAttr(text));
  return success();
}

static ParseResult parseDim(OpAsmParser &parser, OperationState &result) {
  int64_t dim = 0;
  if (parser.parseKeyword("dim") || parser.parseInteger(dim))
    return failure();
  result.addAttribute("dim", parser.getBuilder().getI64IntegerAttr(dim));
  return success();
}

static ParseResult parseArrayOperand(OpAsmParser &parser,
                                     OperationState &result) {
  OpAsmParser::UnresolvedOperand operand;
  return failure(parser.parseOperand(operand) ||
                 parser.resolveOperand(operand,
                                       ArrayType::get(parser.getContext()),
                                       result.operands));
}

static ParseResult parseBody(OpAsmParser &parser, OperationState &result) {
  Region *body = result.addRegion();
  if (parser.parseRegion(*body))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  return success();
}

/// An op whose text is an expression and a region.
static ParseResult parseConditional(OpAsmParser &parser, OperationState &result,
                                    StringRef name) {
  return failure(parseExprAttr(parser, result, name) ||
                 parseBody(parser, result) ||
                 parser.parseOptionalAttrDict(result.attributes));
}

/// The layer numbers `0..3, 7`.
static ParseResult parseLayerNumbers(OpAsmParser &parser,
                                     SmallVectorImpl<int64_t> &layers) {
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Paren, [&]() -> ParseResult {
        SMLoc loc = parser.getCurrentLocation();
        int64_t first = 0, last = 0;
        if (parser.parseInteger(first))
          return failure();
        last = first;
        if (succeeded(parser.parseOptionalKeyword("to")) &&
            parser.parseInteger(last))
          return failure();
        if (last < first || last - first > (1 << 20))
          return parser.emitError(loc, "layers ")
                 << first << " to " << last << ", required ascending numbers";
        for (int64_t layer = first; layer <= last; ++layer)
          layers.push_back(layer);
        return success();
      });
}

static void printLayerNumbers(OpAsmPrinter &printer, ArrayRef<int64_t> layers) {
  printer << "(";
  for (size_t i = 0; i < layers.size();) {
    size_t j = i;
    while (j + 1 < layers.size() && layers[j + 1] == layers[j] + 1)
      ++j;
    printer << (i ? ", " : "") << layers[i];
    if (j > i)
      printer << " to " << layers[j];
    i = j + 1;
  }
  printer << ")";
}

/// `on layers(0 to 3) experts`, `on first`.
static ParseResult parsePlace(OpAsmParser &parser, OperationState &result) {
  if (failed(parser.parseOptionalKeyword("on")))
    return success();
  if (succeeded(parser.parseOptionalKeyword("layers"))) {
    SmallVector<int64_t> layers;
    if (parseLayerNumbers(parser, layers))
      return failure();
    result.addAttribute("layers",
                        parser.getBuilder().getDenseI64ArrayAttr(layers));
  } else if (parseKeywordAttr(parser, result, "stage")) {
    return failure();
  }
  if (succeeded(parser.parseOptionalKeyword("experts")))
    result.addAttribute("experts", parser.getBuilder().getUnitAttr());
  return success();
}

static void printPlace(OpAsmPrinter &printer, StringAttr stage,
                       DenseI64ArrayAttr layers, bool experts) {
  if (!stage && !layers)
    return;
  printer << " on ";
  if (layers) {
    printer << "layers";
    printLayerNumbers(printer, layers.asArrayRef());
  } else {
    printer << stage.getValue();
  }
  if (experts)
    printer << " experts";
}

static LogicalResult verifyStage(Operation *op,
                                 std::optional<StringRef> stage) {
  if (stage && *stage != "first" && *stage != "last")
    return op->emitOpError("(on_c1) stage is '")
           << *stage << "', required 'first' or 'last'";
  return success();
}

static LogicalResult verifyDtype(Operation *op, StringRef dtype) {
  if (llvm::is_contained({"storage", "f32", "bf16", "f16", "i64"}, dtype))
    return success();
  return op->emitOpError("type is '")
         << dtype << "', required storage, f32, bf16, f16 or i64";
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

LogicalResult FamilyOp::verify() {
  auto decoders = getBody().front().getOps<DecoderOp>();
  int64_t count = std::distance(decoders.begin(), decoders.end());
  // A layout's may come from a block that all layouts of the engine use.
  if (count > 1 || (count == 0 && !getEngine()))
    return emitOpError("(family_c1) has ")
           << count << " 'delta.decoder' ops, required one";
  return success();
}

/// `trainer "a." or "b." hf "c."`, `engine "a." hf "c."`
ParseResult ScopeOp::parse(OpAsmParser &parser, OperationState &result) {
  if (succeeded(parser.parseOptionalKeyword("engine")))
    result.addAttribute("engine", parser.getBuilder().getUnitAttr());
  else if (parser.parseKeyword("trainer"))
    return failure();
  if (parseStringAttr(parser, result, "trainer"))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("or")) &&
      parseStringAttr(parser, result, "other"))
    return failure();
  return failure(parser.parseKeyword("hf") ||
                 parseStringAttr(parser, result, "hf") ||
                 parseBody(parser, result) ||
                 parser.parseOptionalAttrDict(result.attributes));
}
void ScopeOp::print(OpAsmPrinter &printer) {
  printer << (getEngine() ? " engine " : " trainer ") << getTrainerAttr();
  if (getOther())
    printer << " or " << getOtherAttr();
  printer << " hf " << getHfAttr() << " ";
  printer.printRegion(getBody());
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"trainer", "other", "hf", "engine"});
}

ParseResult UseOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr block;
  SmallVector<Attribute> names, values;
  if (parser.parseSymbolName(block, "block", result.attributes))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("with"))) {
    auto binding = [&]() -> ParseResult {
      StringRef name;
      Expr value;
      if (parser.parseKeyword(&name) || parser.parseEqual() ||
          parseExpr(parser, value))
        return failure();
      names.push_back(parser.getBuilder().getStringAttr(name));
      values.push_back(ExprAttr::get(parser.getContext(), value));
      return success();
    };
    if (parser.parseCommaSeparatedList(binding))
      return failure();
  }
  result.addAttribute("names", parser.getBuilder().getArrayAttr(names));
  result.addAttribute("values", parser.getBuilder().getArrayAttr(values));
  return parser.parseOptionalAttrDict(result.attributes);
}

void UseOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printSymbolName(getBlock());
  if (!getNames().empty())
    printer << " with ";
  llvm::interleaveComma(llvm::zip(getNames().getAsRange<StringAttr>(),
                                  getValues().getAsRange<ExprAttr>()),
                        printer, [&](auto binding) {
                          printer << std::get<0>(binding).getValue() << " = "
                                  << std::get<1>(binding).getValue().str();
                        });
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"block", "names", "values"});
}

LogicalResult UseOp::verify() {
  if (getNames().size() != getValues().size())
    return emitOpError("binds ") << getNames().size() << " names to "
                                 << getValues().size() << " values";
  return success();
}

ParseResult SymbolOp::parse(OpAsmParser &parser, OperationState &result) {
  return failure(parseKeywordAttr(parser, result, "name") ||
                 parser.parseEqual() ||
                 parseExprAttr(parser, result, "value") ||
                 parser.parseOptionalAttrDict(result.attributes));
}
void SymbolOp::print(OpAsmPrinter &printer) {
  printer << " " << getName() << " = " << getValue().getValue().str();
  printer.printOptionalAttrDict((*this)->getAttrs(), {"name", "value"});
}

ParseResult RequireOp::parse(OpAsmParser &parser, OperationState &result) {
  return failure(parseExprAttr(parser, result, "condition") ||
                 parser.parseComma() ||
                 parseStringAttr(parser, result, "reason") ||
                 parser.parseOptionalAttrDict(result.attributes));
}
void RequireOp::print(OpAsmPrinter &printer) {
  printer << " " << getCondition().getValue().str() << ", " << getReasonAttr();
  printer.printOptionalAttrDict((*this)->getAttrs(), {"condition", "reason"});
}

ParseResult DecoderOp::parse(OpAsmParser &parser, OperationState &result) {
  if (parseExprAttr(parser, result, "layers"))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("pattern")))
    if (parseExprAttr(parser, result, "pattern") ||
        parser.parseKeyword("kinds") ||
        parseStringAttr(parser, result, "kinds"))
      return failure();
  if (succeeded(parser.parseOptionalKeyword("per_stage")) &&
      parseExprAttr(parser, result, "per_stage"))
    return failure();
  return parser.parseOptionalAttrDict(result.attributes);
}
void DecoderOp::print(OpAsmPrinter &printer) {
  printer << " " << getLayers().getValue().str();
  if (getPattern())
    printer << " pattern " << getPattern()->getValue().str() << " kinds "
            << getKindsAttr();
  if (getPerStage())
    printer << " per_stage " << getPerStage()->getValue().str();
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"layers", "pattern", "kinds", "per_stage"});
}

ParseResult LayersOp::parse(OpAsmParser &parser, OperationState &result) {
  return failure(parser.parseKeyword("where") ||
                 parseConditional(parser, result, "condition"));
}
void LayersOp::print(OpAsmPrinter &printer) {
  printer << " where " << getCondition().getValue().str() << " ";
  printer.printRegion(getBody());
  printer.printOptionalAttrDict((*this)->getAttrs(), {"condition"});
}
LogicalResult LayersOp::verify() {
  if ((*this)->getParentOfType<LayersOp>() ||
      (*this)->getParentOfType<OnOp>() || (*this)->getParentOfType<StackOp>())
    return emitOpError("(layers_c1) is inside another 'delta.layers', a "
                       "'delta.on' or a 'delta.stack'");
  return success();
}

ParseResult StackOp::parse(OpAsmParser &parser, OperationState &result) {
  if (parseExprAttr(parser, result, "layers") || parser.parseKeyword("on") ||
      parseKeywordAttr(parser, result, "stage"))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("where")) &&
      parseExprAttr(parser, result, "condition"))
    return failure();
  return failure(parseBody(parser, result) ||
                 parser.parseOptionalAttrDict(result.attributes));
}
void StackOp::print(OpAsmPrinter &printer) {
  printer << " " << getLayers().getValue().str() << " on " << getStage() << " ";
  if (getCondition())
    printer << "where " << getCondition()->getValue().str() << " ";
  printer.printRegion(getBody());
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"layers", "stage", "condition"});
}
LogicalResult StackOp::verify() {
  if ((*this)->getParentOfType<LayersOp>() ||
      (*this)->getParentOfType<OnOp>() || (*this)->getParentOfType<StackOp>())
    return emitOpError("(stack_c1) is inside a 'delta.layers', a 'delta.on' or "
                       "another 'delta.stack'");
  return verifyStage(*this, getStage());
}

ParseResult OnOp::parse(OpAsmParser &parser, OperationState &result) {
  return failure(parseKeywordAttr(parser, result, "stage") ||
                 parseBody(parser, result) ||
                 parser.parseOptionalAttrDict(result.attributes));
}
void OnOp::print(OpAsmPrinter &printer) {
  printer << " " << getStage() << " ";
  printer.printRegion(getBody());
  printer.printOptionalAttrDict((*this)->getAttrs(), {"stage"});
}
LogicalResult OnOp::verify() {
  if ((*this)->getParentOfType<LayersOp>() ||
      (*this)->getParentOfType<StackOp>())
    return emitOpError("(on_c2) is inside a 'delta.layers' or a 'delta.stack'");
  return verifyStage(*this, getStage());
}

ParseResult IfOp::parse(OpAsmParser &parser, OperationState &result) {
  if (parseExprAttr(parser, result, "condition") || parseBody(parser, result))
    return failure();
  Region *elseRegion = result.addRegion();
  if (succeeded(parser.parseOptionalKeyword("else"))) {
    if (parser.parseRegion(*elseRegion))
      return failure();
    if (elseRegion->empty())
      elseRegion->emplaceBlock();
  }
  return parser.parseOptionalAttrDict(result.attributes);
}
void IfOp::print(OpAsmPrinter &printer) {
  printer << " " << getCondition().getValue().str() << " ";
  printer.printRegion(getThenRegion());
  if (!getElseRegion().empty()) {
    printer << " else ";
    printer.printRegion(getElseRegion());
  }
  printer.printOptionalAttrDict((*this)->getAttrs(), {"condition"});
}

ParseResult ExpertsOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseConditional(parser, result, "number");
}
void ExpertsOp::print(OpAsmPrinter &printer) {
  printer << " " << getNumber().getValue().str() << " ";
  printer.printRegion(getBody());
  printer.printOptionalAttrDict((*this)->getAttrs(), {"number"});
}
LogicalResult ExpertsOp::verify() {
  if ((*this)->getParentOfType<ExpertsOp>())
    return emitOpError("(experts_c1) is inside another 'delta.experts'");
  if ((*this)->getParentOfType<OnOp>())
    return emitOpError("(experts_c1) is inside a 'delta.on', required a "
                       "'delta.layers'");
  return success();
}

//===----------------------------------------------------------------------===//
// Parameters and tensors
//===----------------------------------------------------------------------===//

/// How an engine keeps a parameter: `stacked extra 1`, `holds neg_exp`, `viewed
/// [1, 0]`.
static ParseResult parseForm(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  if (succeeded(parser.parseOptionalKeyword("stacked"))) {
    result.addAttribute("stacked", builder.getUnitAttr());
    for (StringRef key : {"extra", "slot"})
      if (succeeded(parser.parseOptionalKeyword(key)) &&
          parseExprAttr(parser, result, key))
        return failure();
  }
  if (succeeded(parser.parseOptionalKeyword("holds")) &&
      parseKeywordAttr(parser, result, "holds"))
    return failure();
  if (failed(parser.parseOptionalKeyword("viewed")))
    return success();
  SmallVector<int64_t> dims;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parser.parseInteger(dims.emplace_back());
      }))
    return failure();
  result.addAttribute("viewed", builder.getDenseI64ArrayAttr(dims));
  return success();
}

static void printForm(OpAsmPrinter &printer, ParamOp op) {
  if (op.getStacked())
    printer << " stacked";
  if (op.getExtra())
    printer << " extra " << op.getExtra()->getValue().str();
  if (op.getSlot())
    printer << " slot " << op.getSlot()->getValue().str();
  if (op.getHolds())
    printer << " holds " << *op.getHolds();
  if (op.getViewed()) {
    printer << " viewed [";
    llvm::interleaveComma(*op.getViewed(), printer);
    printer << "]";
  }
}

ParseResult ParamOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<Attribute> names, schemes;
  Builder &builder = parser.getBuilder();
  do {
    StringRef scheme;
    std::string name;
    (void)parser.parseOptionalKeyword(&scheme);
    if (parser.parseString(&name))
      return failure();
    names.push_back(builder.getStringAttr(name));
    schemes.push_back(builder.getStringAttr(scheme));
  } while (succeeded(parser.parseOptionalVerticalBar()));
  result.addAttribute("names", builder.getArrayAttr(names));
  result.addAttribute("schemes", builder.getArrayAttr(schemes));
  if (parseExprList(parser, result, "shape") || parser.parseColon() ||
      parseKeywordAttr(parser, result, "dtype") || parseForm(parser, result) ||
      parsePlace(parser, result))
    return failure();
  result.addTypes(ArrayType::get(parser.getContext()));
  return parser.parseOptionalAttrDict(result.attributes);
}
void ParamOp::print(OpAsmPrinter &printer) {
  printer << " ";
  llvm::interleave(
      llvm::zip(getNames().getAsRange<StringAttr>(),
                getSchemes().getAsRange<StringAttr>()),
      [&](auto name) {
        if (!std::get<1>(name).getValue().empty())
          printer << std::get<1>(name).getValue() << " ";
        printer << std::get<0>(name);
      },
      [&] { printer << " | "; });
  printer << " ";
  printExprList(printer, getShape());
  printer << " : " << getDtype();
  printForm(printer, *this);
  printPlace(printer, getStageAttr(), getLayersAttr(), getExperts());
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"names", "schemes", "shape", "dtype", "stage",
                                 "layers", "experts", "stacked", "extra",
                                 "slot", "holds", "viewed"});
}
LogicalResult ParamOp::verify() {
  if (getNames().empty() || getNames().size() != getSchemes().size())
    return emitOpError("has ")
           << getNames().size() << " names and " << getSchemes().size()
           << " name schemes, required one for each";
  for (StringAttr scheme : getSchemes().getAsRange<StringAttr>())
    if (!scheme.empty() && scheme != "grouped" && scheme != "sequential")
      return emitOpError("(param_c3) name scheme is ")
             << scheme << ", required 'grouped' or 'sequential'";
  if (getHolds() && *getHolds() != "neg_exp" && *getHolds() != "add_one")
    return emitOpError("(param_c5) holds '")
           << *getHolds() << "', required 'neg_exp' or 'add_one'";
  if ((getExtra() || getSlot()) && !getStacked())
    return emitOpError("(param_c5) has slots and is not stacked");
  if (getViewed()) {
    SmallVector<int64_t> dims(getViewedAttr().asArrayRef());
    llvm::sort(dims);
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims.size() != getShape().size() || dims[i] != int64_t(i))
        return emitOpError("(param_c6) is viewed [")
               << getViewedAttr().asArrayRef()
               << "], required every dimension of a shape of "
               << getShape().size() << " once";
  }
  if (failed(verifyDtype(*this, getDtype())))
    return failure();
  return verifyStage(*this, getStage());
}

LogicalResult RefreshOp::verify() {
  if (!getParam().getDefiningOp<ParamOp>())
    return emitOpError("(refresh_c1) operand is not the result of a "
                       "'delta.param'");
  return success();
}

ParseResult CopyOp::parse(OpAsmParser &parser, OperationState &result) {
  return failure(
      parseStringAttr(parser, result, "name") || parser.parseKeyword("of") ||
      parseArrayOperand(parser, result) || parsePlace(parser, result) ||
      parser.parseOptionalAttrDict(result.attributes));
}
void CopyOp::print(OpAsmPrinter &printer) {
  printer << " " << getNameAttr() << " of " << getOriginal();
  printPlace(printer, getStageAttr(), {}, false);
  printer.printOptionalAttrDict((*this)->getAttrs(), {"name", "stage"});
}
LogicalResult CopyOp::verify() {
  if (!getOriginal().getDefiningOp<ParamOp>())
    return emitOpError("(copy_c1) operand is not the result of a "
                       "'delta.param'");
  return verifyStage(*this, getStage());
}

ParseResult TensorOp::parse(OpAsmParser &parser, OperationState &result) {
  if (parseStringAttr(parser, result, "name") || parser.parseEqual() ||
      parseArrayOperand(parser, result) || parser.parseKeyword("as") ||
      parseExprList(parser, result, "shape"))
    return failure();
  for (StringRef flag : {"stacked", "if_listed", "alias", "also"})
    if (succeeded(parser.parseOptionalKeyword(flag)))
      result.addAttribute(flag, parser.getBuilder().getUnitAttr());
  if (succeeded(parser.parseOptionalColon())) {
    SmallVector<StringRef> dtypes;
    do {
      if (parser.parseKeyword(&dtypes.emplace_back()))
        return failure();
    } while (succeeded(parser.parseOptionalVerticalBar()));
    result.addAttribute("dtypes", parser.getBuilder().getStrArrayAttr(dtypes));
  }
  return parser.parseOptionalAttrDict(result.attributes);
}
void TensorOp::print(OpAsmPrinter &printer) {
  printer << " " << getNameAttr() << " = " << getValue() << " as ";
  printExprList(printer, getShape());
  printer << (getStacked() ? " stacked" : "")
          << (getIfListed() ? " if_listed" : "") << (getAlias() ? " alias" : "")
          << (getAlso() ? " also" : "");
  if (getDtypes()) {
    printer << " : ";
    llvm::interleave(
        getDtypesAttr().getAsRange<StringAttr>(),
        [&](StringAttr dtype) { printer << dtype.getValue(); },
        [&] { printer << " | "; });
  }
  printer.printOptionalAttrDict(
      (*this)->getAttrs(),
      {"name", "shape", "stacked", "if_listed", "alias", "also", "dtypes"});
}
LogicalResult TensorOp::verify() {
  if (getDtypes() && getDtypesAttr().empty())
    return emitOpError("has an empty list of types, required at least one");
  if (getDtypes())
    for (StringAttr dtype : getDtypesAttr().getAsRange<StringAttr>())
      if (failed(verifyDtype(*this, dtype.getValue())))
        return failure();
  return success();
}

ParseResult PassthroughOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  if (succeeded(parser.parseOptionalKeyword("all"))) {
    result.addAttribute("all", builder.getUnitAttr());
    result.addAttribute("shape", builder.getArrayAttr({}));
    result.addAttribute("dtype", builder.getStringAttr("storage"));
    return failure(parseStringAttr(parser, result, "name") ||
                   parser.parseOptionalAttrDict(result.attributes));
  }
  if (parseStringAttr(parser, result, "name") ||
      parseExprList(parser, result, "shape") || parser.parseColon() ||
      parseKeywordAttr(parser, result, "dtype"))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("if_listed")))
    result.addAttribute("if_listed", builder.getUnitAttr());
  return failure(parsePlace(parser, result) ||
                 parser.parseOptionalAttrDict(result.attributes));
}
void PassthroughOp::print(OpAsmPrinter &printer) {
  printer << (getAll() ? " all " : " ") << getNameAttr();
  if (!getAll()) {
    printer << " ";
    printExprList(printer, getShape());
    printer << " : " << getDtype() << (getIfListed() ? " if_listed" : "");
    printPlace(printer, {}, getLayersAttr(), false);
  }
  printer.printOptionalAttrDict(
      (*this)->getAttrs(),
      {"name", "shape", "dtype", "all", "if_listed", "layers"});
}
LogicalResult PassthroughOp::verify() { return verifyDtype(*this, getDtype()); }

//===----------------------------------------------------------------------===//
// Index functions
//===----------------------------------------------------------------------===//

static std::optional<int64_t> literalOf(Attribute expr) {
  return cast<ExprAttr>(expr).getValue().literal();
}

/// `[a, b ways u]`; a section without ways has those of the op, written 0.
static ParseResult parseSections(OpAsmParser &parser, OperationState &result) {
  SmallVector<Attribute> sizes, ways;
  bool hasWays = false;
  auto item = [&]() -> ParseResult {
    Expr size, way = Expr::integer(0);
    if (parseExpr(parser, size))
      return failure();
    if (succeeded(parser.parseOptionalKeyword("ways"))) {
      hasWays = true;
      if (parseExpr(parser, way))
        return failure();
    }
    sizes.push_back(ExprAttr::get(parser.getContext(), size));
    ways.push_back(ExprAttr::get(parser.getContext(), way));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, item))
    return failure();
  result.addAttribute("sections", parser.getBuilder().getArrayAttr(sizes));
  if (hasWays)
    result.addAttribute("section_ways", parser.getBuilder().getArrayAttr(ways));
  return success();
}

ParseResult UnshardOp::parse(OpAsmParser &parser, OperationState &result) {
  if (parseArrayOperand(parser, result) || parseDim(parser, result) ||
      parser.parseKeyword("over") || parseKeywordAttr(parser, result, "axis"))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("ways")) &&
      parseExprAttr(parser, result, "ways"))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("sections"))) {
    if (parseSections(parser, result))
      return failure();
  } else {
    result.addAttribute("sections", parser.getBuilder().getArrayAttr({}));
  }
  result.addTypes(ArrayType::get(parser.getContext()));
  return parser.parseOptionalAttrDict(result.attributes);
}
void UnshardOp::print(OpAsmPrinter &printer) {
  printer << " " << getShards() << " dim " << getDim() << " over " << getAxis();
  if (getWays())
    printer << " ways " << getWays()->getValue().str();
  if (!getSections().empty()) {
    printer << " sections [";
    for (size_t i = 0; i < getSections().size(); ++i) {
      printer << (i ? ", " : "")
              << cast<ExprAttr>(getSections()[i]).getValue().str();
      if (getSectionWays() && !(literalOf((*getSectionWays())[i]) == 0))
        printer << " ways "
                << cast<ExprAttr>((*getSectionWays())[i]).getValue().str();
    }
    printer << "]";
  }
  printer.printOptionalAttrDict(
      (*this)->getAttrs(), {"dim", "axis", "ways", "sections", "section_ways"});
}
LogicalResult UnshardOp::verify() {
  auto param = getShards().getDefiningOp<ParamOp>();
  if (!param)
    return emitOpError("(unshard_c1) operand is not the result of a "
                       "'delta.param'");
  for (Operation *user : getShards().getUsers())
    if (isa<UnshardOp>(user) && user != *this)
      return emitOpError("(unshard_c1) parameter is put together twice")
                 .attachNote(user->getLoc())
             << "the other one is here";
  if (getAxis() != "tp" && getAxis() != "etp" && getAxis() != "stage")
    return emitOpError("(unshard_c5) axis is '")
           << getAxis() << "', required 'tp', 'etp' or, in a layout, 'stage'";
  if (getSectionWays() && getSectionWays()->size() != getSections().size())
    return emitOpError("(unshard_c7) has ways for ")
           << getSectionWays()->size() << " of " << getSections().size()
           << " sections";
  return success();
}

ParseResult ReshapeOp::parse(OpAsmParser &parser, OperationState &result) {
  result.addTypes(ArrayType::get(parser.getContext()));
  return failure(parseArrayOperand(parser, result) ||
                 parseExprList(parser, result, "shape") ||
                 parser.parseOptionalAttrDict(result.attributes));
}
void ReshapeOp::print(OpAsmPrinter &printer) {
  printer << " " << getValue() << " ";
  printExprList(printer, getShape());
  printer.printOptionalAttrDict((*this)->getAttrs(), {"shape"});
}

ParseResult SplitOp::parse(OpAsmParser &parser, OperationState &result) {
  if (parseArrayOperand(parser, result) || parseDim(parser, result) ||
      parseExprList(parser, result, "sizes"))
    return failure();
  size_t parts = cast<ArrayAttr>(result.attributes.get("sizes")).size();
  result.addTypes(
      SmallVector<Type>(parts, ArrayType::get(parser.getContext())));
  return parser.parseOptionalAttrDict(result.attributes);
}
void SplitOp::print(OpAsmPrinter &printer) {
  printer << " " << getValue() << " dim " << getDim() << " ";
  printExprList(printer, getSizes());
  printer.printOptionalAttrDict((*this)->getAttrs(), {"dim", "sizes"});
}

LogicalResult SplitOp::verify() {
  if (getParts().size() != getSizes().size())
    return emitOpError("(split_c1) has ")
           << getParts().size() << " results for " << getSizes().size()
           << " sizes";
  return success();
}

ParseResult TakeOp::parse(OpAsmParser &parser, OperationState &result) {
  result.addTypes(ArrayType::get(parser.getContext()));
  return failure(parseArrayOperand(parser, result) ||
                 parseDim(parser, result) || parser.parseKeyword("first") ||
                 parseExprAttr(parser, result, "size") ||
                 parser.parseKeyword("because") ||
                 parseStringAttr(parser, result, "reason") ||
                 parser.parseOptionalAttrDict(result.attributes));
}
void TakeOp::print(OpAsmPrinter &printer) {
  printer << " " << getValue() << " dim " << getDim() << " first "
          << getSize().getValue().str() << " because " << getReasonAttr();
  printer.printOptionalAttrDict((*this)->getAttrs(), {"dim", "size", "reason"});
}

ParseResult CastOp::parse(OpAsmParser &parser, OperationState &result) {
  result.addTypes(ArrayType::get(parser.getContext()));
  return failure(parseArrayOperand(parser, result) || parser.parseColon() ||
                 parseKeywordAttr(parser, result, "dtype") ||
                 parser.parseOptionalAttrDict(result.attributes));
}
void CastOp::print(OpAsmPrinter &printer) {
  printer << " " << getValue() << " : " << getDtype();
  printer.printOptionalAttrDict((*this)->getAttrs(), {"dtype"});
}
LogicalResult CastOp::verify() {
  if (getDtype() == "i64")
    return emitOpError("(cast_c1) type is 'i64', required storage, f32, bf16 "
                       "or f16");
  return verifyDtype(*this, getDtype());
}

//===----------------------------------------------------------------------===//
// Bound models
//===----------------------------------------------------------------------===//

LogicalResult SideOp::verify() {
  for (NamedAttribute size : getMesh()) {
    auto value = dyn_cast<IntegerAttr>(size.getValue());
    if (!value || value.getInt() < 1)
      return emitOpError("(side_c1) size of axis ")
             << size.getName() << " is " << size.getValue()
             << ", required an integer of at least 1";
  }
  int64_t sum = 0;
  for (Attribute stage : getStages()) {
    auto chunks = dyn_cast<ArrayAttr>(stage);
    if (!chunks)
      return emitOpError("(side_c2) stage ") << stage << " is not a list";
    for (Attribute chunk : chunks) {
      auto count = dyn_cast<IntegerAttr>(chunk);
      if (!count || count.getInt() < 0)
        return emitOpError("(side_c2) chunk ")
               << chunk << " is not a number of layers";
      sum += count.getInt();
    }
  }
  for (Attribute stack :
       getStacksAttr() ? getStacksAttr().getValue() : ArrayRef<Attribute>()) {
    auto pair = dyn_cast<ArrayAttr>(stack);
    auto count = pair && pair.size() == 2 ? dyn_cast<IntegerAttr>(pair[0])
                                          : IntegerAttr();
    auto stage = count ? dyn_cast<StringAttr>(pair[1]) : StringAttr();
    if (!stage || count.getInt() < 0 || count.getInt() > (1 << 16) ||
        (stage != "first" && stage != "last"))
      return emitOpError("(side_c2) stack ")
             << stack << " is not a number of layers and 'first' or 'last'";
  }
  if (sum != int64_t(getLayers()))
    return emitOpError("(side_c2) stages hold ")
           << sum << " layers, required " << getLayers();
  if (!getSlots())
    return success();
  auto ep = dyn_cast_or_null<IntegerAttr>(getMesh().get("ep"));
  ArrayRef<int64_t> begins = getSlotBeginsAttr().asArrayRef();
  if (int64_t(begins.size()) != (ep ? ep.getInt() : 1) + 1 || begins[0] != 0 ||
      !llvm::is_sorted(begins) || begins.back() < 1 ||
      getSlots()->size() % begins.back() != 0)
    return emitOpError("(side_c3) has ")
           << getSlots()->size() << " slots and begins for " << begins.size()
           << " ranks, ep is " << (ep ? ep.getInt() : 1);
  for (int64_t expert : getSlotsAttr().asArrayRef())
    if (expert < 0 || expert >= int64_t(getExperts()))
      return emitOpError("(side_c3) has expert ")
             << expert << " in a slot, of " << getExperts();
  return success();
}

SmallVector<std::pair<int64_t, StringRef>> SideOp::stacksOfLayers() {
  SmallVector<std::pair<int64_t, StringRef>> stacks;
  if (getStacksAttr())
    for (auto pair : getStacksAttr().getAsRange<ArrayAttr>())
      stacks.emplace_back(cast<IntegerAttr>(pair[0]).getInt(),
                          cast<StringAttr>(pair[1]).getValue());
  return stacks;
}

int64_t SideOp::numAllLayers() {
  int64_t count = getLayers();
  for (auto [layers, stage] : stacksOfLayers())
    count += layers;
  return count;
}

LogicalResult ApplyOp::verify() {
  if (getMaps().size() != getValues().size() || getMaps().empty())
    return emitOpError("(apply_c1) has ")
           << getMaps().size() << " maps for " << getValues().size()
           << " operands, required one for each";
  int64_t size = -1;
  for (MapAttr map : getMaps().getAsRange<MapAttr>()) {
    int64_t next = map.getValue().destinationSize();
    if (size >= 0 && next != size)
      return emitOpError("(apply_c1) maps lead into arrays of ")
             << size << " and " << next << " elements, required one size";
    size = next;
  }
  return success();
}

#define GET_OP_CLASSES
#include "dialect/DeltaOps.cpp.inc"
