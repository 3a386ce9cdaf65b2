//===- PlanRoutes.cpp - Both sides into route boxes -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A source shard's piece of a tensor, followed by the inverse of each
/// destination shard's, gives boxes that have one place in the shard, one in
/// the tensor and one in a destination. Both sides' maps are one to one (that
/// is proved before), so each element is in exactly one box of each tensor.
///
/// An engine may hold an element several times: in ways that repeat each other,
/// and in parameters that make up the tensor once more. Each of these producers
/// covers the whole tensor, so that boxes are cut by one after the other.
///
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"
#include "passes/Cells.h"
#include "passes/Classes.h"
#include "passes/Passes.h"

namespace delta {
#define GEN_PASS_DEF_PLANROUTESPASS
#include "passes/Passes.h.inc"
} // namespace delta

using namespace delta;
using namespace mlir;

namespace {

/// Places of one route in destination classes, all with the same loops.
struct Image {
  int64_t classNumber, wayBegin, wayEnd;
  IndexMap map;
};

/// A route before it becomes an op.
struct Route {
  Location loc;
  int64_t source, way, hfClass;
  IndexMap hf;
  std::vector<Image> images;
  StringAttr op, to;
};

class Planner {
public:
  Planner(ModuleOp module, SideOp source, SideOp destination)
      : builder(module.getContext()), source(source), destination(destination),
        numSourceLayers(source.numAllLayers()) {
    if (destination)
      to.emplace(destination);
    builder.setInsertionPointToEnd(module.getBody());
  }

  LogicalResult run() {
    if (to && failed(checkDestination()))
      return failure();
    for (TensorOp tensor : source.tensors)
      if (!tensor.getAlias() && failed(route(tensor)))
        return failure();
    llvm::sort(routes, [](const Route &a, const Route &b) {
      return std::tuple(a.source, a.way, a.hf.pieces[0].source, a.hfClass) <
             std::tuple(b.source, b.way, b.hf.pieces[0].source, b.hfClass);
    });
    for (const Route &route : routes)
      emit(route);
    return success();
  }

private:
  LogicalResult route(TensorOp tensor) {
    ApplyOp apply = applyOf(tensor);
    if (!apply || !isComposed(apply))
      return tensor.emitOpError("is not composed yet");
    SmallVector<TensorOp> producers;
    if (to) {
      // Kinds of layers may share a name: they differ in their layers.
      for (TensorOp other : to->tensors) {
        if (!isCounterpart(tensor, other))
          continue;
        if (other.getShape() != tensor.getShape() || !applyOf(other) ||
            !isComposed(applyOf(other)))
          return tensor.emitOpError("tensor \"")
                 << tensor.getName() << "\" of shape " << shapeOf(tensor)
                 << ", in the destination " << shapeOf(other);
        producers.push_back(other);
      }
      if (producers.empty() && !isUnheld(tensor))
        return tensor.emitOpError("tensor \"")
               << tensor.getName() << "\" of shape " << shapeOf(tensor)
               << ", the destination has none in these layers";
    }
    for (auto [value, attr] :
         llvm::zip(apply.getValues(), apply.getMaps().getAsRange<MapAttr>())) {
      Operation *param = value.getDefiningOp();
      const ShardedMap &map = attr.getValue();
      for (size_t way = 0; way < map.ways.size(); ++way)
        for (const Piece &piece : map.ways[way].pieces) {
          Route route{tensor.getLoc(),
                      source.number[param],
                      int64_t(way),
                      source.number[tensor],
                      {map.sourceSize(), map.destinationSize(), {piece}},
                      {},
                      apply.getOpAttr(),
                      apply.getToAttr()};
          if (!to          ? failed(toTensors(route, tensor))
              : isEngine() ? failed(throughEngine(route, producers))
                           : failed(throughTensor(route, producers[0])))
            return failure();
        }
    }
    return success();
  }

  /// `[3, 17]`
  static std::string shapeOf(TensorOp tensor) {
    std::string out;
    for (ExprAttr size : tensor.getShape().getAsRange<ExprAttr>())
      out += (out.empty() ? "" : ", ") + size.getValue().str();
    return "[" + out + "]";
  }

  bool isEngine() { return destination && destination.getEngine(); }

  static bool isCounterpart(TensorOp a, TensorOp b) {
    return a.getName() == b.getName() && !a.getAlias() && !b.getAlias() &&
           layersOf(a) == layersOf(b);
  }

  /// The engine says that it does not hold tensors of this name.
  bool isUnheld(TensorOp tensor) {
    if (!isEngine())
      return false;
    for (auto op : destination.getBody().front().getOps<PassthroughOp>())
      if (op.getAll() && tensor.getName().starts_with(op.getName()) &&
          (!op.getLayers() || op.getLayersAttr() == layersOf(tensor)))
        return true;
    return false;
  }

