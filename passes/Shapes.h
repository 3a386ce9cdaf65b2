//===- Shapes.h - Reading sizes of bound ops --------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_PASSES_SHAPES_H
#define DELTA_PASSES_SHAPES_H

#include "dialect/DeltaDialect.h"

#include "llvm/ADT/DenseMap.h"

namespace delta {

/// The integers of a list of expressions, or failure with an error at `op` if
/// one is not a literal: the module is not bound yet.
inline mlir::FailureOr<std::vector<int64_t>> literals(mlir::Operation *op,
                                                      mlir::ArrayAttr list) {
  std::vector<int64_t> out;
  for (ExprAttr attr : list.getAsRange<ExprAttr>()) {
    std::optional<int64_t> value = attr.getValue().literal();
    if (!value || *value < 0)
      return op->emitOpError("size '")
             << attr.getValue().str()
             << "' is not a number; bind the module first";
    out.push_back(*value);
  }
  return out;
}

/// The integer of one expression.
inline mlir::FailureOr<int64_t> literal(mlir::Operation *op, ExprAttr attr) {
  auto list = literals(op, mlir::ArrayAttr::get(op->getContext(), {attr}));
  if (mlir::failed(list))
    return mlir::failure();
  return list->front();
}

/// The shape of what one way of a bound parameter holds: its local shape where
/// the fold of tensor parallelism gave it one.
inline mlir::FailureOr<std::vector<int64_t>> shapeOfWay(ParamOp param) {
  if (auto local = param.getLocal())
    return std::vector<int64_t>(local->begin(), local->end());
  return literals(param, param.getShape());
}

/// Shapes of the values of one side while it is walked in order. A value that
/// an `apply` made has one dimension: its elements.
class ShapeTable {
public:
  const std::vector<int64_t> &operator[](mlir::Value value) const {
    return shapes.find(value)->second;
  }
  /// Computes the shapes of `op`'s results from those of its operands; fails
  /// with an error at `op` where the op does not fit them.
  mlir::LogicalResult add(mlir::Operation *op);

private:
  llvm::DenseMap<mlir::Value, std::vector<int64_t>> shapes;
};

} // namespace delta

#endif // DELTA_PASSES_SHAPES_H
