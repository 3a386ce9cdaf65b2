//===- Lower.cpp - A module with routes as a plan -------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lower.h"

#include "passes/Classes.h"
#include "passes/Shapes.h"

#include <map>

using namespace delta;
using namespace mlir;

static delta_dtype_t dtypeCode(StringRef dtype) {
  return dtype == "f32"   ? DELTA_FP32
         : dtype == "f16" ? DELTA_FP16
         : dtype == "i64" ? DELTA_INT64
                          : DELTA_BF16;
}

static void setShape(delta_class_t &row, ArrayRef<int64_t> shape) {
  row.rank = shape.size();
  for (size_t i = 0; i < DELTA_MAX_RANK; ++i)
    row.shape[i] = i < shape.size() ? shape[i] : 1;
}

/// The engine's dimension i is dimension viewed[i] of memory.
static void setView(delta_class_t &row, ArrayRef<int64_t> viewed) {
  delta_class_t memory = row;
  for (size_t i = 0; i < viewed.size(); ++i) {
    row.shape[i] = memory.shape[viewed[i]];
    row.order |= uint32_t(i) << 4 * viewed[i];
  }
}

namespace {

class Lowering {
public:
  Lowering(ModuleOp module, std::string engineVersion)
      : module(module), engineVersion(std::move(engineVersion)) {}

  FailureOr<LoweredPlan> run(int64_t replicas) {
    auto source = module.lookupSymbol<SideOp>("source");
    auto destination = module.lookupSymbol<SideOp>("destination");
    plan.destinationIsHf = !destination;
    if (failed(lowerSide(source, plan.source)) || failed(lowerNeutral(source)))
      return failure();
    plan.source.row.replicas = 1;
    if (destination && (failed(lowerSide(destination, plan.destination)) ||
                        failed(lowerEngine(destination))))
      return failure();
    if (failed(lowerCopied(source)))
      return failure();
    plan.destination.row.replicas = replicas;
    for (auto route : module.getOps<RouteOp>())
      if (failed(lowerRoute(route)))
        return failure();
    return std::move(plan);
  }

private:
  uint32_t layerKind(ArrayRef<int64_t> layers) {
    std::vector<uint32_t> list(layers.begin(), layers.end());
    auto [it, isNew] = kinds.try_emplace(list, kinds.size());
    if (isNew)
      plan.layerKinds.push_back(list);
    return it->second;
  }

  LogicalResult lowerSide(SideOp side, LoweredSide &out) {
    auto size = [&](StringRef axis) -> uint32_t {
      auto attr = dyn_cast_or_null<IntegerAttr>(side.getMesh().get(axis));
      return attr ? attr.getInt() : 1;
    };
    delta_side_t &row = out.row;
    row.tp = size("tp");
    row.cp = size("cp");
    row.dp = size("dp");
    row.ep = size("ep");
    row.etp = size("etp");
    row.edp = size("edp");
    row.pp = size("pp");
    row.vpp = size("vpp");
    row.ranks_per_replica = row.tp * row.cp * row.dp * row.pp;
    if (!side.getPlacement() || !side.getExpertRanks())
      return side.emitOpError("has no instance tables; fold them first");
    ArrayRef<int64_t> table = *side.getPlacement();
    for (size_t i = 0; i + 3 < table.size(); i += 4)
      out.layers.push_back({uint32_t(table[i]), uint32_t(table[i + 1]),
                            uint32_t(table[i + 2]), uint32_t(table[i + 3])});
    ArrayRef<int64_t> ranks = *side.getExpertRanks();
    for (size_t i = 0; i + 1 < ranks.size(); i += 2)
      out.experts.push_back({uint32_t(ranks[i]), uint32_t(ranks[i + 1])});

    SideClasses classes(side);
    for (Operation *op : classes.params)
      if (failed(lowerClass(side, classes, op, out)))
        return failure();
    return success();
  }

  /// What only the side of an engine has.
  LogicalResult lowerEngine(SideOp side) {
    if (!side.getEngine())
      return success();
    plan.engine = side.getEngine()->str();
    plan.engineVersion = engineVersion;
    if (side.getSlots()) {
      ArrayRef<int64_t> begins = side.getSlotBeginsAttr().asArrayRef();
      ArrayRef<int64_t> slots = side.getSlotsAttr().asArrayRef();
      plan.slots.first.assign(begins.begin(), begins.end());
      for (size_t at = 0; at < slots.size(); at += begins.back())
        plan.slots.tables.emplace_back(slots.begin() + at,
                                       slots.begin() + at + begins.back());
    }
    SideClasses classes(side);
    for (auto refresh : side.getBody().front().getOps<RefreshOp>())
      plan.refreshes.push_back(
          {uint32_t(classes.number.lookup(refresh.getParam().getDefiningOp())),
           refresh.getMethod().str()});
    for (Operation *op : classes.params)
      forms.push_back(isa<ParamOp>(op)
                          ? cast<ParamOp>(op).getHolds().value_or("").str()
                          : std::string());
    return success();
  }