  /// A destination tensor without a source would never be written.
  LogicalResult checkDestination() {
    if (isEngine() && destination.numAllLayers() != numSourceLayers)
      return destination.emitOpError("has ")
             << destination.numAllLayers() << " layers with its stacks, the "
             << "trainer has " << numSourceLayers;
    for (TensorOp tensor : to->tensors)
      if (!tensor.getAlias() &&
          llvm::none_of(source.tensors, [&](TensorOp other) {
            return isCounterpart(other, tensor);
          }))
        return tensor.emitOpError("tensor \"")
               << tensor.getName() << "\" of shape " << shapeOf(tensor)
               << ", the source has none in these layers";
    return success();
  }

  static bool isComposed(ApplyOp apply) {
    return llvm::all_of(apply.getValues(), [](Value value) {
      return value.getDefiningOp<ParamOp>() != nullptr;
    });
  }

  /// The destination is the checkpoint's layout: the tensor and its aliases.
  LogicalResult toTensors(Route route, TensorOp tensor) {
    for (TensorOp other : source.tensors)
      if (other == tensor || (other.getAlias() && sameMaps(other, tensor)))
        route.images.push_back({source.number[other], 0, 1, route.hf});
    routes.push_back(std::move(route));
    return success();
  }

  static bool sameMaps(TensorOp a, TensorOp b) {
    ApplyOp x = applyOf(a), y = applyOf(b);
    return x && y && x.getValues() == y.getValues() &&
           x.getMaps() == y.getMaps();
  }

  /// The destination is another geometry: cut the piece by its shards.
  LogicalResult throughTensor(const Route &route, TensorOp counterpart) {
    ApplyOp apply = applyOf(counterpart);
    if (apply.getToAttr() != route.to)
      return counterpart.emitOpError("tensor \"")
             << counterpart.getName()
             << "\" has the type of one trainer and not of the other, required "
                "trainers of one dtype";
    if (apply.getOpAttr() != route.op)
      return counterpart.emitOpError("tensor \"")
             << counterpart.getName()
             << "\" has another value op on the way than in the source";
    int64_t covered = 0;
    for (auto [value, attr] :
         llvm::zip(apply.getValues(), apply.getMaps().getAsRange<MapAttr>())) {
      Operation *param = value.getDefiningOp();
      const ShardedMap &map = attr.getValue();
      for (size_t way = 0; way < map.ways.size(); ++way) {
        std::vector<Passage> boxes;
        if (!passages(route.hf.pieces[0], map.ways[way].inverse(), boxes))
          return counterpart.emitOpError("way ")
                 << way << " needs more than 65536 boxes";
        for (const Passage &box : boxes) {
          Route part = route;
          part.hf.pieces = {piece(box, /*last=*/false)};
          IndexMap image{route.hf.sourceSize,
                         map.sourceSize(),
                         {piece(box, /*last=*/true)}};
          covered += image.size();
          part.images.push_back(
              {to->number[param], int64_t(way), int64_t(way) + 1, image});
          for (Operation *user : value.getUsers())
            if (isa<CopyOp>(user))
              part.images.push_back(
                  {to->number[user], int64_t(way), int64_t(way) + 1, image});
          routes.push_back(std::move(part));
        }
      }
    }
    if (covered != route.hf.size())
      return counterpart.emitOpError("destination receives ")
             << covered << " of " << route.hf.size() << " elements of class "
             << route.source << " way " << route.way;
    return success();
  }

  /// A cell of a producer, and its way back.
  struct EngineCell {
    Operation *param;
    Cell cell; ///< from the parameter to the tensor
    IndexMap inverse;
  };

  /// The cells of all parameters of a producer.
  static std::vector<EngineCell> cellsOfTensor(TensorOp tensor) {
    std::vector<EngineCell> cells;
    ApplyOp apply = applyOf(tensor);
    for (auto [value, attr] :
         llvm::zip(apply.getValues(), apply.getMaps().getAsRange<MapAttr>())) {
      const ShardedMap &map = attr.getValue();
      for (Cell &cell : cellsOf(map)) {
        IndexMap single{map.sourceSize(), map.destinationSize(), {cell.piece}};
        cells.push_back(
            {value.getDefiningOp(), std::move(cell), single.inverse()});
      }
    }
    return cells;
  }

  /// The destination is an engine: cut the piece by the cells of each producer.
  LogicalResult throughEngine(const Route &route,
                              ArrayRef<TensorOp> producers) {
    std::vector<Route> boxes = {route};
    for (TensorOp producer : producers) {
      std::vector<EngineCell> &cells = cellsOfProducer[producer];
      if (cells.empty())
        cells = cellsOfTensor(producer);
      std::vector<Route> parts;
      for (const Route &box : boxes)
        if (failed(cut(box, producer, cells, parts)))
          return failure();
      boxes = std::move(parts);
    }
    llvm::append_range(routes, boxes);
    return success();
  }

