//===- InstantiateOps.cpp - Parameters, tensors and index functions -----===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Binds the ops that make values. Every constraint of the dialect that
/// depends on sizes is checked here, next to the op that has it.
///
//===----------------------------------------------------------------------===//

#include "passes/Instantiator.h"
#include "passes/NameTemplate.h"

using namespace delta;
using namespace mlir;

//===----------------------------------------------------------------------===//
// Parameters and tensors
//===----------------------------------------------------------------------===//

LogicalResult Instantiator::param(ParamOp op, Context &context) {
  if (!context.layers && !context.stage)
    return error(op, context,
                 "(param_c1) is outside of 'delta.layers' and "
                 "'delta.on'");
  FailureOr<Shape> shape = evaluateSizes(op, context, op.getShape());
  if (failed(shape))
    return failure();
  if (shape->empty() || shape->size() > 6 || !checkedSize(*shape))
    return error(op, context,
                 "(param_c2) shape is " + str(*shape) +
                     ", required 1 to 6 sizes whose product "
                     "fits 64 bits");
  if (!isLayout() && (op.getStacked() || op.getHolds() || op.getViewed()))
    return error(op, context,
                 "(param_c5) says how an engine keeps it, in the family of a "
                 "trainer");
  SmallVector<Attribute> names, schemes;
  for (auto [name, nameScheme] :
       llvm::zip(op.getNames().getAsRange<StringAttr>(),
                 op.getSchemes().getAsRange<StringAttr>())) {
    if (!nameScheme.empty() && nameScheme.getValue() != scheme)
      continue;
    for (size_t prefix = 0; prefix < context.trainer.size(); ++prefix) {
      FailureOr<std::string> full =
          expandName(op, context, NameOf::Param, name.getValue(), prefix);
      if (failed(full))
        return failure();
      if ((context.layers && full->find("{layer") == std::string::npos) ||
          (context.experts && !op.getStacked() &&
           full->find("{expert") == std::string::npos))
        return error(op, context,
                     "(param_c4) name \"" + *full +
                         "\" is the same for all its layers or experts");
      names.push_back(builder.getStringAttr(*full));
      schemes.push_back(builder.getStringAttr(""));
    }
  }
  if (names.empty())
    return error(op, context,
                 "(param_c3) has no name for the scheme '" + scheme + "'");
  StringRef dtype = resolved(op.getDtype());
  if (op.getStacked() && failed(checkStacked(op, context, *shape)))
    return failure();
  auto folded = [&](std::optional<ExprAttr> expr) -> FailureOr<ExprAttr> {
    if (!expr)
      return ExprAttr();
    FailureOr<int64_t> value = evaluateInt(op, context, *expr);
    if (failed(value))
      return failure();
    if (*value < 0 || *value > (1 << 16)) {
      error(op, context,
            "(param_c5) number of slots is " + Twine(*value) +
                ", required 0 to 65536");
      return failure();
    }
    return ExprAttr::get(builder.getContext(), Expr::integer(*value));
  };
  FailureOr<ExprAttr> extra = folded(op.getExtra()),
                      slot = folded(op.getSlot());
  if (failed(extra) || failed(slot))
    return failure();
  auto bound = ParamOp::create(
      builder, op.getLoc(), array, builder.getArrayAttr(names),
      builder.getArrayAttr(schemes), literals(*shape),
      builder.getStringAttr(dtype),
      context.layers ? StringAttr() : builder.getStringAttr(*context.stage),
      context.layers ? builder.getDenseI64ArrayAttr(*context.layers)
                     : DenseI64ArrayAttr(),
      context.experts ? builder.getUnitAttr() : UnitAttr(), StringAttr(),
      IntegerAttr(), DenseI64ArrayAttr(), op.getStackedAttr(), *extra, *slot,
      op.getHoldsAttr(), op.getViewedAttr());
  if (*slot && failed(checkSlot(bound, context)))
    return failure();
  define(context, op.getResult(), bound.getResult(),
         {*shape, dtype.str(), context.experts, context.layers.has_value(),
          false, false, reads});
  return success();
}

LogicalResult Instantiator::copy(CopyOp op, Context &context) {
  if (!context.stage)
    return error(op, context, "(copy_c2) is outside of 'delta.on'");
  FailureOr<std::string> name =
      expandName(op, context, NameOf::Param, op.getName());
  if (failed(name))
    return failure();
  CopyOp::create(builder, op.getLoc(), *name, map(context, op.getOriginal()),
                 builder.getStringAttr(*context.stage));
  return success();
}

