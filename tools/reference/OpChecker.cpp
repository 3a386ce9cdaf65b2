//===- OpChecker.cpp - Do ops and tensors fit their operands? -------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The rules of Program.h on ops and tensors.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/SideChecker.h"

#include <algorithm>
#include <numeric>

namespace delta::reference {

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

int64_t SideChecker::axisOf(const Op &op, const Param &param) const {
  const Geometry &g = side.geometry;
  const bool engine = !side.engine.empty();
  if (op.axis == "tp" && (engine || !param.expert))
    return g.tp;
  if (op.axis == "etp" && (engine || param.expert))
    return g.etp;
  return op.axis == "stage" && engine ? g.tp * g.cp * g.dp : 0;
}

bool SideChecker::checkSectionWays(const Op &op) {
  if (op.sectionWays.empty())
    return true;
  if (side.engine.empty())
    return fail("has sectionWays, which are an engine's");
  if (op.sectionWays.size() != op.sections.size())
    return fail("has ways for " + number(int64_t(op.sectionWays.size())) +
                " of " + number(int64_t(op.sections.size())) + " sections");
  for (const int64_t ways : op.sectionWays)
    if (ways < 1 || op.ways % ways != 0)
      return fail("section ways " + number(ways) + " do not divide " +
                  number(op.ways) + " ways");
  return true;
}

bool SideChecker::unshard(const Op &op, ValueFacts &in) {
  if (in.param == kNone)
    return fail("operand " + number(op.in[0]) + " is not a parameter");
  const Param &param = side.params[size_t(in.param)];
  const int64_t size = axisOf(op, param);
  if (size == 0)
    return fail("axis \"" + op.axis + "\" does not shard params[" +
                number(in.param) + "], " +
                (!side.engine.empty() ? "\"tp\", \"etp\" and \"stage\" do"
                 : param.expert       ? "\"etp\" does"
                                      : "\"tp\" does"));
  if (op.ways < 1 || size % op.ways != 0)
    return fail("ways " + number(op.ways) + " does not divide axis \"" +
                op.axis + "\" of size " + number(size));
  if (!op.sections.empty() && !checkSizes(op, op.sections, in))
    return false;
  if (!checkSectionWays(op))
    return false;
  std::vector<int64_t> parts = op.sections, ways = op.sectionWays;
  if (parts.empty())
    parts.push_back(in.shape[size_t(op.dim)]);
  if (ways.empty())
    ways.assign(parts.size(), op.ways);
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i] % ways[i] != 0)
      return fail("size " + number(parts[i]) + " of dim " + number(op.dim) +
                  " is not divisible by " + number(ways[i]) + " ways");
  if (in.uses != 1)
    return fail("params[" + number(in.param) + "] has another use");
  splits[size_t(in.param)] = {op.dim, op.ways, op.sections, op.sectionWays};
  axes[size_t(in.param)] = op.axis;
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
        in[i]->scalars != in[0]->scalars || in[i]->form != in[0]->form)
      return fail(in[i]->form != in[0]->form
                      ? "operands are held in different forms"
                      : "operands differ in dtype, instances or added "
                        "scalars");
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
  if (tensor.also) {
    const auto isFirst = [&](const Tensor &other) {
      return !other.also && other.name == tensor.name;
    };
    if (side.engine.empty() ||
        std::none_of(side.tensors.begin(),
                     side.tensors.begin() + int64_t(index), isFirst))
      return fail("is kept a second time; required an engine and a tensor \"" +
                  tensor.name + "\" before it");
  }
  if (!layered && facts.domain.layers.size() > 1)
    return fail("name \"" + tensor.name + "\" has no {layer}, its value has " +
                number(int64_t(facts.domain.layers.size())) + " layers");
  return true;
}

} // namespace delta::reference