  LogicalResult cut(const Route &box, TensorOp producer,
                    const std::vector<EngineCell> &cells,
                    std::vector<Route> &parts) {
    const Piece &whole = box.hf.pieces[0];
    int64_t covered = 0;
    for (const EngineCell &cell : cells) {
      if (whole.lastDestination() < cell.cell.piece.destination ||
          cell.cell.piece.lastDestination() < whole.destination)
        continue;
      std::vector<Passage> found;
      if (!passages(whole, cell.inverse, found))
        return producer.emitOpError("needs more than 65536 boxes");
      for (const Passage &passage : found) {
        Route part = box;
        part.hf.pieces = {piece(passage, /*last=*/false)};
        covered += part.hf.size();
        for (Image &image : part.images)
          if (!restrict(image.map, part.hf.pieces[0]))
            return producer.emitOpError("tensor \"")
                   << producer.getName()
                   << "\" is cut by parameters in ways that no box fits";
        IndexMap map{box.hf.sourceSize,
                     cell.inverse.destinationSize,
                     {piece(passage, /*last=*/true)}};
        addImages(part, cell, map);
        parts.push_back(std::move(part));
      }
    }
    if (covered != box.hf.size())
      return producer.emitOpError("destination receives ")
             << covered << " of " << box.hf.size() << " elements of class "
             << box.source << " way " << box.way;
    return success();
  }

  void addImages(Route &part, const EngineCell &cell, const IndexMap &map) {
    for (auto [begin, end] : cell.cell.ways) {
      part.images.push_back({to->number[cell.param], begin, end, map});
      for (Operation *user : cell.param->getUsers())
        if (isa<CopyOp>(user))
          part.images.push_back({to->number[user], begin, end, map});
    }
  }

  /// Makes the map of a box that of a part of it, in the loops of the part;
  /// false where the corners of the part show that it is not affine in them.
  /// That it is, element by element, is for the checker and the cross-check.
  static bool restrict(IndexMap &map, const Piece &part) {
    auto at = [&](int64_t source) { return map.image(source).value_or(-1); };
    Piece out{part.source, at(part.source), {}};
    for (const Loop &loop : part.loops)
      out.loops.push_back({loop.extent, loop.source,
                           at(part.source + loop.source) - out.destination});
    for (size_t corner = 0; corner < size_t(1) << out.loops.size(); ++corner) {
      int64_t source = out.source, image = out.destination;
      for (size_t i = 0; i < out.loops.size(); ++i)
        if (corner >> i & 1) {
          source += (out.loops[i].extent - 1) * out.loops[i].source;
          image += (out.loops[i].extent - 1) * out.loops[i].destination;
        }
      if (at(source) != image)
        return false;
    }
    map.pieces = {out};
    return true;
  }

  static Piece piece(const Passage &box, bool last) {
    Piece piece{box.first, last ? box.last : box.between, {}};
    for (const Passage::Step &step : box.loops)
      piece.loops.push_back(
          {step.extent, step.first, last ? step.last : step.between});
    return piece;
  }

  MapAttr attr(const IndexMap &map) {
    return MapAttr::get(builder.getContext(), ShardedMap{{map}});
  }

  void emit(const Route &route) {
    SmallVector<int64_t> classes, begins, ends;
    SmallVector<Attribute> maps;
    for (const Image &image : route.images) {
      classes.push_back(image.classNumber);
      begins.push_back(image.wayBegin);
      ends.push_back(image.wayEnd);
      maps.push_back(attr(image.map));
    }
    RouteOp::create(builder, route.loc, builder.getI64IntegerAttr(route.source),
                    builder.getI64IntegerAttr(route.way),
                    builder.getI64IntegerAttr(route.hfClass), attr(route.hf),
                    builder.getDenseI64ArrayAttr(classes),
                    builder.getDenseI64ArrayAttr(begins),
                    builder.getDenseI64ArrayAttr(ends),
                    builder.getArrayAttr(maps), route.op);
  }

  OpBuilder builder;
  SideClasses source;
  SideOp destination; ///< null: the checkpoint's layout
  int64_t numSourceLayers;
  llvm::DenseMap<Operation *, std::vector<EngineCell>> cellsOfProducer;
  std::optional<SideClasses> to;
  std::vector<Route> routes;
};

struct PlanRoutes : delta::impl::PlanRoutesPassBase<PlanRoutes> {
  void runOnOperation() override {
    auto source = getOperation().lookupSymbol<SideOp>("source");
    if (!source) {
      getOperation().emitError("module has no side '@source'");
      return signalPassFailure();
    }
    auto destination = getOperation().lookupSymbol<SideOp>("destination");
    if (failed(Planner(getOperation(), source, destination).run()))
      return signalPassFailure();
  }
};
} // namespace
