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
  axes.resize(side.params.size());
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
    if (side.params[i].copyOf) {
      splits[i] = splits[size_t(*side.params[i].copyOf)];
      axes[i] = axes[size_t(*side.params[i].copyOf)];
    }
  for (size_t i = 0; i < side.params.size(); ++i)
    if (where = "params[" + number(int64_t(i)) + "]";
        side.params[i].slotOf && !checkPart(i))
      return false;
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
  if (!g.slotBegins.empty() || !g.slots.empty())
    return checkSlots();
  if (side.numExperts < 0 || side.numExperts % g.ep != 0)
    return fail("numExperts is " + number(side.numExperts) +
                ", not divisible by ep of size " + number(g.ep));
  return true;
}

/// Every expert must have a slot, in every layer.
bool SideChecker::checkSlots() {
  const Geometry &g = side.geometry;
  if (side.engine.empty())
    return fail("has slots, which are an engine's");
  if (int64_t(g.slotBegins.size()) != g.ep + 1 || g.slotBegins.front() != 0 ||
      !std::is_sorted(g.slotBegins.begin(), g.slotBegins.end()))
    return fail("slotBegins " + toText(g.slotBegins) +
                " must ascend from 0, one more than ep of size " +
                number(g.ep));
  if (g.slots.size() != 1 && int64_t(g.slots.size()) != side.numLayers)
    return fail("slots has " + number(int64_t(g.slots.size())) +
                " tables, required 1 or one for each of " +
                number(side.numLayers) + " layers");
  for (size_t t = 0; t < g.slots.size(); ++t) {
    const std::vector<int64_t> &table = g.slots[t];
    const std::string name = "slots[" + number(int64_t(t)) + "]";
    if (int64_t(table.size()) != g.slotBegins.back())
      return fail(name + " has " + number(int64_t(table.size())) +
                  " slots, slotBegins ends with " +
                  number(g.slotBegins.back()));
    std::vector<bool> met(size_t(std::max<int64_t>(side.numExperts, 0)));
    for (const int64_t expert : table) {
      if (expert < 0 || expert >= side.numExperts)
        return fail(name + " has expert " + number(expert) + " of " +
                    number(side.numExperts));
      met[size_t(expert)] = true;
    }
    const auto missing = std::find(met.begin(), met.end(), false);
    if (missing != met.end())
      return fail(name + " has no slot for expert " +
                  number(missing - met.begin()));
  }
  return true;
}

/// What only an engine's parameters have.
bool SideChecker::checkForm(const Param &param) {
  const bool isPlain = !param.stack && !param.extra && !param.slotOf &&
                       param.form.empty() && param.view.empty();
  if (side.engine.empty())
    return isPlain ? true : fail("is held in a way that only engines have");
  if (param.stack && !param.expert)
    return fail("stacks experts and is no expert's");
  if (param.expert && !param.stack && !side.geometry.slots.empty())
    return fail("is an expert's; an engine with slots stacks them");
  if (param.extra < 0 || (param.extra && !param.stack))
    return fail("has " + number(param.extra) + " extra slots" +
                (param.stack ? "" : " and is not stacked"));
  if (!param.form.empty() && param.form != "neg_exp" && param.form != "add_one")
    return fail("form \"" + param.form +
                "\" is neither \"neg_exp\" nor \"add_one\"");
  if (!param.form.empty() && param.dtype == "i64")
    return fail("form \"" + param.form + "\" is for numbers, not for i64");
  std::vector<int64_t> sorted = param.view;
  std::vector<int64_t> all(param.shape.size() + size_t(param.stack));
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  if (!param.view.empty() && sorted != all)
    return fail("view " + toText(param.view) + " is none of " +
                number(int64_t(all.size())) + " dimensions");
  return true;
}

/// A parameter in an extra slot fills it, wherever that exists.
bool SideChecker::checkPart(size_t index) {
  const Param &param = side.params[index];
  const int64_t of = *param.slotOf;
  if (of < 0 || of >= int64_t(side.params.size()) ||
      !side.params[size_t(of)].stack)
    return fail("slotOf " + number(of) + " is not a stacked parameter");
  const Param &stack = side.params[size_t(of)];
  if (param.slot < 0 || param.slot >= stack.extra)
    return fail("slot " + number(param.slot) + " is outside the " +
                number(stack.extra) + " extra ones of params[" + number(of) +
                "]");
  if (param.stack || param.expert || param.copyOf || !param.view.empty())
    return fail("lies in a slot and is a stack, an expert's, a copy or viewed");
  if (param.dtype != stack.dtype || param.layers != stack.layers ||
      shardShape(param.shape, splits[index]) !=
          shardShape(stack.shape, splits[size_t(of)]))
    return fail("differs from params[" + number(of) +
                "], in a slot of which it lies, in dtype, layers or the shape "
                "of a shard");
  for (size_t i = 0; i < index; ++i)
    if (side.params[i].slotOf == of && side.params[i].slot == param.slot)
      return fail("lies in the slot of params[" + number(int64_t(i)) + "]");
  return true;
}

bool SideChecker::checkParam(size_t index) {
  const Param &param = side.params[index];
  if (param.names.empty() && !param.slotOf)
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
  if (!checkForm(param))
    return false;
  if (param.copyOf)
    return true;
  ValueFacts facts;
  facts.shape = param.shape;
  facts.dtype = facts.heldDtype = param.dtype;
  facts.domain = {param.layers, param.expert};
  if (param.layers.empty())
    facts.domain.layers = {kNone};
  facts.param = int64_t(index);
  facts.form = param.form;
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
  if (param.stack || original.stack || original.slotOf ||
      param.form != original.form || param.view != original.view)
    return fail("repeats params[" + number(of) +
                "] and has slots, or another form or view");
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
