//===- DeltaDialect.h - The delta dialect -----------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Dialect, type, attributes and ops in one header: what passes include.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_DIALECT_DELTADIALECT_H
#define DELTA_DIALECT_DELTADIALECT_H

#include "dialect/Expr.h"
#include "dialect/IndexMap.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace delta {
/// Expressions are uniqued by their text.
inline llvm::hash_code hash_value(const Expr &expr) {
  return llvm::hash_value(expr.str());
}
/// Maps are uniqued by their pieces; equality decides.
inline llvm::hash_code hash_value(const ShardedMap &map) {
  llvm::hash_code hash = llvm::hash_combine(map.ways.size(), map.sourceSize(),
                                            map.destinationSize());
  for (const IndexMap &way : map.ways)
    for (const Piece &piece : way.pieces)
      hash = llvm::hash_combine(hash, piece.source, piece.destination,
                                piece.loops.size());
  return hash;
}

/// Parses an expression where the text stands: to the end of what can belong
/// to it.
mlir::ParseResult parseExpr(mlir::AsmParser &parser, Expr &expr);
} // namespace delta

#include "dialect/DeltaDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/DeltaTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/DeltaAttrs.h.inc"

#define GET_OP_CLASSES
#include "dialect/DeltaOps.h.inc"

#endif // DELTA_DIALECT_DELTADIALECT_H