FailureOr<bool> Instantiator::isListedHere(Operation *op, Context &context,
                                           StringRef name) {
  Evaluated listed = isListed(op, context, name.str());
  if (!listed.error.empty()) {
    error(op, context, listed.error);
    return failure();
  }
  return listed.value && std::get<bool>(listed.value->data);
}

LogicalResult Instantiator::tensor(TensorOp op, Context &context) {
  FailureOr<std::string> name =
      expandName(op, context, NameOf::Tensor, op.getName());
  FailureOr<Shape> shape = evaluateSizes(op, context, op.getShape());
  if (failed(name) || failed(shape))
    return failure();
  if (op.getIfListed()) {
    FailureOr<bool> listed = isListedHere(op, context, op.getName());
    if (failed(listed) || !*listed)
      return failure(failed(listed));
  }
  mlir::Value value = map(context, op.getValue());
  if (op.getDtypes()) {
    auto dtypes = op.getDtypesAttr().getAsRange<StringAttr>();
    StringRef listed = listedType(*name, context);
    StringRef chosen = resolved((*dtypes.begin()).getValue());
    for (StringAttr dtype : dtypes)
      if (resolved(dtype.getValue()) == listed)
        chosen = listed;
    FailureOr<mlir::Value> result = castTo(op, context, value, chosen);
    if (failed(result))
      return failure();
    value = *result;
  }
  const Facts &f = factsOf(value);
  bool stacked = op.getStacked();
  if (stacked && !f.experts)
    return error(op, context,
                 "(tensor_c2) stacks a value that is not of expert parameters");
  if (stacked && (shape->empty() || shape->front() != numExperts))
    return error(op, context,
                 "(tensor_c2) stacks " + Twine(numExperts) +
                     " experts into a tensor of shape " + str(*shape));
  int64_t size = numElements(f.shape) * (stacked ? numExperts : 1);
  if (shape->size() > 6 || checkedSize(*shape) != size)
    return error(
        op, context,
        "(tensor_c1) shape " + str(*shape) + " for a value of shape " +
            str(f.shape) +
            (stacked ? " of " + std::to_string(numExperts) + " experts" : "") +
            ", required " + Twine(size) + " elements");
  bool expertHole = name->find("{expert") != std::string::npos;
  if (stacked && expertHole)
    return error(op, context,
                 "(tensor_c2) name \"" + *name +
                     "\" of a stack has an '{expert}'");
  if ((f.layers && name->find("{layer") == std::string::npos) ||
      (f.experts && !stacked && !expertHole))
    return error(op, context,
                 "(tensor_c3) name \"" + *name +
                     "\" is the same for all its layers or "
                     "experts");
  if (op.getAlso() && !isLayout())
    return error(op, context,
                 "(tensor_c3) stands for a tensor once more, in a trainer's "
                 "family");
  // A second tensor of one value is an alias of the first.
  bool isAlias = !produced.insert(value.getAsOpaquePointer()).second;
  TensorOp::create(builder, op.getLoc(), builder.getStringAttr(*name), value,
                   literals(*shape), op.getStackedAttr(), UnitAttr(),
                   isAlias ? builder.getUnitAttr() : UnitAttr(),
                   op.getAlsoAttr(), ArrayAttr());
  return success();
}

StringRef Instantiator::listedType(const std::string &name,
                                   const Context &context) const {
  if (!keys)
    return {};
  int64_t row = context.layers ? context.layers->front() : 0;
  auto it = keys->find(fillName(name, row, 0));
  if (it == keys->end() || !it->is_object() || !it->contains("dtype"))
    return {};
  const nlohmann::json &dtype = it->at("dtype");
  return dtype == "fp32"   ? "f32"
         : dtype == "fp16" ? "f16"
         : dtype == "bf16" ? "bf16"
         : dtype == "i64"  ? "i64"
                           : "";
}

