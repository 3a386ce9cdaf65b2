//===- Instantiator.h - Binding of a family, op by op -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Shared by the parts of the instantiate pass: the structure of a family
/// (Instantiate.cpp), its ops (InstantiateOps.cpp), its expressions and names
/// (InstantiateExpr.cpp), and what layouts of engines have beside
/// (InstantiateLayout.cpp).
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_PASSES_INSTANTIATOR_H
#define DELTA_PASSES_INSTANTIATOR_H

#include "dialect/DeltaDialect.h"
#include "passes/Layout.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

#include <nlohmann/json.hpp>

#include <map>
#include <set>

namespace delta {

using namespace mlir;

using Shape = std::vector<int64_t>;

inline std::string str(const Shape &shape) {
  std::string out = "[";
  for (int64_t size : shape)
    out += (out.size() > 1 ? ", " : "") + std::to_string(size);
  return out + "]";
}

/// Number of elements, or nothing on overflow.
inline std::optional<int64_t> checkedSize(const Shape &shape) {
  int64_t n = 1;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(n, size, &n))
      return std::nullopt;
  return n;
}

/// Keys of the config that a value comes from, with what they say.
using Origins = std::map<std::string, std::string>;

/// Names that an op can see: its own region's symbols, then its parents'.
struct Scope {
  struct Symbol {
    ExprValue value;
    Origins origins;
  };
  Scope *parent = nullptr;
  std::map<std::string, Symbol> symbols;

  const Symbol *find(const std::string &name) const {
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
  std::vector<std::string> trainer = {""}; ///< alternatives
  std::string hf;
  std::optional<std::string> stage;
  /// Rows of the layer table, and that of layer 0: of the decoder, or a stack.
  std::optional<std::vector<int64_t>> layers;
  int64_t firstRow = 0;
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
    noteOrigins(diagnostic, op, context);
    if (isDestination)
      diagnostic.attachNote(family.getLoc()) << "bound for the destination";
    return diagnostic;
  }

  /// Notes the values of the config that the op's sizes come from.
  void noteOrigins(InFlightDiagnostic &diagnostic, Operation *op,
                   const Context &context);

  /// A key's value and its path; null if the config does not have it.
  std::pair<const nlohmann::json *, std::string>
  lookup(const std::string &key) const;
  /// Whether the key list has a tensor, in all layers and experts alike.
  Evaluated isListed(Operation *op, const Context &context,
                     const std::string &name);
  /// The same as a condition; false without a key list. Reports an error.
  FailureOr<bool> isListedHere(Operation *op, Context &context, StringRef name);
  /// As evaluate, with the keys that the value comes from.
  FailureOr<ExprValue> evaluateFresh(Operation *op, const Context &context,
                                     const Expr &expr, Origins &outOrigins);

  /// Folds an expression; fails with an error at `op`.
  FailureOr<ExprValue> evaluate(Operation *op, const Context &context,
                                const Expr &expr);
  FailureOr<int64_t> evaluateInt(Operation *op, const Context &context,
                                 ExprAttr attr);
  FailureOr<bool> evaluateBool(Operation *op, const Context &context,
                               ExprAttr attr);
  /// A list of integers of at least `least`.
  FailureOr<Shape> evaluateSizes(Operation *op, const Context &context,
                                 ArrayAttr list, int64_t least = 1);
  ArrayAttr literals(const Shape &shape);

  enum class NameOf { Param, Tensor };
  /// Completes a name and resolves its holes. `{layer}`, `{layer+N}` and
  /// `{expert}` stay; other holes are symbols. Of several prefixes of the
  /// trainer, that of the number `alternative` counts.
  FailureOr<std::string> expandName(Operation *op, const Context &context,
                                    NameOf kind, StringRef name,
                                    size_t alternative = 0);

  //===--- ops ------------------------------------------------------------===//

