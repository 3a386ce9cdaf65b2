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

/// Sections of a dimension and the number of distinct parts of each.
struct Sections {
  std::vector<int64_t> sizes, ways;
};

/// Way `w` of `W` holds part `w / (W / u)` of each section of `u` parts, one
/// section after the other.
static IndexMap shardMap(const std::vector<int64_t> &shape,
                         const std::vector<int64_t> &local, int64_t dim,
                         const Sections &sections, int64_t ways, int64_t way) {
  IndexMap map{numElements(local), numElements(shape), {}};
  int64_t base = 0, from = 0;
  for (auto [section, parts] : llvm::zip(sections.sizes, sections.ways)) {
    int64_t rows = section / parts;
    int64_t part = way / (ways / parts);
    if (rows > 0)
      map.unite(IndexMap::rows(local, dim, from, rows, base + part * rows,
                               shape[dim]));
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
  Sections parts{*sections, std::vector<int64_t>(sections->size(), *ways)};
  if (op.getSectionWays()) {
    FailureOr<std::vector<int64_t>> own = literals(op, *op.getSectionWays());
    if (failed(own))
      return failure();
    parts.ways = *own;
  }
  int64_t sum = 0, rows = 0;
  for (auto [section, own] : llvm::zip(parts.sizes, parts.ways)) {
    sum += section;
    if (*ways < 1 || own < 1 || *ways % own != 0)
      return op.emitOpError("(unshard_c7) ")
             << own << " ways of a section do not divide " << *ways;
    if (section % own != 0)
      return op.emitOpError("(unshard_c3) size ")
             << section << " is not divisible by " << own << " ways";
    rows += section / own;
  }
  if (sum != (*shape)[dim])
    return op.emitOpError("(unshard_c4) sections sum up to ")
           << sum << ", required " << (*shape)[dim];

  std::vector<int64_t> local = *shape;
  local[dim] = rows;
  ShardedMap map;
  for (int64_t way = 0; way < *ways; ++way)
    map.ways.push_back(shardMap(*shape, local, dim, parts, *ways, way));
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
