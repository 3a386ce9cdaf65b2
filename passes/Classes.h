//===- Classes.h - Numbering of classes and links of a side -----*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_PASSES_CLASSES_H
#define DELTA_PASSES_CLASSES_H

#include "dialect/DeltaDialect.h"

#include "llvm/ADT/DenseMap.h"

namespace delta {

/// Parameters, copies and tensors of a side in their order: the numbers by
/// which routes and plans call them. Parameters and copies share one count.
struct SideClasses {
  explicit SideClasses(SideOp side) {
    for (mlir::Operation &op : side.getBody().front()) {
      if (mlir::isa<ParamOp, CopyOp>(op)) {
        number[&op] = params.size();
        params.push_back(&op);
      } else if (auto tensor = mlir::dyn_cast<TensorOp>(op)) {
        number[&op] = tensors.size();
        tensors.push_back(tensor);
      }
    }
  }
  llvm::SmallVector<mlir::Operation *> params; ///< ParamOp or CopyOp
  llvm::SmallVector<TensorOp> tensors;
  llvm::DenseMap<mlir::Operation *, int64_t> number;
};

/// First name of a parameter or copy.
inline llvm::StringRef nameOf(mlir::Operation *op) {
  if (auto param = mlir::dyn_cast<ParamOp>(op))
    return mlir::cast<mlir::StringAttr>(param.getNames()[0]).getValue();
  return mlir::cast<CopyOp>(op).getName();
}

/// The apply that a composed tensor or drop reads.
inline ApplyOp applyOf(mlir::Operation *op) {
  return op->getOperand(0).getDefiningOp<ApplyOp>();
}

/// Layers of the parameters that a composed tensor reads; null outside layers.
inline mlir::DenseI64ArrayAttr layersOf(TensorOp tensor) {
  ApplyOp apply = applyOf(tensor);
  auto param = apply ? apply.getValues()[0].getDefiningOp<ParamOp>() : nullptr;
  return param ? param.getLayersAttr() : mlir::DenseI64ArrayAttr();
}

} // namespace delta

#endif // DELTA_PASSES_CLASSES_H
