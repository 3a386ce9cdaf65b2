//===- Reference.cpp - A bound module as a reference program --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KeyList.h"
#include "Lower.h"

#include "passes/Shapes.h"
#include "tools/reference/Interpreter.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace delta;
using namespace mlir;

namespace {

/// One side's ops, one record each: nothing is computed here.
class SideRecorder {
public:
  SideRecorder(SideOp side, bool aliases) : side(side), aliases(aliases) {}

  FailureOr<reference::Side> run() {
    recordGeometry();
    for (Operation &op : side.getBody().front())
      if (failed(record(&op)))
        return failure();
    return std::move(out);
  }

private:
  void recordGeometry() {
    auto size = [&](StringRef axis) {
      auto attr = dyn_cast_or_null<IntegerAttr>(side.getMesh().get(axis));
      return attr ? attr.getInt() : 1;
    };
    out.geometry.tp = size("tp");
    out.geometry.cp = size("cp");
    out.geometry.dp = size("dp");
    out.geometry.ep = size("ep");
    out.geometry.etp = size("etp");
    out.geometry.edp = size("edp");
    out.geometry.pp = size("pp");
    out.geometry.vpp = size("vpp");
    for (Attribute stage : side.getStages()) {
      out.geometry.stageLayers.emplace_back();
      for (Attribute chunk : cast<ArrayAttr>(stage))
        out.geometry.stageLayers.back().push_back(
            cast<IntegerAttr>(chunk).getInt());
    }
    for (auto [layers, stage] : side.stacksOfLayers()) {
      out.geometry.stackLayers.push_back(layers);
      out.geometry.stackStages.push_back(
          stage == "first" ? reference::Stage::First : reference::Stage::Last);
    }
    out.numLayers = side.numAllLayers();
    out.numExperts = side.getExperts();
    if (side.getEngine())
      out.engine = side.getEngine()->str();
    if (!side.getSlots())
      return;
    ArrayRef<int64_t> slots = side.getSlotsAttr().asArrayRef();
    out.geometry.slotBegins = side.getSlotBeginsAttr().asArrayRef().vec();
    for (size_t each = out.geometry.slotBegins.back(); !slots.empty();
         slots = slots.drop_front(each))
      out.geometry.slots.push_back(slots.take_front(each).vec());
  }

  int64_t valueOf(Value value) {
    auto [it, isNew] = values.try_emplace(value, nextValue);
    nextValue += isNew;
    return it->second;
  }

  LogicalResult record(Operation *op) {
    if (auto param = dyn_cast<ParamOp>(op))
      return recordParam(param);
    if (auto tensor = dyn_cast<TensorOp>(op))
      return recordTensor(tensor);
    if (auto copy = dyn_cast<CopyOp>(op)) {
      int64_t original = paramNumber.lookup(copy.getOriginal());
      reference::Param param = out.params[original];
      param.names = {copy.getName().str()};
      param.stage = *copy.getStage() == "first" ? reference::Stage::First
                                                : reference::Stage::Last;
      param.copyOf = original;
      param.value = -1;
      out.params.push_back(param);
      return success();
    }
    if (auto passthrough = dyn_cast<PassthroughOp>(op))
      recordUnheld(passthrough);
    if (isa<DropOp, PassthroughOp, RefreshOp>(op))
      return success();
    return recordOp(op);
  }

  /// In layers, one beginning for each of them, so that other layers' tensors
  /// do not count.
  void recordUnheld(PassthroughOp op) {
    if (!side.getEngine())
      return;
    if (!op.getLayers()) {
      out.unheld.push_back(op.getName().str());
      return;
    }
    for (int64_t layer : op.getLayersAttr().asArrayRef()) {
      std::string name = op.getName().str();
      for (size_t at; (at = name.find("{layer")) != std::string::npos;) {
        size_t size = name.find('}', at) + 1 - at;
        name.replace(at, size,
                     reference::expandName(name.substr(at, size), layer,
                                           reference::kNone));
      }
      out.unheld.push_back(name);
    }
  }

  /// How an engine keeps a parameter.
  LogicalResult recordForm(ParamOp op, reference::Param &param) {
    if (op.getHolds())
      param.form = op.getHolds()->str();
    bool inStack = op.getStacked() && !op.getSlot();
    param.stack = inStack;
    if (op.getViewed()) {
      if (inStack)
        param.view.push_back(0);
      for (int64_t dim : op.getViewedAttr().asArrayRef())
        param.view.push_back(dim + inStack);
    }
    for (auto [attr, into] : {std::pair(op.getExtra(), &param.extra),
                              std::pair(op.getSlot(), &param.slot)}) {
      if (!attr)
        continue;
      FailureOr<int64_t> number = literal(op, *attr);
      if (failed(number))
        return failure();
      *into = *number;
    }
    if (!op.getSlot())
      return success();
    for (size_t i = 0; i < out.params.size(); ++i)
      if (out.params[i].stack && out.params[i].names == param.names &&
          out.params[i].layers == param.layers)
        param.slotOf = i;
    if (!param.slotOf)
      return op.emitOpError("lies in a slot of '")
             << param.names.front()
             << "', required a stacked parameter of that name and these layers "
                "before it";
    param.names.clear();
    return success();
  }