  /// The slots of the rank that has most of them, and those behind them.
  static int64_t numSlots(SideOp side, ParamOp param) {
    int64_t most = 0;
    ArrayRef<int64_t> begins = side.getSlotBeginsAttr().asArrayRef();
    for (size_t p = 0; p + 1 < begins.size(); ++p)
      most = std::max(most, begins[p + 1] - begins[p]);
    return most + extraSlots(param);
  }

  static int64_t extraSlots(ParamOp param) {
    return param.getExtra() ? *param.getExtra()->getValue().literal() : 0;
  }

  /// The class of the stack in which a slot lies.
  static uint32_t stackOf(const SideClasses &classes, ParamOp slot) {
    for (Operation *op : classes.params)
      if (auto other = dyn_cast<ParamOp>(op))
        if (other.getNames() == slot.getNames() && other.getExperts() &&
            other.getLayersAttr() == slot.getLayersAttr())
          return classes.number.lookup(op);
    return DELTA_NONE;
  }

  LogicalResult lowerClass(SideOp side, const SideClasses &classes,
                           Operation *op, LoweredSide &out) {
    auto param = dyn_cast<ParamOp>(op);
    auto copy = dyn_cast<CopyOp>(op);
    auto original = copy ? copy.getOriginal().getDefiningOp<ParamOp>() : param;
    LoweredClass lowered;
    if (copy)
      lowered.names.push_back(copy.getName().str());
    else
      for (StringAttr name : param.getNames().getAsRange<StringAttr>())
        lowered.names.push_back(name.str());
    delta_class_t &row = lowered.row;
    row.dtype = dtypeCode(original.getDtype());
    FailureOr<std::vector<int64_t>> shape = shapeOfWay(original);
    if (failed(shape))
      return failure();
    setShape(row, *shape);
    row.layer_kind = DELTA_NONE;
    StringRef stage =
        copy ? copy.getStage().value_or("") : param.getStage().value_or("");
    if (param && param.getLayers())
      row.layer_kind = layerKind(*param.getLayers());
    else if (stage == "last") {
      row.stage = out.row.pp - 1;
      row.chunk = out.row.vpp - 1;
    }
    row.num_experts = original.getExperts() ? side.getExperts() : 0;
    StringRef axis = original.getAxis().value_or("");
    row.axis = axis == "tp"      ? DELTA_AXIS_TP
               : axis == "etp"   ? DELTA_AXIS_ETP
               : axis == "stage" ? DELTA_AXIS_STAGE
                                 : DELTA_AXIS_NONE;
    row.ways = original.getWays().value_or(1);
    row.copy_of =
        copy ? classes.number.lookup(original.getOperation()) : DELTA_NONE;
    row.part_of = DELTA_NONE;
    if (original.getSlot()) {
      row.part_of = stackOf(classes, original);
      row.part_slot = *original.getSlot()->getValue().literal();
      if (row.part_of == DELTA_NONE)
        return op->emitOpError("lies in a stack of other layers");
    } else if (original.getStacked()) {
      row.expert_stride = numElements(*shape);
      row.extra_slots = extraSlots(original);
      shape->insert(shape->begin(), numSlots(side, original));
      setShape(row, *shape);
    }
    if (original.getViewed())
      setView(row, *original.getViewed());
    out.classes.push_back(lowered);
    return success();
  }

