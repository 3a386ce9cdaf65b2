//===- SideChecker.cpp - Do the records of a side fit? --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The rules of Program.h, one function for each kind of record.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/SideChecker.h"

#include <algorithm>
#include <numeric>

namespace delta::reference {

static std::string number(int64_t value) { return std::to_string(value); }

static int64_t sum(const std::vector<int64_t> &values) {
  return std::accumulate(values.begin(), values.end(), int64_t(0));
}

static bool hasNegative(const std::vector<int64_t> &values) {
  return std::any_of(values.begin(), values.end(),
                     [](int64_t value) { return value < 0; });
}

bool SideChecker::check() {
  if (!checkGeometry())
    return false;
  splits.resize(side.params.size());
  for (size_t i = 0; i < side.params.size(); ++i)
    if (where = "params[" + number(int64_t(i)) + "]"; !checkParam(i))
      return false;
  for (size_t i = 0; i < side.params.size(); ++i)
    if (where = "params[" + number(int64_t(i)) + "]";
        side.params[i].copyOf && !checkCopy(i))
      return false;
  for (size_t i = 0; i < side.ops.size(); ++i)
    if (where = "ops[" + number(int64_t(i)) + "] (" + side.ops[i].kind + ")";
        !checkOp(i))
      return false;
  for (size_t i = 0; i < side.tensors.size(); ++i)
    if (where = "tensors[" + number(int64_t(i)) + "]"; !checkTensor(i))
      return false;
  for (size_t i = 0; i < side.params.size(); ++i)
    if (side.params[i].copyOf)
      splits[i] = splits[size_t(*side.params[i].copyOf)];
  return true;
}

//===--- geometry and parameters ------------------------------------------===//

bool SideChecker::checkGeometry() {
  where = "geometry";
  const Geometry &g = side.geometry;
  for (const int64_t size : {g.tp, g.cp, g.dp, g.ep, g.etp, g.edp, g.pp, g.vpp})
    if (size < 1)
      return fail("size " + number(size) + " is not positive");
  if (g.tp * g.cp * g.dp != g.etp * g.ep * g.edp)
    return fail("tp*cp*dp is " + number(g.tp * g.cp * g.dp) +
                ", etp*ep*edp is " + number(g.etp * g.ep * g.edp) +
                "; a stage has as many ranks for experts as for the rest");
  if (int64_t(g.stageLayers.size()) != g.pp)
    return fail("stageLayers has " + number(int64_t(g.stageLayers.size())) +
                " stages, pp is " + number(g.pp));
  int64_t numLayers = 0;
  for (const std::vector<int64_t> &chunks : g.stageLayers) {
    if (int64_t(chunks.size()) != g.vpp || hasNegative(chunks))
      return fail("stageLayers has a stage of " + toText(chunks) +
                  " layers, vpp is " + number(g.vpp));
    numLayers += sum(chunks);
  }
  if (g.stackLayers.size() != g.stackStages.size() ||
      hasNegative(g.stackLayers) ||
      std::count(g.stackStages.begin(), g.stackStages.end(), Stage::Layers))
    return fail("stackLayers " + toText(g.stackLayers) +
                " need \"first\" or \"last\" each in stackStages");
  numLayers += sum(g.stackLayers);
  if (numLayers != side.numLayers)
    return fail("stageLayers and stackLayers sum to " + number(numLayers) +
                ", numLayers is " + number(side.numLayers));
  if (side.numExperts < 0 || side.numExperts % g.ep != 0)
    return fail("numExperts is " + number(side.numExperts) +
                ", not divisible by ep of size " + number(g.ep));
  return true;
}

bool SideChecker::checkParam(size_t index) {
  const Param &param = side.params[index];
  if (param.names.empty())
    return fail("has no name");
  if (byteWidth(param.dtype) == 0)
    return fail("dtype \"" + param.dtype + "\" is not known");
  if (hasNegative(param.shape))
    return fail("shape " + toText(param.shape) + " has a negative size");
  if ((param.stage == Stage::Layers) == param.layers.empty())
    return fail(param.layers.empty() ? "lives on layers and lists none"
                                     : "lives on one stage and lists layers");
  for (size_t i = 0; i < param.layers.size(); ++i)
    if (param.layers[i] < 0 || param.layers[i] >= side.numLayers ||
        (i && param.layers[i] <= param.layers[i - 1]))
      return fail("layers must be ascending and below " +
                  number(side.numLayers) + ", " + number(param.layers[i]) +
                  " is not");
  if (param.expert && side.numExperts == 0)
    return fail("is an expert's, numExperts is 0");
  if (param.copyOf)
    return true;
  ValueFacts facts;
  facts.shape = param.shape;
  facts.dtype = param.dtype;
  facts.domain = {param.layers, param.expert};
  if (param.layers.empty())
    facts.domain.layers = {kNone};
  facts.param = int64_t(index);
  if (param.value < 0 || !values.emplace(param.value, facts).second)
    return fail("value " + number(param.value) + " is negative or taken");
  return true;
}

bool SideChecker::checkCopy(size_t index) {
  const Param &param = side.params[index];
  const int64_t of = *param.copyOf;
  if (of < 0 || of >= int64_t(side.params.size()) ||
      side.params[size_t(of)].copyOf)
    return fail("copyOf " + number(of) + " is not a parameter with a value");
  const Param &original = side.params[size_t(of)];
  if (param.value != -1)
    return fail("is a copy and has value " + number(param.value));
  if (param.shape != original.shape || param.dtype != original.dtype ||
      param.expert != original.expert || param.layers != original.layers)
    return fail("differs from params[" + number(of) +
                "], which it repeats, in shape, dtype or instances");
  return true;
}

//===--- ops --------------------------------------------------------------===//

/// Number of operands and results that a kind takes; -1: one or more.
static std::pair<int, int> arity(const std::string &kind) {
  if (kind == "split")
    return {1, -1};
  if (kind == "concat" || kind == "interleave")
    return {-1, 1};
  return {1, 1};
}

bool SideChecker::checkOp(size_t index) {
  const Op &op = side.ops[index];
  const auto [numIn, numOut] = arity(op.kind);
  if (op.in.empty() || (numIn == 1 && op.in.size() != 1) || op.out.empty() ||
      (numOut == 1 && op.out.size() != 1))
    return fail("has " + number(int64_t(op.in.size())) + " operands and " +
                number(int64_t(op.out.size())) + " results");
  std::vector<ValueFacts *> in;
  for (const int64_t value : op.in) {
    const auto found = values.find(value);
    if (found == values.end())
      return fail("operand " + number(value) + " has no value yet");
    ++found->second.uses;
    in.push_back(&found->second);
  }
  const bool hasDim = op.kind != "reshape" && op.kind != "transpose" &&
                      op.kind != "add_scalar" && op.kind != "cast";
  if (hasDim && (op.dim < 0 || op.dim >= int64_t(in[0]->shape.size())))
    return fail("dim " + number(op.dim) + " is outside operand shape " +
                toText(in[0]->shape));
  std::vector<ValueFacts> out(op.out.size(), *in[0]);
  for (ValueFacts &facts : out) {
    facts.uses = 0;
    facts.param = kNone;
  }
  if (!results(op, in, out))
    return false;
  for (size_t i = 0; i < out.size(); ++i)
    if (op.out[i] < 0 || !values.emplace(op.out[i], out[i]).second)
      return fail("result " + number(op.out[i]) + " is negative or taken");
  return true;
}

bool SideChecker::results(const Op &op, const std::vector<ValueFacts *> &in,
                          std::vector<ValueFacts> &out) {
  const Shape &shape = in[0]->shape;
  const size_t dim = size_t(op.dim);
  if (op.kind == "unshard")
    return unshard(op, *in[0]);
  if (op.kind == "reshape") {
    if (hasNegative(op.shape) || count(op.shape) != count(shape))
      return fail("shape " + toText(op.shape) + " has not the elements of " +
                  toText(shape));
    out[0].shape = op.shape;
  } else if (op.kind == "transpose") {
    std::vector<int64_t> sorted = op.permutation, all(shape.size());
    std::sort(sorted.begin(), sorted.end());
    std::iota(all.begin(), all.end(), 0);
    if (sorted != all)
      return fail("permutation " + toText(op.permutation) +
                  " is none of a shape " + toText(shape));
    for (size_t i = 0; i < all.size(); ++i)
      out[0].shape[i] = shape[size_t(op.permutation[i])];
  } else if (op.kind == "split") {
    if (op.sizes.size() != out.size() || !checkSizes(op, op.sizes, *in[0]))
      return error.empty() ? fail("sizes and results differ in number") : false;
    for (size_t i = 0; i < out.size(); ++i)
      out[i].shape[dim] = op.sizes[i];
  } else if (op.kind == "concat" || op.kind == "interleave") {
    if (!checkAlike(op, in))
      return false;
    out[0].shape[dim] = 0;
    for (const ValueFacts *facts : in)
      out[0].shape[dim] += facts->shape[dim];
  } else if (op.kind == "take") {
    if (op.size < 0 || op.size > shape[dim])
      return fail("size " + number(op.size) + " is more than dim " +
                  number(op.dim) + " of size " + number(shape[dim]));
    out[0].shape[dim] = op.size;
  } else if (op.kind == "add_scalar") {
    if (in[0]->isCast)
      return fail("adds to a value that was cast");
    out[0].scalars.push_back(op.scalar);
  } else if (op.kind == "cast") {
    if (in[0]->isCast || !castOf(in[0]->dtype, op.dtype))
      return fail("casts " + in[0]->dtype + " to " + op.dtype +
                  ", required fp32 at one end, once");
    out[0].dtype = op.dtype;
    out[0].isCast = true;
  } else {
    return fail("is not an op");
  }
  return true;
}

bool SideChecker::unshard(const Op &op, ValueFacts &in) {
  if (in.param == kNone)
    return fail("operand " + number(op.in[0]) + " is not a parameter");
  const bool expert = side.params[size_t(in.param)].expert;
  const char *axis = expert ? "etp" : "tp";
  const int64_t size = expert ? side.geometry.etp : side.geometry.tp;
  if (op.axis != axis)
    return fail("axis \"" + op.axis + "\" does not shard params[" +
                number(in.param) + "], \"" + axis + "\" does");
  if (op.ways < 1 || size % op.ways != 0)
    return fail("ways " + number(op.ways) + " does not divide axis \"" + axis +
                "\" of size " + number(size));
  if (!op.sections.empty() && !checkSizes(op, op.sections, in))
    return false;
  std::vector<int64_t> parts = op.sections;
  if (parts.empty())
    parts.push_back(in.shape[size_t(op.dim)]);
  for (const int64_t part : parts)
    if (part % op.ways != 0)
      return fail("size " + number(part) + " of dim " + number(op.dim) +
                  " is not divisible by " + number(op.ways) + " ways");
  if (in.uses != 1)
    return fail("params[" + number(in.param) + "] has another use");
  splits[size_t(in.param)] = {op.dim, op.ways, op.sections};
  return true;
}

bool SideChecker::checkSizes(const Op &op, const std::vector<int64_t> &sizes,
                             const ValueFacts &in) {
  const int64_t size = in.shape[size_t(op.dim)];
  if (hasNegative(sizes) || sum(sizes) != size)
    return fail(toText(sizes) + " does not sum to dim " + number(op.dim) +
                " of size " + number(size));
  return true;
}

bool SideChecker::checkAlike(const Op &op,
                             const std::vector<ValueFacts *> &in) {
  for (size_t i = 1; i < in.size(); ++i) {
    Shape shape = in[i]->shape;
    if (op.kind == "concat" && shape.size() == in[0]->shape.size())
      shape[size_t(op.dim)] = in[0]->shape[size_t(op.dim)];
    if (shape != in[0]->shape)
      return fail("operands of shapes " + toText(in[0]->shape) + " and " +
                  toText(in[i]->shape) + " do not fit");
    if (in[i]->dtype != in[0]->dtype || !(in[i]->domain == in[0]->domain) ||
        in[i]->scalars != in[0]->scalars)
      return fail("operands differ in dtype, instances or added scalars");
  }
  return true;
}

//===--- tensors ----------------------------------------------------------===//

bool SideChecker::checkTensor(size_t index) {
  const Tensor &tensor = side.tensors[index];
  const auto found = values.find(tensor.value);
  if (found == values.end())
    return fail("value " + number(tensor.value) + " is not defined");
  ValueFacts &facts = found->second;
  ++facts.uses;
  if (tensor.dtype != facts.dtype)
    return fail("dtype " + tensor.dtype + " differs from the value's " +
                facts.dtype);
  Shape shape = facts.shape;
  if (tensor.stack)
    shape.insert(shape.begin(), side.numExperts);
  if (tensor.shape != shape)
    return fail("shape " + toText(tensor.shape) + " differs from the value's " +
                toText(shape));
  if (tensor.stack && !facts.domain.expert)
    return fail("stacks experts, its value has none");
  const bool named = tensor.name.find("{expert") != std::string::npos;
  if (named != (facts.domain.expert && !tensor.stack))
    return fail("name \"" + tensor.name + "\" and value differ on experts");
  const bool layered = tensor.name.find("{layer") != std::string::npos;
  if (!layered && facts.domain.layers.size() > 1)
    return fail("name \"" + tensor.name + "\" has no {layer}, its value has " +
                number(int64_t(facts.domain.layers.size())) + " layers");
  return true;
}

} // namespace delta::reference