LogicalResult Instantiator::passthrough(PassthroughOp op, Context &context) {
  FailureOr<std::string> name =
      expandName(op, context, NameOf::Tensor, op.getName());
  FailureOr<Shape> shape = evaluateSizes(op, context, op.getShape());
  if (failed(name) || failed(shape))
    return failure();
  if (op.getAll())
    return passthroughAll(op, *name, context);
  if (shape->empty() || shape->size() > 6 || !checkedSize(*shape))
    return error(op, context,
                 "(passthrough_c2) shape is " + str(*shape) +
                     ", required 1 to 6 sizes whose product fits 64 bits");
  if (op.getIfListed()) {
    FailureOr<bool> listed = isListedHere(op, context, op.getName());
    if (failed(listed) || !*listed)
      return failure(failed(listed));
  }
  if (context.layers && name->find("{layer") == std::string::npos)
    return error(op, context,
                 "(passthrough_c1) name \"" + *name +
                     "\" is the same for all its layers");
  PassthroughOp::create(
      builder, op.getLoc(), builder.getStringAttr(*name), literals(*shape),
      builder.getStringAttr(resolved(op.getDtype())), UnitAttr(), UnitAttr(),
      context.layers ? builder.getDenseI64ArrayAttr(*context.layers)
                     : DenseI64ArrayAttr());
  return success();
}