  LogicalResult walk(Region &region, Context context);
  LogicalResult visit(Operation *op, Context &context);
  LogicalResult use(UseOp op, Context &context);
  LogicalResult decoder(DecoderOp op, Context &context);
  LogicalResult layersPerStage(DecoderOp op, Context &context,
                               PipelineLayout &layout);
  LogicalResult placeExperts(SideOp side);
  LogicalResult layers(LayersOp op, Context &context);
  LogicalResult stack(StackOp op, Context &context);
  /// Walks a body for those of `count` layers that fulfil the condition.
  LogicalResult bindLayers(Operation *op, ExprAttr condition, int64_t firstRow,
                           int64_t count, Region &body, const Context &context);
  LogicalResult experts(ExpertsOp op, Context &context);
  LogicalResult param(ParamOp op, Context &context);
  LogicalResult checkStacked(ParamOp op, Context &context, const Shape &shape);
  LogicalResult checkSlot(ParamOp bound, Context &context);
  LogicalResult refresh(RefreshOp op, Context &context);
  LogicalResult copy(CopyOp op, Context &context);
  LogicalResult tensor(TensorOp op, Context &context);
  FailureOr<Shape> waysOfSections(UnshardOp op, Context &context, int64_t ways,
                                  size_t count);
  LogicalResult unshard(UnshardOp op, Context &context);
  LogicalResult reshape(ReshapeOp op, Context &context);
  LogicalResult transpose(TransposeOp op, Context &context);
  LogicalResult split(SplitOp op, Context &context);
  LogicalResult join(Operation *op, int64_t dim, Context &context,
                     StringRef label);
  LogicalResult take(TakeOp op, Context &context);
  LogicalResult addScalar(AddScalarOp op, Context &context);
  LogicalResult bindCast(CastOp op, Context &context);
  LogicalResult passthrough(PassthroughOp op, Context &context);
  /// Leaves every tensor of the key list to its base whose name begins so.
  LogicalResult passthroughAll(PassthroughOp op, const std::string &prefix,
                               Context &context);

  /// The type in bound text.
  StringRef resolved(StringRef dtype) const {
    return dtype == "storage" ? StringRef(storage) : dtype;
  }
  /// Casts a value; fails unless it is a cast that kernels know.
  FailureOr<mlir::Value> castTo(Operation *op, Context &context,
                                mlir::Value value, StringRef dtype);
  /// The type that the key list gives a tensor, in bound text; empty if there
  /// is none.
  StringRef listedType(const std::string &name, const Context &context) const;

  LogicalResult checkDim(Operation *op, Context &context, StringRef label,
                         int64_t dim, const Shape &shape) {
    if (dim >= 0 && dim < int64_t(shape.size()))
      return success();
    return error(op, context,
                 "(" + label + ") dim " + Twine(dim) + " of a value of shape " +
                     str(shape));
  }

  /// Facts about a bound value.
  struct Facts {
    Shape shape;
    std::string dtype;
    bool experts = false;
    bool layers = false;
    bool scalar = false; ///< went through an add_scalar
    bool cast = false;   ///< went through a cast
    Origins origins;     ///< of the sizes
  };

  mlir::Value map(Context &context, mlir::Value value) {
    return context.values->lookup(value);
  }
  const Facts &factsOf(mlir::Value bound) {
    return facts.at(bound.getAsOpaquePointer());
  }
  void define(Context &context, mlir::Value original, mlir::Value bound,
              Facts f) {
    context.values->map(original, bound);
    facts[bound.getAsOpaquePointer()] = std::move(f);
  }

  /// The family is an engine's.
  bool isLayout() { return family.getEngine().has_value(); }

  /// `stage`: the ranks of a pipeline stage.
  int64_t axisSize(StringRef axis) {
    if (axis == "stage")
      return axisSize("tp") * axisSize("cp") * axisSize("dp");
    return std::get<int64_t>(root.symbols.at(axis.str()).value.data);
  }

  ModuleOp module;
  FamilyOp family;
  nlohmann::json config;
  std::optional<nlohmann::json> keys;
  OpBuilder builder;
  DictionaryAttr geometry;
  bool isDestination = false; ///< messages about it say so
  /// Keys that the config does not have, and what counts instead.
  std::map<std::string, std::string> defaults;
  bool askedForMtp = false;    ///< the family looked at mtp_layers
  bool askedForScores = false; ///< ... and at scores
  std::string configPart;      ///< where keys are looked up first
  Origins reads;               ///< by the op that is being bound
  Scope root;
  std::map<const void *, Facts> facts;
  std::set<const void *> produced; ///< values that are tensors already
  std::string storage, scheme;
  int64_t numLayers = 0, numExperts = 0;
  int64_t numRows = 0; ///< of the layer table so far: decoder and stacks
  SmallVector<Attribute> stacks;
  std::vector<std::vector<int64_t>> chunks;
  Type array;
};

} // namespace delta

#endif // DELTA_PASSES_INSTANTIATOR_H