  /// The tensors of the source side: the neutral layout.
  LogicalResult lowerNeutral(SideOp side) {
    LoweredSide &out = plan.hf;
    delta_side_t &row = out.row;
    row.tp = row.cp = row.dp = row.ep = row.etp = row.edp = row.pp = row.vpp =
        row.replicas = row.ranks_per_replica = 1;
    for (const delta_placement_t &layer : plan.source.layers)
      out.layers.push_back({0, 0, layer.number, layer.number});
    for (uint32_t expert = 0; expert < plan.source.experts.size(); ++expert)
      out.experts.push_back({0, expert});

    SideClasses classes(side);
    llvm::DenseMap<Operation *, int64_t> numberOfValue;
    for (TensorOp tensor : classes.tensors) {
      // A second name of a tensor matters where tensors are the destination.
      neutralNumber.push_back(out.classes.size());
      if (tensor.getAlias() && !plan.destinationIsHf)
        continue;
      ApplyOp apply = applyOf(tensor);
      auto [first, isFirst] =
          numberOfValue.try_emplace(apply, out.classes.size());
      auto param = apply.getValues()[0].getDefiningOp<ParamOp>();
      FailureOr<std::vector<int64_t>> shape =
          literals(tensor, tensor.getShape());
      if (failed(shape))
        return failure();
      LoweredClass lowered;
      lowered.names.push_back(tensor.getName().str());
      delta_class_t &tensorRow = lowered.row;
      tensorRow.dtype = dtypeCode(apply.getTo().value_or(param.getDtype()));
      setShape(tensorRow, *shape);
      tensorRow.layer_kind =
          param.getLayers() ? layerKind(*param.getLayers()) : DELTA_NONE;
      tensorRow.num_experts = param.getExperts() ? side.getExperts() : 0;
      if (tensor.getStacked())
        tensorRow.expert_stride = numElements(*shape) / side.getExperts();
      tensorRow.axis = DELTA_AXIS_NONE;
      tensorRow.ways = 1;
      tensorRow.copy_of = isFirst ? DELTA_NONE : uint32_t(first->second);
      tensorRow.part_of = DELTA_NONE;
      out.classes.push_back(lowered);
    }
    return success();
  }

  /// Tensors that the trainer does not hold.
  LogicalResult lowerCopied(SideOp side) {
    plan.copied.row = plan.hf.row;
    plan.copied.layers = plan.hf.layers;
    plan.copied.experts = plan.hf.experts;
    for (auto op : side.getBody().front().getOps<PassthroughOp>()) {
      FailureOr<std::vector<int64_t>> shape = literals(op, op.getShape());
      if (failed(shape))
        return failure();
      LoweredClass lowered;
      lowered.names.push_back(op.getName().str());
      lowered.row.dtype = dtypeCode(op.getDtype());
      setShape(lowered.row, *shape);
      lowered.row.layer_kind =
          op.getLayers() ? layerKind(*op.getLayers()) : DELTA_NONE;
      lowered.row.ways = 1;
      lowered.row.copy_of = DELTA_NONE;
      lowered.row.part_of = DELTA_NONE;
      plan.copied.classes.push_back(lowered);
    }
    return success();
  }

  static delta_image_t image(int64_t classNumber, int64_t wayBegin,
                             int64_t wayEnd, const Piece &piece,
                             delta_value_op_t op) {
    delta_image_t out = {};
    out.class_index = classNumber;
    out.way_begin = wayBegin;
    out.way_end = wayEnd;
    out.value_op = op;
    out.offset = piece.destination;
    for (size_t i = 0; i < piece.loops.size(); ++i)
      out.stride[i] = piece.loops[i].destination;
    return out;
  }

  /// The op of all images of a route: to the checkpoint's value, from there to
  /// the form of the engine.
  FailureOr<delta_value_op_t> opToEngine(RouteOp route, delta_value_op_t op) {
    std::optional<std::pair<std::string, delta_dtype_t>> first;
    for (int64_t number : route.getClasses()) {
      if (number < 0 || number >= int64_t(plan.destination.classes.size()))
        return route.emitOpError("has an image in class ")
               << number << " of " << plan.destination.classes.size();
      const LoweredClass &to = plan.destination.classes[number];
      std::pair<std::string, delta_dtype_t> kept(
          forms[to.row.copy_of == DELTA_NONE ? number : to.row.copy_of],
          to.row.dtype);
      if (first && *first != kept)
        return route.emitOpError("is kept by \"")
               << to.names[0] << "\" in another type or form than elsewhere";
      first = kept;
    }
    if (!first)
      return op;
    delta_dtype_t from = plan.source.classes[route.getSource()].row.dtype;
    delta_dtype_t hf =
        plan.hf.classes[neutralNumber[route.getHfClass()]].row.dtype;
    delta_value_op_t form = first->first == "neg_exp"   ? DELTA_VALUE_NEG_EXP
                            : first->first == "add_one" ? DELTA_VALUE_PLUS_ONE
                                                        : DELTA_VALUE_ID;
    if (hf != from && (form || first->second != hf))
      op |= DELTA_VALUE_VIA(hf);
    return op | form;
  }