LogicalResult Instantiator::passthroughAll(PassthroughOp op,
                                           const std::string &prefix,
                                           Context &context) {
  if (isLayout()) {
    PassthroughOp::create(
        builder, op.getLoc(), builder.getStringAttr(prefix), literals({}),
        builder.getStringAttr(storage), builder.getUnitAttr(), UnitAttr(),
        context.layers ? builder.getDenseI64ArrayAttr(*context.layers)
                       : DenseI64ArrayAttr());
    return success();
  }
  if (context.layers)
    return error(op, context,
                 "(passthrough_c1) name \"" + prefix +
                     "\" is the same for all its layers");
  for (auto it = keys ? keys->begin() : nlohmann::json::iterator();
       keys && it != keys->end(); ++it) {
    if (it.key().rfind(prefix, 0) != 0)
      continue;
    Shape shape;
    if (it->is_object() && it->contains("shape"))
      for (const nlohmann::json &size : it->at("shape"))
        shape.push_back(size.is_number_integer() ? size.get<int64_t>() : 0);
    StringRef dtype = listedType(it.key(), context);
    bool positive = llvm::all_of(shape, [](int64_t size) { return size > 0; });
    if (shape.empty() || shape.size() > 6 || !positive || !checkedSize(shape) ||
        dtype.empty())
      return error(op, context,
                   "(passthrough_c2) tensor \"" + it.key() +
                       "\" of the key list has 1 to 6 sizes and a plain type, "
                       "got " +
                       it->dump());
    PassthroughOp::create(builder, op.getLoc(), builder.getStringAttr(it.key()),
                          literals(shape), builder.getStringAttr(dtype),
                          UnitAttr(), UnitAttr(), DenseI64ArrayAttr());
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Index functions
//===----------------------------------------------------------------------===//

LogicalResult Instantiator::unshard(UnshardOp op, Context &context) {
  mlir::Value value = map(context, op.getShards());
  Facts f = factsOf(value);
  int64_t dim = op.getDim();
  if (failed(checkDim(op, context, "unshard_c2", dim, f.shape)))
    return failure();
  if (!isLayout() &&
      (op.getAxis() == "stage" || (op.getAxis() == "etp") != f.experts))
    return error(op, context,
                 "(unshard_c5) axis is '" + op.getAxis() + "' for " +
                     (f.experts ? "an expert" : "a common") +
                     " parameter, required '" + (f.experts ? "etp" : "tp") +
                     "'");
  int64_t axis = axisSize(op.getAxis());
  int64_t ways = axis;
  if (op.getWays()) {
    FailureOr<int64_t> result = evaluateInt(op, context, *op.getWays());
    if (failed(result))
      return failure();
    ways = *result;
  }
  if (ways < 1 || axis % ways != 0)
    return error(op, context,
                 "(unshard_c6) " + Twine(ways) + " ways do not divide axis '" +
                     op.getAxis() + "' of size " + Twine(axis));
  FailureOr<Shape> sections =
      evaluateSizes(op, context, op.getSections(), /*least=*/0);
  if (failed(sections))
    return failure();
  Shape parts = sections->empty() ? Shape{f.shape[dim]} : *sections;
  FailureOr<Shape> partWays = waysOfSections(op, context, ways, parts.size());
  if (failed(partWays))
    return failure();
  int64_t sum = 0;
  for (auto [part, own] : llvm::zip(parts, *partWays)) {
    sum += part;
    if (part % own != 0)
      return error(
          op, context,
          "(unshard_c3) dim " + Twine(dim) + " of size " + Twine(f.shape[dim]) +
              (sections->empty() ? ""
                                 : " has a section of size " +
                                       std::to_string(part) + ", which") +
              " is not divisible by " +
              (own == axis ? "" : std::to_string(own) + " ways of ") +
              "axis '" + op.getAxis() + "' of size " + Twine(axis));
  }
  if (sum != f.shape[dim])
    return error(op, context,
                 "(unshard_c4) sections " + str(parts) + " sum up to " +
                     Twine(sum) + ", dim " + Twine(dim) + " has size " +
                     Twine(f.shape[dim]));
  auto bound = UnshardOp::create(
      builder, op.getLoc(), array, value, op.getDimAttr(), op.getAxisAttr(),
      ExprAttr::get(builder.getContext(), Expr::integer(ways)),
      literals(*sections),
      op.getSectionWays() ? literals(*partWays) : ArrayAttr());
  define(context, op.getResult(), bound.getResult(), f);
  return success();
}

LogicalResult Instantiator::reshape(ReshapeOp op, Context &context) {
  mlir::Value value = map(context, op.getValue());
  Facts f = factsOf(value);
  FailureOr<Shape> shape = evaluateSizes(op, context, op.getShape());
  if (failed(shape))
    return failure();
  if (checkedSize(*shape) != numElements(f.shape))
    return error(op, context,
                 "(reshape_c1) shape " + str(*shape) +
                     " for a value of shape " + str(f.shape) + ", required " +
                     Twine(numElements(f.shape)) + " elements");
  auto bound =
      ReshapeOp::create(builder, op.getLoc(), array, value, literals(*shape));
  f.shape = *shape;
  define(context, op.getResult(), bound.getResult(), f);
  return success();
}

LogicalResult Instantiator::transpose(TransposeOp op, Context &context) {
  mlir::Value value = map(context, op.getValue());
  Facts f = factsOf(value);
  ArrayRef<int64_t> permutation = op.getPermutation();
  std::set<int64_t> dims(permutation.begin(), permutation.end());
  int64_t rank = f.shape.size();
  if (int64_t(permutation.size()) != rank || int64_t(dims.size()) != rank ||
      (rank > 0 && (*dims.begin() != 0 || *dims.rbegin() != rank - 1)))
    return error(op, context,
                 "(transpose_c1) permutation " + str(Shape(permutation)) +
                     " of a value of shape " + str(f.shape));
  auto bound = TransposeOp::create(builder, op.getLoc(), array, value,
                                   op.getPermutationAttr());
  Shape shape;
  for (int64_t dim : permutation)
    shape.push_back(f.shape[dim]);
  f.shape = shape;
  define(context, op.getResult(), bound.getResult(), f);
  return success();
}

LogicalResult Instantiator::split(SplitOp op, Context &context) {
  mlir::Value value = map(context, op.getValue());
  Facts f = factsOf(value);
  int64_t dim = op.getDim();
  FailureOr<Shape> sizes = evaluateSizes(op, context, op.getSizes());
  if (failed(sizes) || failed(checkDim(op, context, "split_c2", dim, f.shape)))
    return failure();
  int64_t sum = 0;
  for (int64_t size : *sizes)
    sum += size;
  if (sum != f.shape[dim])
    return error(op, context,
                 "(split_c3) sizes " + str(*sizes) + " sum up to " +
                     Twine(sum) + ", dim " + Twine(dim) + " has size " +
                     Twine(f.shape[dim]));
  SmallVector<Type> types(sizes->size(), array);
  auto bound = SplitOp::create(builder, op.getLoc(), types, value,
                               op.getDimAttr(), literals(*sizes));
  for (size_t i = 0; i < sizes->size(); ++i) {
    Facts part = f;
    part.shape[dim] = (*sizes)[i];
    define(context, op->getResult(i), bound->getResult(i), part);
  }
  return success();
}

LogicalResult Instantiator::join(Operation *op, int64_t dim, Context &context,
                                 StringRef label) {
  SmallVector<mlir::Value> values;
  for (mlir::Value value : op->getOperands())
    values.push_back(map(context, value));
  if (values.empty())
    return error(op, context, "(" + label + ") has no operands");
  Facts f = factsOf(values[0]);
  if (failed(checkDim(op, context, label, dim, f.shape)))
    return failure();
  int64_t sum = 0;
  for (mlir::Value value : values) {
    const Facts &other = factsOf(value);
    Shape expected = f.shape;
    if (isa<ConcatOp>(op) && other.shape.size() == expected.size())
      expected[dim] = other.shape[dim];
    if (other.shape != expected || other.experts != f.experts ||
        other.layers != f.layers || other.scalar != f.scalar ||
        other.dtype != f.dtype)
      return error(op, context,
                   "(" + label + ") operands have shapes " + str(f.shape) +
                       " of " + f.dtype + " and " + str(other.shape) + " of " +
                       other.dtype +
                       ", required equal ones of parameters that live "
                       "together");
    if (__builtin_add_overflow(sum, other.shape[dim], &sum))
      return error(op, context, "(" + label + ") size overflows 64 bits");
  }
  IntegerAttr dimAttr = builder.getI64IntegerAttr(dim);
  mlir::Value bound;
  if (isa<ConcatOp>(op))
    bound = ConcatOp::create(builder, op->getLoc(), array, values, dimAttr);
  else
    bound = InterleaveOp::create(builder, op->getLoc(), array, values, dimAttr);
  f.shape[dim] = sum;
  if (!checkedSize(f.shape))
    return error(op, context,
                 "(" + label + ") shape " + str(f.shape) +
                     " overflows 64 bits");
  define(context, op->getResult(0), bound, f);
  return success();
}

LogicalResult Instantiator::take(TakeOp op, Context &context) {
  mlir::Value value = map(context, op.getValue());
  Facts f = factsOf(value);
  int64_t dim = op.getDim();
  FailureOr<int64_t> size = evaluateInt(op, context, op.getSize());
  if (failed(size) || failed(checkDim(op, context, "take_c1", dim, f.shape)))
    return failure();
  if (*size < 1 || *size > f.shape[dim])
    return error(op, context,
                 "(take_c1) first " + Twine(*size) + " rows of dim " +
                     Twine(dim) + " of a value of shape " + str(f.shape));
  auto bound =
      TakeOp::create(builder, op.getLoc(), array, value, op.getDimAttr(),
                     ExprAttr::get(builder.getContext(), Expr::integer(*size)),
                     op.getReasonAttr());
  f.shape[dim] = *size;
  define(context, op.getResult(), bound.getResult(), f);
  return success();
}

LogicalResult Instantiator::addScalar(AddScalarOp op, Context &context) {
  mlir::Value value = map(context, op.getValue());
  Facts f = factsOf(value);
  if (op.getScalar() != 1 || f.scalar || f.cast)
    return error(op, context,
                 "(add_scalar_c1) adds " + Twine(op.getScalar()) +
                     (f.scalar ? " after another"
                      : f.cast ? " after a cast"
                               : "") +
                     ", required 1, once, before any cast");
  auto bound = AddScalarOp::create(builder, op.getLoc(), array, value,
                                   op.getScalarAttr());
  f.scalar = true;
  define(context, op.getResult(), bound.getResult(), f);
  return success();
}

FailureOr<mlir::Value> Instantiator::castTo(Operation *op, Context &context,
                                            mlir::Value value,
                                            StringRef dtype) {
  Facts f = factsOf(value);
  if (f.dtype == dtype)
    return value;
  if (f.cast || f.dtype == "i64" || dtype == "i64" ||
      (f.dtype != "f32" && dtype != "f32")) {
    error(op, context,
          "(cast_c1) casts from " + f.dtype + " to " + dtype +
              (f.cast ? ", after another cast" : "") +
              ", required f32 at one end and one cast at most");
    return failure();
  }
  mlir::Value bound =
      CastOp::create(builder, op->getLoc(), array, value, dtype).getResult();
  f.dtype = dtype.str();
  f.cast = true;
  facts[bound.getAsOpaquePointer()] = std::move(f);
  return bound;
}

LogicalResult Instantiator::bindCast(CastOp op, Context &context) {
  FailureOr<mlir::Value> bound =
      castTo(op, context, map(context, op.getValue()), resolved(op.getDtype()));
  if (failed(bound))
    return failure();
  context.values->map(op.getResult(), *bound);
  return success();
}
