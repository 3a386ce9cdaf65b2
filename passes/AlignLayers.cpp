//===- AlignLayers.cpp - An engine's classes on the trainer's layers ------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A layout may say of all layers what a family says of dense and of sparse
/// ones, or the other way round. A class goes to classes on the same layers, so
/// an engine's parameters, with all that hangs together with them, are repeated
/// for each set of layers that the trainer tells apart.
///
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"
#include "passes/Classes.h"
#include "passes/Passes.h"

#include "llvm/ADT/EquivalenceClasses.h"

#include "mlir/IR/IRMapping.h"

#include <map>

namespace delta {
#define GEN_PASS_DEF_ALIGNLAYERSPASS
#include "passes/Passes.h.inc"
} // namespace delta

using namespace delta;
using namespace mlir;

namespace {

/// Which of the trainer's tensors make a layer what it is.
using Signature = std::vector<int64_t>;

class Aligner {
public:
  Aligner(SideOp source, SideOp destination)
      : from(source), destination(destination),
        builder(destination.getContext()) {}

  void run() {
    for (const std::vector<Operation *> &part : components())
      split(part);
  }

private:
  /// Ops that hang together by their values, in their order; those on layers.
  std::vector<std::vector<Operation *>> components() {
    llvm::EquivalenceClasses<Operation *> joined;
    for (Operation &op : destination.getBody().front()) {
      joined.insert(&op);
      for (Value operand : op.getOperands())
        joined.unionSets(&op, operand.getDefiningOp());
    }
    std::map<Operation *, size_t> number;
    std::vector<std::vector<Operation *>> parts;
    for (Operation &op : destination.getBody().front()) {
      auto [it, isNew] =
          number.try_emplace(joined.getLeaderValue(&op), parts.size());
      if (isNew)
        parts.emplace_back();
      parts[it->second].push_back(&op);
    }
    llvm::erase_if(parts, [](const std::vector<Operation *> &part) {
      auto param = dyn_cast<ParamOp>(part[0]);
      return !param || !param.getLayers();
    });
    return parts;
  }

  Signature signatureOf(const std::vector<Operation *> &part, int64_t layer) {
    Signature signature;
    for (Operation *op : part)
      if (auto tensor = dyn_cast<TensorOp>(op))
        for (auto [number, other] : llvm::enumerate(from.tensors))
          if (other.getName() == tensor.getName() && !other.getAlias() &&
              layersOf(other) &&
              llvm::is_contained(layersOf(other).asArrayRef(), layer))
            signature.push_back(number);
    return signature;
  }

  void split(const std::vector<Operation *> &part) {
    auto layers = cast<ParamOp>(part[0]).getLayersAttr();
    std::map<Signature, SmallVector<int64_t>> kinds;
    for (int64_t layer : layers.asArrayRef())
      kinds[signatureOf(part, layer)].push_back(layer);
    if (kinds.size() == 1)
      return;
    // In the order of their first layers; the first kind keeps the ops.
    std::vector<SmallVector<int64_t>> sorted;
    for (auto &[signature, list] : kinds)
      sorted.push_back(list);
    llvm::sort(sorted);
    builder.setInsertionPointAfter(part.back());
    for (size_t kind = 1; kind < sorted.size(); ++kind) {
      IRMapping values;
      for (Operation *op : part)
        place(builder.clone(*op, values), sorted[kind]);
    }
    for (Operation *op : part)
      place(op, sorted[0]);
  }

  void place(Operation *op, ArrayRef<int64_t> layers) {
    if (auto param = dyn_cast<ParamOp>(op))
      param.setLayersAttr(builder.getDenseI64ArrayAttr(layers));
  }

  SideClasses from;
  SideOp destination;
  OpBuilder builder;
};

struct AlignLayers : delta::impl::AlignLayersPassBase<AlignLayers> {
  void runOnOperation() override {
    auto source = getOperation().lookupSymbol<SideOp>("source");
    auto destination = getOperation().lookupSymbol<SideOp>("destination");
    if (source && destination && destination.getEngine())
      Aligner(source, destination).run();
  }
};
} // namespace
