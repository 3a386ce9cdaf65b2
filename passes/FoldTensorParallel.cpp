//===- FoldTensorParallel.cpp - Shards into index maps --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"
#include "passes/Passes.h"
#include "passes/Shapes.h"

namespace delta {
#define GEN_PASS_DEF_FOLDTENSORPARALLELPASS
#include "passes/Passes.h.inc"
} // namespace delta

using namespace delta;
using namespace mlir;

/// Way `w` holds rows [w*s/W, (w+1)*s/W) of each section, one section after
/// the other.
static IndexMap shardMap(const std::vector<int64_t> &shape,
                         const std::vector<int64_t> &local, int64_t dim,
                         const std::vector<int64_t> &sections, int64_t ways,
                         int64_t way) {
  IndexMap map{numElements(local), numElements(shape), {}};
  int64_t base = 0, from = 0;
  for (int64_t section : sections) {
    int64_t rows = section / ways;
    map.unite(
        IndexMap::rows(local, dim, from, rows, base + way * rows, shape[dim]));
    base += section;
    from += rows;
  }
  return map;
}

static LogicalResult fold(UnshardOp op, OpBuilder &builder) {
  auto param = op.getShards().getDefiningOp<ParamOp>();
  FailureOr<std::vector<int64_t>> shape = literals(param, param.getShape());
  FailureOr<std::vector<int64_t>> sections = literals(op, op.getSections());
  FailureOr<int64_t> ways =
      op.getWays() ? literal(op, *op.getWays()) : FailureOr<int64_t>(failure());
  if (!op.getWays())
    return op.emitOpError("has no number of ways; bind the module first");
  if (failed(shape) || failed(sections) || failed(ways))
    return failure();
  int64_t dim = op.getDim();
  if (dim < 0 || dim >= int64_t(shape->size()))
    return op.emitOpError("(unshard_c2) dim ")
           << dim << " of a parameter of rank " << shape->size();
  if (sections->empty())
    sections->push_back((*shape)[dim]);
  int64_t sum = 0;
  for (int64_t section : *sections) {
    sum += section;
    if (*ways < 1 || section % *ways != 0)
      return op.emitOpError("(unshard_c3) size ")
             << section << " is not divisible by " << *ways << " ways";
  }
  if (sum != (*shape)[dim])
    return op.emitOpError("(unshard_c4) sections sum up to ")
           << sum << ", required " << (*shape)[dim];

  std::vector<int64_t> local = *shape;
  local[dim] /= *ways;
  ShardedMap map;
  for (int64_t way = 0; way < *ways; ++way)
    map.ways.push_back(shardMap(*shape, local, dim, *sections, *ways, way));
  param.setAxisAttr(op.getAxisAttr());
  param.setWaysAttr(builder.getI64IntegerAttr(*ways));
  param.setLocalAttr(builder.getDenseI64ArrayAttr(local));
  builder.setInsertionPoint(op);
  auto apply = ApplyOp::create(
      builder, op.getLoc(), op.getResult().getType(), op.getShards(),
      builder.getArrayAttr(MapAttr::get(builder.getContext(), map)),
      StringAttr(), StringAttr());
  // Later index functions need the shape of the whole parameter.
  apply->setAttr("shape", builder.getDenseI64ArrayAttr(*shape));
  op.getResult().replaceAllUsesWith(apply.getResult());
  op.erase();
  return success();
}

namespace {
struct FoldTensorParallel
    : delta::impl::FoldTensorParallelPassBase<FoldTensorParallel> {
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    for (auto side : getOperation().getOps<SideOp>())
      for (auto op : llvm::make_early_inc_range(
               side.getBody().front().getOps<UnshardOp>()))
        if (failed(fold(op, builder)))
          return signalPassFailure();
  }
};
} // namespace