  LogicalResult lowerRoute(RouteOp route) {
    MapAttr hfAttr = route.getHf();
    auto single = [](MapAttr attr) {
      return attr.getValue().ways[0].pieces.size() == 1;
    };
    if (!llvm::all_of(route.getImages().getAsRange<MapAttr>(), single) ||
        !single(hfAttr))
      return route.emitOpError("has a place of more than one piece");
    if (route.getSource() >= plan.source.classes.size() ||
        route.getHfClass() >= neutralNumber.size())
      return route.emitOpError("is of class ")
             << route.getSource() << " and tensor " << route.getHfClass()
             << ", the sides have " << plan.source.classes.size() << " and "
             << neutralNumber.size();
    const Piece &hf = hfAttr.getValue().ways[0].pieces[0];
    LoweredBox box;
    delta_box_t &row = box.row;
    std::vector<Loop> loops = hf.loops;
    // The last loop is the run: stride one in the source.
    bool needsRun = loops.empty() || loops.back().source != 1;
    row.num_loops = loops.size() + needsRun;
    if (row.num_loops > DELTA_MAX_LOOPS)
      return route.emitOpError("needs ")
             << row.num_loops << " loops, a box has " << DELTA_MAX_LOOPS;
    row.source_class = route.getSource();
    row.source_way = route.getWay();
    row.source_offset = hf.source;
    for (size_t i = 0; i < DELTA_MAX_LOOPS; ++i) {
      row.extent[i] = i < loops.size() ? loops[i].extent : i < row.num_loops;
      row.source_stride[i] =
          i < loops.size() ? loops[i].source : i < row.num_loops;
    }
    delta_value_op_t op = route.getOp() ? DELTA_VALUE_ADD_ONE : DELTA_VALUE_ID;
    // Two trainers hold the same form: the way back undoes the value op.
    delta_value_op_t imageOp = plan.destinationIsHf ? op : DELTA_VALUE_ID;
    if (!plan.engine.empty()) {
      FailureOr<delta_value_op_t> toEngine = opToEngine(route, op);
      if (failed(toEngine))
        return failure();
      imageOp = *toEngine;
    }
    auto place = [&](int64_t number, int64_t begin, int64_t end,
                     const Piece &piece, delta_value_op_t op) {
      delta_image_t out = image(number, begin, end, piece, op);
      if (needsRun)
        out.stride[loops.size()] = 1;
      return out;
    };
    int64_t hfClass = neutralNumber[route.getHfClass()];
    box.hfImage = place(hfClass, 0, 1, hf, op);
    ArrayRef<int64_t> numbers = route.getClasses();
    size_t count = plan.destinationIsHf ? plan.hf.classes.size()
                                        : plan.destination.classes.size();
    for (int64_t number : numbers)
      if (number < 0 || size_t(number) >= count)
        return route.emitOpError("goes to class ") << number << " of " << count;
    for (size_t i = 0; i < numbers.size(); ++i)
      box.images.push_back(place(
          numbers[i], route.getWayBegin()[i], route.getWayEnd()[i],
          cast<MapAttr>(route.getImages()[i]).getValue().ways[0].pieces[0],
          imageOp));
    setTiles(row);
    box.formula = formula(row, hf, hfClass);
    plan.boxes.push_back(box);
    return success();
  }

  /// Whole runs while they fit, else parts of one run.
  static void setTiles(delta_box_t &row) {
    int64_t run = row.extent[row.num_loops - 1], runs = 1;
    for (uint32_t i = 0; i + 1 < row.num_loops; ++i)
      runs *= row.extent[i];
    row.tile_columns = std::min<int64_t>(run, DELTA_MAX_TILE);
    row.tile_runs = std::min<int64_t>(runs, DELTA_MAX_TILE / row.tile_columns);
    auto ceil = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
    row.num_tiles = ceil(runs, row.tile_runs) * ceil(run, row.tile_columns);
  }

  std::string formula(const delta_box_t &row, const Piece &piece,
                      int64_t hfClass) {
    std::string text = plan.source.classes[row.source_class].names[0] +
                       " way " + std::to_string(row.source_way) + " -> " +
                       plan.hf.classes[hfClass].names[0] + ": ";
    auto side = [&](int64_t offset, bool source) {
      std::string out = std::to_string(offset);
      const char *index = "ijklmnop";
      for (size_t i = 0; i < piece.loops.size(); ++i) {
        int64_t stride =
            source ? piece.loops[i].source : piece.loops[i].destination;
        out += std::string(" + ") + index[i] +
               (stride == 1 ? "" : "*" + std::to_string(stride));
      }
      return out;
    };
    text += "[" + side(piece.source, true) + "] -> [" +
            side(piece.destination, false) + "]";
    return text;
  }

  ModuleOp module;
  std::string engineVersion;
  std::vector<std::string> forms; ///< of an engine's classes
  LoweredPlan plan;
  std::map<std::vector<uint32_t>, uint32_t> kinds;
  std::vector<int64_t> neutralNumber; ///< of the source's tensors
};

} // namespace

FailureOr<LoweredPlan> delta::lowerPlan(ModuleOp module, int64_t replicas,
                                        const std::string &engineVersion) {
  return Lowering(module, engineVersion).run(replicas);
}