  LogicalResult recordParam(ParamOp op) {
    FailureOr<std::vector<int64_t>> shape = literals(op, op.getShape());
    if (failed(shape))
      return failure();
    reference::Param param;
    for (StringAttr name : op.getNames().getAsRange<StringAttr>())
      param.names.push_back(name.str());
    param.dtype = fileTypeName(op.getDtype());
    param.shape = *shape;
    if (op.getLayers())
      param.layers.assign(op.getLayers()->begin(), op.getLayers()->end());
    else
      param.stage = *op.getStage() == "first" ? reference::Stage::First
                                              : reference::Stage::Last;
    param.expert = op.getExperts();
    if (failed(recordForm(op, param)))
      return failure();
    param.value = valueOf(op.getResult());
    paramNumber[op.getResult()] = out.params.size();
    dtypes[op.getResult()] = param.dtype;
    out.params.push_back(param);
    return success();
  }

  LogicalResult recordTensor(TensorOp op) {
    if (op.getAlias() && !aliases)
      return success();
    FailureOr<std::vector<int64_t>> shape = literals(op, op.getShape());
    if (failed(shape))
      return failure();
    reference::Tensor tensor;
    tensor.name = op.getName().str();
    tensor.dtype = dtypes.lookup(op.getValue());
    tensor.shape = *shape;
    tensor.stack = op.getStacked();
    tensor.also = op.getAlso();
    // `as` views the value, of one expert if stacked, in the tensor's shape.
    reference::Op view;
    view.kind = "reshape";
    view.in = {valueOf(op.getValue())};
    tensor.value = nextValue++;
    view.out = {tensor.value};
    view.shape.assign(shape->begin() + tensor.stack, shape->end());
    out.ops.push_back(view);
    out.tensors.push_back(tensor);
    return success();
  }

  LogicalResult recordOp(Operation *op) {
    reference::Op record;
    record.kind = op->getName().stripDialect().str();
    for (Value value : op->getOperands())
      record.in.push_back(valueOf(value));
    for (Value value : op->getResults()) {
      record.out.push_back(valueOf(value));
      dtypes[value] = dtypes.lookup(op->getOperand(0));
    }
    auto sizes = [&](ArrayAttr list, std::vector<int64_t> &into) {
      FailureOr<std::vector<int64_t>> result = literals(op, list);
      if (succeeded(result))
        into = *result;
      return LogicalResult(result);
    };
    LogicalResult result =
        llvm::TypeSwitch<Operation *, LogicalResult>(op)
            .Case<UnshardOp>([&](UnshardOp o) -> LogicalResult {
              record.dim = o.getDim();
              record.axis = o.getAxis().str();
              FailureOr<int64_t> ways = literal(o, *o.getWays());
              if (failed(ways))
                return failure();
              record.ways = *ways;
              if (o.getSectionWays()) {
                if (failed(sizes(*o.getSectionWays(), record.sectionWays)))
                  return failure();
                for (int64_t &each : record.sectionWays)
                  each = each ? each : record.ways;
              }
              return sizes(o.getSections(), record.sections);
            })
            .Case<ReshapeOp>(
                [&](ReshapeOp o) { return sizes(o.getShape(), record.shape); })
            .Case<TransposeOp>([&](TransposeOp o) -> LogicalResult {
              record.permutation.assign(o.getPermutation().begin(),
                                        o.getPermutation().end());
              return success();
            })
            .Case<SplitOp>([&](SplitOp o) {
              record.dim = o.getDim();
              return sizes(o.getSizes(), record.sizes);
            })
            .Case<ConcatOp, InterleaveOp>([&](auto o) -> LogicalResult {
              record.dim = o.getDim();
              return success();
            })
            .Case<TakeOp>([&](TakeOp o) -> LogicalResult {
              record.dim = o.getDim();
              record.reason = o.getReason().str();
              FailureOr<int64_t> size = literal(o, o.getSize());
              if (succeeded(size))
                record.size = *size;
              return LogicalResult(size);
            })
            .Case<AddScalarOp>([&](AddScalarOp o) -> LogicalResult {
              record.scalar = o.getScalar();
              return success();
            })
            .Case<CastOp>([&](CastOp o) -> LogicalResult {
              record.dtype = fileTypeName(o.getDtype());
              dtypes[o.getResult()] = record.dtype;
              return success();
            })
            .Default([](Operation *other) {
              return other->emitOpError("is not an op of a bound side");
            });
    if (succeeded(result))
      out.ops.push_back(record);
    return result;
  }

  SideOp side;
  bool aliases; ///< second names count: tensors are the destination
  reference::Side out;
  int64_t nextValue = 0;
  llvm::DenseMap<Value, int64_t> values, paramNumber;
  llvm::DenseMap<Value, std::string> dtypes;
};

} // namespace

FailureOr<reference::Program> delta::referenceProgram(ModuleOp module,
                                                      int64_t replicas) {
  reference::Program program;
  program.replicas = replicas;
  bool neutral = !module.lookupSymbol<SideOp>("destination");
  for (auto side : module.getOps<SideOp>()) {
    FailureOr<reference::Side> recorded = SideRecorder(side, neutral).run();
    if (failed(recorded))
      return failure();
    if (side.getSymName() == "source")
      program.source = std::move(*recorded);
    else
      program.destination = std::move(*recorded);
  }
  return program;
}
