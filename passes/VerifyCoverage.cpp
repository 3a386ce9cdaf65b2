//===- VerifyCoverage.cpp - Every element has exactly one owner -----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"
#include "passes/Cells.h"
#include "passes/Classes.h"
#include "passes/Coverage.h"
#include "passes/NameTemplate.h"
#include "passes/Passes.h"
#include "passes/Shapes.h"

#include "mlir/Analysis/Presburger/IntegerRelation.h"

#include <set>

namespace delta {
#define GEN_PASS_DEF_VERIFYCOVERAGEPASS
#include "passes/Passes.h.inc"
} // namespace delta

using namespace delta;
using namespace mlir;

/// Solves a.offset + sum i*stride = b.offset + sum j*stride over the boxes of
/// both loops. Complete; used where the strides do not nest in one another.
static std::optional<int64_t> presburgerCommonElement(const Box &a,
                                                      const Box &b) {
  unsigned numDims = a.loops.size() + b.loops.size();
  presburger::IntegerPolyhedron set(
      presburger::PresburgerSpace::getSetSpace(numDims));
  SmallVector<int64_t> equality(numDims + 1, 0);
  unsigned dim = 0;
  for (const Box *box : {&a, &b})
    for (auto [extent, stride] : box->loops) {
      set.addBound(presburger::BoundType::LB, dim, 0);
      set.addBound(presburger::BoundType::UB, dim, extent - 1);
      equality[dim++] = box == &a ? stride : -stride;
    }
  equality[numDims] = a.offset - b.offset;
  set.addEquality(equality);
  auto sample = set.findIntegerSample();
  if (!sample)
    return std::nullopt;
  int64_t element = a.offset;
  for (unsigned i = 0; i < a.loops.size(); ++i)
    element += int64_t((*sample)[i]) * a.loops[i].second;
  return element;
}

/// An element of the box outside of [0, size), counted without overflow.
static std::optional<int64_t> elementOutside(const Box &box, int64_t size) {
  __int128 last = box.offset;
  for (auto [extent, stride] : box.loops)
    last += __int128(extent - 1) * stride;
  if (box.offset < 0)
    return box.offset;
  if (last >= size)
    return int64_t(std::min<__int128>(last, INT64_MAX));
  return std::nullopt;
}

/// `[3, 17]`, for people.
static std::string position(int64_t element, ArrayRef<int64_t> shape) {
  std::string out;
  for (size_t i = shape.size(); i-- > 0;) {
    int64_t digit = i ? element % shape[i] : element;
    element /= shape[i];
    out = std::to_string(digit) + (out.empty() ? "" : ", ") + out;
  }
  return "[" + out + "]";
}

/// Appends up to two sources of `rest` elements from the destination of a piece
/// on, by the loops from `at` on.
static void appendSources(const Piece &piece, size_t at, int64_t source,
                          int64_t rest, std::vector<int64_t> &out) {
  if (out.size() >= 2 || rest < 0)
    return;
  if (at == piece.loops.size()) {
    if (rest == 0)
      out.push_back(source);
    return;
  }
  const Loop &loop = piece.loops[at];
  __int128 most = 0;
  for (size_t i = at + 1; i < piece.loops.size(); ++i)
    most += __int128(piece.loops[i].extent - 1) * piece.loops[i].destination;
  for (int64_t digit = std::min(rest / loop.destination, loop.extent - 1);
       digit >= 0 && rest - digit * loop.destination <= most; --digit)
    appendSources(piece, at + 1, source + digit * loop.source,
                  rest - digit * loop.destination, out);
}

/// The first two elements that the map sends to `element`.
static std::vector<int64_t> sourcesOf(const IndexMap &map, int64_t element) {
  std::vector<int64_t> out;
  for (const Piece &piece : map.pieces)
    appendSources(piece, 0, piece.source, element - piece.destination, out);
  return out;
}

namespace {

/// A map into or out of an array, and whose it is.
struct Claimant {
  Operation *op; ///< parameter, for claims on a tensor; else tensor or drop
  int64_t way;
  const IndexMap *map;
};

class Prover {
public:
  explicit Prover(SideOp side) : side(side), classes(side) {}

