//===- SideChecker.cpp - Do the records of a side fit? --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The rules of Program.h on geometries and parameters. OpChecker.cpp has the
/// others.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/SideChecker.h"

#include <algorithm>
#include <numeric>

namespace delta::reference {

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

} // namespace delta::reference
