//===- ComposeMaps.cpp - Chains of maps into one map a tensor -------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"
#include "passes/Passes.h"
#include "passes/Shapes.h"

#include "llvm/ADT/MapVector.h"

namespace delta {
#define GEN_PASS_DEF_COMPOSEMAPSPASS
#include "passes/Passes.h.inc"
} // namespace delta

using namespace delta;
using namespace mlir;

namespace {

/// Where the elements of a value come from: a map from each parameter.
struct Origin {
  llvm::MapVector<Value, ShardedMap> params;
  StringAttr op; ///< value op on the way
  StringAttr to; ///< type that the values are cast to after it
};

class Composer {
public:
  explicit Composer(MLIRContext *context) : builder(context) {}

  LogicalResult run(SideOp side) {
    Block &block = side.getBody().front();
    for (Operation &op : block) {
      if (auto param = dyn_cast<ParamOp>(op)) {
        if (failed(add(param)))
          return failure();
      } else if (auto apply = dyn_cast<ApplyOp>(op)) {
        if (failed(add(apply)))
          return failure();
      } else if (!isa<TensorOp, DropOp, CopyOp, PassthroughOp, RefreshOp>(op)) {
        return op.emitOpError("is not folded yet");
      }
    }
    for (Operation &op : block)
      if (isa<TensorOp, DropOp>(op))
        rewrite(&op);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isa<ApplyOp>(op) && op.use_empty())
        op.erase();
    return success();
  }

private:
  LogicalResult add(ParamOp param) {
    FailureOr<std::vector<int64_t>> local = shapeOfWay(param);
    if (failed(local))
      return failure();
    // Each way of the parameter starts as itself.
    ShardedMap map;
    map.ways.assign(param.getWays().value_or(1),
                    IndexMap::identity(numElements(*local)));
    origins[param.getResult()].params.insert({param.getResult(), map});
    return success();
  }

  LogicalResult add(ApplyOp apply) {
    Origin origin;
    origin.op = apply.getOpAttr();
    origin.to = apply.getToAttr();
    for (auto [value, attr] :
         llvm::zip(apply.getValues(), apply.getMaps().getAsRange<MapAttr>())) {
      const Origin &from = origins[value];
      if (from.op)
        origin.op = from.op;
      if (from.to)
        origin.to = from.to;
      const ShardedMap &next = attr.getValue();
      for (const auto &[param, map] : from.params) {
        size_t ways = std::max(map.ways.size(), next.ways.size());
        if (ways > 1 && next.ways.size() > 1 && map.ways.size() != ways)
          return apply.emitOpError("map of ")
                 << next.ways.size() << " ways after one of "
                 << map.ways.size();
        if (map.destinationSize() != next.sourceSize())
          return apply.emitOpError("map from an array of ")
                 << next.sourceSize() << " elements, its operand has "
                 << map.destinationSize();
        ShardedMap composed;
        for (size_t way = 0; way < map.ways.size(); ++way) {
          auto result =
              map.ways[way].then(next.ways[next.ways.size() > 1 ? way : 0]);
          if (!result)
            return apply.emitOpError("way ")
                   << way << " needs more than 65536 pieces";
          composed.ways.push_back(std::move(*result));
        }
        auto [it, isNew] = origin.params.insert({param, composed});
        for (size_t way = 0; !isNew && way < composed.ways.size(); ++way)
          it->second.ways[way].unite(composed.ways[way]);
      }
    }
    origins[apply.getResult()] = std::move(origin);
    return success();
  }

  /// Makes a tensor or drop read one apply of its parameters.
  void rewrite(Operation *op) {
    Value value = op->getOperand(0);
    Value &made = composed[value];
    if (!made) {
      const Origin &origin = origins[value];
      SmallVector<Value> params;
      SmallVector<Attribute> maps;
      for (const auto &[param, map] : origin.params) {
        params.push_back(param);
        maps.push_back(MapAttr::get(builder.getContext(), map));
      }
      builder.setInsertionPoint(op);
      made = ApplyOp::create(builder, op->getLoc(), value.getType(), params,
                             builder.getArrayAttr(maps), origin.op, origin.to)
                 .getResult();
    }
    op->setOperand(0, made);
  }

  OpBuilder builder;
  DenseMap<Value, Origin> origins;
  DenseMap<Value, Value> composed;
};

struct ComposeMaps : delta::impl::ComposeMapsPassBase<ComposeMaps> {
  void runOnOperation() override {
    for (auto side : getOperation().getOps<SideOp>())
      if (failed(Composer(&getContext()).run(side)))
        return signalPassFailure();
  }
};
} // namespace