  LogicalResult run() {
    if (failed(instances()) || failed(names()))
      return failure();
    for (TensorOp tensor : classes.tensors)
      if (failed(proveTensor(tensor)))
        return failure();
    for (Operation *op : classes.params)
      if (auto param = dyn_cast<ParamOp>(op))
        if (failed(proveParam(param)))
          return failure();
    return success();
  }

private:
  LogicalResult instances() {
    if (!side.getPlacement() || !side.getExpertRanks())
      return side.emitOpError("has no instance tables; fold them first");
    ArrayRef<int64_t> placement = *side.getPlacement();
    stackOf.assign(side.getLayers(), 0);
    for (auto [layers, stage] : side.stacksOfLayers())
      stackOf.resize(stackOf.size() + layers, ++numStacks);
    if (placement.size() != 4 * stackOf.size())
      return side.emitOpError("places ")
             << placement.size() / 4 << " of " << stackOf.size() << " layers";
    std::set<std::array<int64_t, 4>> places;
    for (size_t i = 0; i + 3 < placement.size(); i += 4)
      if (!places
               .insert({stackOf[i / 4], placement[i], placement[i + 1],
                        placement[i + 2]})
               .second)
        return side.emitOpError("layers ")
               << i / 4 << " and an earlier one both are local layer "
               << placement[i + 2] << " of stage " << placement[i] << ", chunk "
               << placement[i + 1];
    ArrayRef<int64_t> ranks = *side.getExpertRanks();
    std::set<std::array<int64_t, 2>> homes;
    for (size_t i = 0; i + 1 < ranks.size(); i += 2)
      if (!homes.insert({ranks[i], ranks[i + 1]}).second)
        return side.emitOpError("expert ")
               << i / 2 << " and an earlier one both are local expert "
               << ranks[i + 1] << " of ep rank " << ranks[i];
    if (homes.size() != size_t(side.getExperts()))
      return side.emitOpError("places ")
             << homes.size() << " of " << side.getExperts() << " experts";
    return success();
  }

  /// No two parameters that a rank can hold together, and no two tensors, may
  /// have one name.
  LogicalResult names() {
    std::vector<NamedInstances> trained, produced;
    for (Operation *op : classes.params) {
      std::vector<int64_t> layers;
      StringRef stage;
      if (auto param = dyn_cast<ParamOp>(op)) {
        if (param.getSlot()) // has the name of the stack that it is part of
          continue;
        if (param.getLayers())
          layers.assign(param.getLayers()->begin(), param.getLayers()->end());
        for (int64_t layer : layers)
          if (layer < 0 || layer >= int64_t(stackOf.size()) ||
              stackOf[layer] != stackOf[layers[0]])
            return param.emitOpError("lives on layer ")
                   << layer
                   << ", required layers of the decoder or of one stack";
        stage = param.getStage().value_or("");
        for (StringAttr name : param.getNames().getAsRange<StringAttr>())
          trained.push_back({name.str(), op, layers, stage.str(),
                             param.getExperts() && !param.getStacked()
                                 ? int64_t(side.getExperts())
                                 : 0,
                             layers.empty() ? 0 : stackOf[layers[0]]});
      } else {
        stage = cast<CopyOp>(op).getStage().value_or("");
        trained.push_back({nameOf(op).str(), op, layers, stage.str(), 0});
      }
    }
    for (TensorOp tensor : classes.tensors) {
      if (tensor.getAlso())
        continue;
      ApplyOp apply = applyOf(tensor);
      if (!apply)
        return tensor.emitOpError("is not composed yet");
      auto param = apply.getValues()[0].getDefiningOp<ParamOp>();
      if (!param)
        return tensor.emitOpError("is not composed yet");
      std::vector<int64_t> layers;
      if (param.getLayers())
        layers.assign(param.getLayers()->begin(), param.getLayers()->end());
      bool each = param.getExperts() && !tensor.getStacked();
      produced.push_back({tensor.getName().str(), tensor, layers, "",
                          each ? int64_t(side.getExperts()) : 0});
    }
    for (auto op : side.getBody().front().getOps<PassthroughOp>()) {
      if (op.getAll()) // of the other side's tensors
        continue;
      std::vector<int64_t> layers;
      if (op.getLayers())
        layers.assign(op.getLayers()->begin(), op.getLayers()->end());
      produced.push_back({op.getName().str(), op, layers, "", 0});
    }
    return failure(failed(checkNames(trained, "param_c4", "parameters")) ||
                   failed(checkNames(produced, "tensor_c3", "tensors")));
  }

