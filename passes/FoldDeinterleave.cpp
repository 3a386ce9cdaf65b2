//===- FoldDeinterleave.cpp - Index functions into index maps -------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"
#include "passes/Passes.h"
#include "passes/Shapes.h"

#include "llvm/ADT/TypeSwitch.h"

namespace delta {
#define GEN_PASS_DEF_FOLDDEINTERLEAVEPASS
#include "passes/Passes.h.inc"
} // namespace delta

using namespace delta;
using namespace mlir;

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

LogicalResult ShapeTable::add(Operation *op) {
  auto take = [&](FailureOr<std::vector<int64_t>> shape) -> LogicalResult {
    if (failed(shape))
      return failure();
    shapes[op->getResult(0)] = *shape;
    return success();
  };
  // Binding has checked all this; hand-written bound text has not.
  auto checkDim = [&](int64_t dim, StringRef label) -> LogicalResult {
    int64_t rank = shapes[op->getOperand(0)].size();
    if (dim >= 0 && dim < rank)
      return success();
    return op->emitOpError("(")
           << label << ") dim " << dim << " of a value of rank " << rank;
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<ParamOp>(
          [&](ParamOp o) { return take(literals(op, o.getShape())); })
      .Case<UnshardOp>([&](UnshardOp o) { return take(shapes[o.getShards()]); })
      .Case<ReshapeOp>([&](ReshapeOp o) -> LogicalResult {
        FailureOr<std::vector<int64_t>> shape = literals(op, o.getShape());
        int64_t size = numElements(shapes[o.getValue()]);
        if (succeeded(shape) && numElements(*shape) != size)
          return op->emitOpError("(reshape_c1) has ")
                 << numElements(*shape) << " elements, its operand " << size;
        return take(shape);
      })
      .Case<AddScalarOp, CastOp>(
          [&](auto o) { return take(shapes[o.getValue()]); })
      .Case<ApplyOp>([&](ApplyOp o) -> LogicalResult {
        if (auto shape = op->getAttrOfType<DenseI64ArrayAttr>("shape"))
          return take(std::vector<int64_t>(shape.asArrayRef()));
        auto map = cast<MapAttr>(o.getMaps()[0]);
        return take(std::vector<int64_t>{map.getValue().destinationSize()});
      })
      .Case<TransposeOp>([&](TransposeOp o) -> LogicalResult {
        std::vector<int64_t> from = shapes[o.getValue()], shape;
        std::vector<bool> seen(from.size(), false);
        for (int64_t dim : o.getPermutation()) {
          if (dim < 0 || dim >= int64_t(from.size()) || seen[dim])
            break;
          seen[dim] = true;
          shape.push_back(from[dim]);
        }
        if (shape.size() != from.size() ||
            shape.size() != o.getPermutation().size())
          return op->emitOpError("(transpose_c1) does not permute ")
                 << from.size() << " dimensions";
        return take(shape);
      })
      .Case<SplitOp>([&](SplitOp o) -> LogicalResult {
        FailureOr<std::vector<int64_t>> sizes = literals(op, o.getSizes());
        if (failed(sizes) || failed(checkDim(o.getDim(), "split_c2")))
          return failure();
        int64_t sum = 0, rows = shapes[o.getValue()][o.getDim()];
        for (int64_t size : *sizes)
          sum += size;
        if (sum != rows)
          return op->emitOpError("(split_c3) sizes sum up to ")
                 << sum << ", required " << rows;
        for (size_t i = 0; i < sizes->size(); ++i) {
          std::vector<int64_t> shape = shapes[o.getValue()];
          shape[o.getDim()] = (*sizes)[i];
          shapes[op->getResult(i)] = std::move(shape);
        }
        return success();
      })
      .Case<ConcatOp, InterleaveOp>([&](auto o) -> LogicalResult {
        bool isConcat = isa<ConcatOp>(op);
        StringRef label = isConcat ? "concat_c1" : "interleave_c1";
        if (op->getNumOperands() == 0)
          return op->emitOpError("(") << label << ") has no operands";
        if (failed(checkDim(o.getDim(), label)))
          return failure();
        std::vector<int64_t> shape = shapes[op->getOperand(0)];
        int64_t rows = 0;
        for (Value value : op->getOperands()) {
          std::vector<int64_t> other = shapes[value];
          if (other.size() == shape.size()) {
            rows += other[o.getDim()];
            if (isConcat)
              other[o.getDim()] = shape[o.getDim()];
          }
          if (other != shape)
            return op->emitOpError("(")
                   << label << ") operands do not "
                   << (isConcat ? "agree outside of dim " +
                                      std::to_string(o.getDim())
                                : std::string("have one shape"));
        }
        shape[o.getDim()] = rows;
        return take(shape);
      })
      .Case<TakeOp>([&](TakeOp o) -> LogicalResult {
        FailureOr<int64_t> size = literal(op, o.getSize());
        if (failed(size) || failed(checkDim(o.getDim(), "take_c1")))
          return failure();
        std::vector<int64_t> shape = shapes[o.getValue()];
        if (*size > shape[o.getDim()])
          return op->emitOpError("(take_c1) takes ")
                 << *size << " of " << shape[o.getDim()] << " rows";
        shape[o.getDim()] = *size;
        return take(shape);
      })
      .Default([](Operation *other) -> LogicalResult {
        if (other->getNumResults() == 0)
          return success();
        return other->emitOpError("is not an op of a bound side");
      });
}

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

namespace {
class Folder {
public:
  explicit Folder(MLIRContext *context) : builder(context) {}

  LogicalResult run(SideOp side) {
    for (Operation &op : llvm::make_early_inc_range(side.getBody().front())) {
      if (failed(shapes.add(&op)))
        return failure();
      builder.setInsertionPoint(&op);
      SmallVector<Value> results = fold(&op);
      if (results.empty())
        continue;
      for (auto [old, value] : llvm::zip(op.getResults(), results))
        Value(old).replaceAllUsesWith(value);
      folded.push_back(&op);
    }
    for (Operation *op : llvm::reverse(folded))
      op->erase();
    return success();
  }

private:
  /// An apply from one value; its result keeps the shape for later ops.
  Value apply(Operation *op, ValueRange values, ArrayRef<IndexMap> maps,
              ArrayRef<int64_t> shape, StringAttr valueOp = {},
              StringAttr to = {}) {
    SmallVector<Attribute> attrs;
    for (const IndexMap &map : maps)
      attrs.push_back(MapAttr::get(builder.getContext(), ShardedMap{{map}}));
    auto result = ApplyOp::create(builder, op->getLoc(),
                                  ArrayType::get(builder.getContext()), values,
                                  builder.getArrayAttr(attrs), valueOp, to);
    result->setAttr("shape", builder.getDenseI64ArrayAttr(shape));
    (void)shapes.add(result);
    return result.getResult();
  }

  /// Values that take the place of the op's results; none: the op stays.
  SmallVector<Value> fold(Operation *op) {
    auto rowsOf = [&](Value value, int64_t dim, int64_t from, int64_t count) {
      std::vector<int64_t> shape = shapes[value];
      IndexMap map = IndexMap::rows(shape, dim, from, count, 0, count);
      shape[dim] = count;
      return apply(op, value, map, shape);
    };
    return llvm::TypeSwitch<Operation *, SmallVector<Value>>(op)
        .Case<ReshapeOp>([&](ReshapeOp o) -> SmallVector<Value> {
          return {apply(op, o.getValue(),
                        IndexMap::identity(numElements(shapes[o.getResult()])),
                        shapes[o.getResult()])};
        })
        .Case<TransposeOp>([&](TransposeOp o) -> SmallVector<Value> {
          return {apply(
              op, o.getValue(),
              IndexMap::transpose(shapes[o.getValue()],
                                  std::vector<int64_t>(o.getPermutation())),
              shapes[o.getResult()])};
        })
        .Case<SplitOp>([&](SplitOp o) {
          SmallVector<Value> parts;
          int64_t from = 0;
          for (Value part : o.getParts()) {
            int64_t count = shapes[part][o.getDim()];
            parts.push_back(rowsOf(o.getValue(), o.getDim(), from, count));
            from += count;
          }
          return parts;
        })
        .Case<ConcatOp, InterleaveOp>([&](auto o) -> SmallVector<Value> {
          int64_t dim = o.getDim(), rows = shapes[o.getResult()][dim], to = 0;
          bool alternate = isa<InterleaveOp>(op);
          int64_t step = alternate ? op->getNumOperands() : 1;
          SmallVector<IndexMap> maps;
          for (Value value : op->getOperands()) {
            const std::vector<int64_t> &shape = shapes[value];
            maps.push_back(
                IndexMap::rows(shape, dim, 0, shape[dim], to, rows, step));
            to += alternate ? 1 : shape[dim];
          }
          return {apply(op, op->getOperands(), maps, shapes[o.getResult()])};
        })
        .Case<TakeOp>([&](TakeOp o) -> SmallVector<Value> {
          int64_t dim = o.getDim(), rows = shapes[o.getValue()][dim];
          int64_t kept = shapes[o.getResult()][dim];
          if (kept < rows)
            DropOp::create(builder, op->getLoc(),
                           rowsOf(o.getValue(), dim, kept, rows - kept),
                           o.getReasonAttr());
          return {rowsOf(o.getValue(), dim, 0, kept)};
        })
        .Case<AddScalarOp>([&](AddScalarOp o) -> SmallVector<Value> {
          const std::vector<int64_t> &shape = shapes[o.getValue()];
          return {apply(op, o.getValue(),
                        IndexMap::identity(numElements(shape)), shape,
                        builder.getStringAttr("add_one"))};
        })
        .Case<CastOp>([&](CastOp o) -> SmallVector<Value> {
          const std::vector<int64_t> &shape = shapes[o.getValue()];
          return {apply(op, o.getValue(),
                        IndexMap::identity(numElements(shape)), shape, {},
                        o.getDtypeAttr())};
        })
        .Default([](Operation *) { return SmallVector<Value>(); });
  }

  OpBuilder builder;
  ShapeTable shapes;
  SmallVector<Operation *> folded;
};

struct FoldDeinterleave
    : delta::impl::FoldDeinterleavePassBase<FoldDeinterleave> {
  void runOnOperation() override {
    for (auto side : getOperation().getOps<SideOp>())
      if (failed(Folder(&getContext()).run(side)))
        return signalPassFailure();
  }
};
} // namespace
