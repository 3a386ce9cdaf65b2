//===- Instantiator.h - Binding of a family, op by op -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Shared by the two halves of the instantiate pass: the structure of a family
/// (Instantiate.cpp) and its ops (InstantiateOps.cpp).
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_PASSES_INSTANTIATOR_H
#define DELTA_PASSES_INSTANTIATOR_H

#include "dialect/DeltaDialect.h"

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
    if (isDestination)
      diagnostic.attachNote(family.getLoc()) << "bound for the destination";
    return diagnostic;
  }

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

  /// Completes a name and resolves its holes. `{layer}`, `{layer+N}` and
  /// `{expert}` stay; other holes are symbols.
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
  LogicalResult join(Operation *op, int64_t dim, Context &context,
                     StringRef label);
  LogicalResult take(TakeOp op, Context &context);
  LogicalResult addScalar(AddScalarOp op, Context &context);

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

  int64_t axisSize(StringRef axis) {
    return std::get<int64_t>(root.symbols.at(axis.str()).data);
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
  bool askedForMtp = false; ///< the family looked at mtp_layers
  Scope root;
  std::map<const void *, Facts> facts;
  std::set<const void *> produced; ///< values that are tensors already
  std::string storage, scheme;
  int64_t numLayers = 0, numExperts = 0;
  std::vector<std::vector<int64_t>> chunks;
  Type array;
};

} // namespace delta

#endif // DELTA_PASSES_INSTANTIATOR_H