  LogicalResult checkNames(const std::vector<NamedInstances> &list,
                           StringRef label, StringRef what) {
    auto clash = findClash(list);
    if (!clash)
      return success();
    auto *first = static_cast<Operation *>(list[clash->first].owner);
    auto *second = static_cast<Operation *>(list[clash->second].owner);
    if (isa<PassthroughOp>(second))
      label = "passthrough_c1";
    InFlightDiagnostic diagnostic =
        second->emitOpError("(") << label << ") two " << what
                                 << " have the name \"" << clash->name << "\"";
    diagnostic.attachNote(first->getLoc()) << "the other one is here";
    return diagnostic;
  }

  /// A tensor element has exactly one owner among the parameters' ways. An
  /// engine's ways may repeat each other: what they hold alike counts once,
  /// since it has the same values at the same places.
  LogicalResult proveTensor(TensorOp tensor) {
    ApplyOp apply = applyOf(tensor);
    std::vector<Claim> claims;
    std::vector<Claimant> claimants;
    FailureOr<std::vector<int64_t>> shape = literals(tensor, tensor.getShape());
    if (failed(shape))
      return failure();
    auto first = apply.getValues()[0].getDefiningOp<ParamOp>();
    int64_t size = 0;
    for (auto [value, attr] :
         llvm::zip(apply.getValues(), apply.getMaps().getAsRange<MapAttr>())) {
      auto param = value.getDefiningOp<ParamOp>();
      if (!param)
        return tensor.emitOpError("is not composed yet");
      if (param.getLayersAttr() != first.getLayersAttr() ||
          param.getExperts() != first.getExperts())
        return tensor.emitOpError("reads parameters of other layers or "
                                  "experts: \"")
               << nameOf(first) << "\" and \"" << nameOf(param) << "\"";
      const ShardedMap &map = attr.getValue();
      size = map.destinationSize();
      if (side.getEngine()) {
        for (const Cell &cell : cellsOf(map)) {
          claims.push_back({Box::destinationOf(cell.piece), claimants.size()});
          int64_t way = cell.ways[0].first;
          claimants.push_back({param, way, &map.ways[way]});
        }
        continue;
      }
      for (size_t way = 0; way < map.ways.size(); ++way) {
        for (const Piece &piece : map.ways[way].pieces)
          claims.push_back({Box::destinationOf(piece), claimants.size()});
        claimants.push_back({param, int64_t(way), &map.ways[way]});
      }
    }
    // The shape of one expert's slice of a stack.
    if (tensor.getStacked() && !shape->empty())
      shape->front() = 1;
    if (numElements(*shape) != size)
      return tensor.emitOpError("(tensor_c1) shape has ")
             << numElements(*shape) << " elements, its maps make " << size;
    std::optional<Flaw> flaw = findFlaw(claims, size, presburgerCommonElement);
    if (!flaw)
      return success();
    InFlightDiagnostic diagnostic = tensor.emitOpError("tensor \"")
                                    << tensor.getName() << "\": element ";
    if (flaw->kind == Flaw::OutOfBounds)
      diagnostic << flaw->element << " of " << size
                 << " is out of bounds; it is claimed by "
                 << describe(claimants[flaw->first], flaw->element);
    else if (flaw->kind == Flaw::Hole)
      diagnostic << position(flaw->element, *shape) << " has no owner";
    else
      diagnostic << position(flaw->element, *shape) << " has two owners: "
                 << describe(claimants[flaw->first], flaw->element) << " and "
                 << describe(claimants[flaw->second], flaw->element,
                             /*which=*/flaw->first == flaw->second);
    noteParams(diagnostic, apply);
    return diagnostic;
  }

  /// A parameter element has exactly one image or is dropped.
  LogicalResult proveParam(ParamOp param) {
    std::vector<Claim> claims;
    std::vector<Claimant> claimants;
    int64_t numWays = param.getWays().value_or(1);
    FailureOr<std::vector<int64_t>> local = shapeOfWay(param);
    if (failed(local))
      return failure();
    int64_t size = numElements(*local);
    // Ways are laid out one after the other in one array.
    std::vector<std::pair<Operation *, ApplyOp>> readers;
    for (Operation &op : side.getBody().front()) {
      auto tensor = dyn_cast<TensorOp>(op);
      if ((tensor && !tensor.getAlias()) || isa<DropOp>(op))
        if (ApplyOp apply = applyOf(&op))
          readers.push_back({&op, apply});
    }
    int64_t total = 0;
    if (__builtin_mul_overflow(size, numWays, &total))
      return param.emitOpError("parameter \"")
             << nameOf(param) << "\" overflows 64 bits";
    for (auto [reader, apply] : readers)
      for (auto [value, attr] : llvm::zip(
               apply.getValues(), apply.getMaps().getAsRange<MapAttr>())) {
        if (value != param.getResult())
          continue;
        const ShardedMap &map = attr.getValue();
        if (int64_t(map.ways.size()) != numWays || map.sourceSize() != size)
          return reader->emitOpError("reads ")
                 << map.ways.size() << " ways of " << map.sourceSize()
                 << " elements, parameter \"" << nameOf(param) << "\" has "
                 << numWays << " of " << size;
        for (int64_t way = 0; way < numWays; ++way) {
          for (const Piece &piece : map.ways[way].pieces) {
            Box box = Box::sourceOf(piece);
            if (auto element = elementOutside(box, size))
              return param.emitOpError("parameter \"")
                     << nameOf(param) << "\" way " << way << ": element "
                     << *element << " of " << size
                     << " is out of bounds; it is read by \""
                     << readerName(reader) << "\"";
            box.offset += way * size;
            claims.push_back({box, claimants.size()});
          }
          claimants.push_back({reader, way, &map.ways[way]});
        }
      }
    std::optional<Flaw> flaw = findFlaw(claims, total, presburgerCommonElement);
    if (!flaw)
      return success();
    InFlightDiagnostic diagnostic = param.emitOpError("parameter \"")
                                    << nameOf(param) << "\" way "
                                    << flaw->element / size << ": element "
                                    << position(flaw->element % size, *local);
    if (flaw->kind == Flaw::Hole)
      diagnostic << " has no image and is not dropped";
    else
      diagnostic << " has two images: in \""
                 << readerName(claimants[flaw->first].op) << "\" and in \""
                 << readerName(claimants[flaw->second].op) << "\"";
    return diagnostic;
  }

  static std::string readerName(Operation *reader) {
    if (auto tensor = dyn_cast<TensorOp>(reader))
      return tensor.getName().str();
    return "drop: " + cast<DropOp>(reader).getReason().str();
  }

  /// `"w" way 1 element [3, 0]`; of several elements the one called `which`.
  static std::string describe(const Claimant &claimant, int64_t element,
                              size_t which = 0) {
    auto param = cast<ParamOp>(claimant.op);
    std::string out =
        "\"" + nameOf(param).str() + "\" way " + std::to_string(claimant.way);
    std::vector<int64_t> sources = sourcesOf(*claimant.map, element);
    if (which < sources.size()) {
      FailureOr<std::vector<int64_t>> shape = shapeOfWay(param);
      out += " element " +
             position(sources[which],
                      succeeded(shape) ? *shape : std::vector<int64_t>());
    }
    return out;
  }

  static void noteParams(InFlightDiagnostic &diagnostic, ApplyOp apply) {
    for (Value value : apply.getValues())
      diagnostic.attachNote(value.getLoc()) << "parameter declared here";
  }

  SideOp side;
  SideClasses classes;
  std::vector<int64_t> stackOf; ///< of each layer; 0: the decoder
  int64_t numStacks = 0;
};

struct VerifyCoverage : delta::impl::VerifyCoveragePassBase<VerifyCoverage> {
  void runOnOperation() override {
    for (auto side : getOperation().getOps<SideOp>())
      if (failed(Prover(side).run()))
        return signalPassFailure();
  }
};
} // namespace
