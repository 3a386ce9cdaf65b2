//===- Proof.cpp - What was proved, and what is left out ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/Html.h"
#include "tools/report/Sections.h"

#include <algorithm>

using namespace delta;
using namespace delta::report;

namespace {

struct Counts {
  int64_t classes = 0, ways = 0, parameters = 0, elements = 0, aliases = 0;
};

} // namespace

/// Parameters or tensors, counted once whatever the number of their holders;
/// copies and second names apart.
static Counts count(const View &view, const LoweredSide &side) {
  Counts out;
  for (const LoweredClass &lowered : side.classes) {
    const delta_class_t &type = lowered.row;
    if (type.copy_of != DELTA_NONE) {
      ++out.aliases;
      continue;
    }
    int64_t instances = view.numInstances(type);
    ++out.classes;
    out.ways += type.ways;
    out.parameters += instances;
    out.elements += instances * runtime::numElements(type);
  }
  return out;
}

static int64_t dropped(const LoweredSide &side, const View &view,
                       const std::vector<Drop> &drops) {
  int64_t elements = 0;
  for (const Drop &drop : drops) {
    const delta_class_t &type = side.classes[drop.classIndex].row;
    int64_t instances =
        view.numLayers(type) * std::max<int64_t>(type.num_experts, 1);
    for (const Drop::Part &part : drop.parts)
      elements += instances * part.elements.numElements();
  }
  return elements;
}

static std::string tile(const std::string &key, int64_t number,
                        const std::string &text) {
  return "<div><dt>" + text + "</dt><dd data-count=\"" + key +
         "\" data-value=\"" + std::to_string(number) + "\">" + grouped(number) +
         "</dd></div>\n";
}

static std::string item(bool done, const std::string &text) {
  return std::string("<li class=\"") + (done ? "done" : "open") + "\">" + text +
         "</li>\n";
}

static std::string crossCheckText(const std::optional<CrossCheck> &check) {
  if (!check)
    return item(false, "<b>Cross-check</b> with the interpreter: off");
  std::string text =
      counted(check->elements, "element") + " of " +
      counted(check->tensors, check->isFull ? "tensor" : "sampled box");
  return item(
      true, "<b>Cross-check</b> with the interpreter, " +
                std::string(check->isFull ? "every element: " : "a sample: ") +
                text + " agree");
}

static std::string namesText(const std::optional<int64_t> &tensors) {
  if (!tensors)
    return item(false, "<b>Names</b>: not checked; model.json names no "
                       "checkpoint");
  return item(true, "<b>Names</b>, shapes and types are exactly those of the "
                    "checkpoint\u2019s " +
                        counted(*tensors, "tensor"));
}

std::string report::proofSection(const View &view) {
  const LoweredPlan &plan = view.plan;
  Counts source = count(view, plan.source), hf = count(view, plan.hf);
  std::string out = "<section id=\"proof\">\n<h2>What was proved</h2>\n"
                    "<dl class=\"tiles\">\n";
  out += tile("classes", source.classes, "trainer classes") +
         tile("tensor-classes", hf.classes, "tensor classes") +
         tile("boxes", int64_t(plan.boxes.size()), "boxes") +
         tile("instances", source.parameters, "instances of classes") +
         tile("tensors", hf.parameters, "tensors") +
         tile("elements", hf.elements, "elements") +
         tile("source-ranks", view.source.getNumRanks(), "trainer ranks") +
         tile("receivers", view.destination.getNumRanks(), "receivers");
  out += "</dl>\n<ul class=\"checks\">\n";
  int64_t left = dropped(plan.source, view, view.facts.sourceDrops);
  out += item(true, "<b>Shards.</b> In " +
                        counted(source.ways, "different shard") + " of " +
                        counted(source.classes, "class") +
                        ", every element is in one box, or is left out for a "
                        "reason (" +
                        counted(left, "element") + ")");
  out += item(true, "<b>Tensors.</b> Every one of the " +
                        counted(hf.elements, "element") + " of " +
                        counted(hf.parameters, "tensor") +
                        " has exactly one owner");
  if (!plan.destinationIsHf) {
    Counts to = count(view, plan.destination);
    int64_t padding =
        dropped(plan.destination, view, view.facts.destinationDrops);
    out += item(true, "<b>Receivers.</b> In " +
                          counted(to.ways, "different shard") + " of " +
                          counted(to.classes, "class") +
                          ", every element is written once, or is padding (" +
                          counted(padding, "element") + ")");
  }
  int64_t numExperts = int64_t(plan.source.experts.size());
  out += item(
      true,
      "<b>Instances.</b> " +
          counted(int64_t(plan.source.layers.size()), "layer") +
          (numExperts == 0 ? "" : " and " + counted(numExperts, "expert")) +
          " with one place each");
  out += crossCheckText(view.facts.crossCheck);
  out += namesText(view.facts.checkpointTensors);
  out +=
      "</ul>\n<p class=\"also\">A proof shows that nothing is missed or sent "
      "twice. Whether each part goes where it should is for the drawings "
      "below, and for golden data (<code>delta-check --golden</code>).</p>\n";
  return out + "</section>\n";
}

static std::string dropRows(const View &view, const LoweredSide &side,
                            const std::vector<Drop> &drops, const char *where,
                            bool link) {
  std::string out;
  for (const Drop &drop : drops) {
    int64_t elements = 0;
    std::vector<uint32_t> ways;
    for (const Drop::Part &part : drop.parts) {
      elements += part.elements.numElements();
      if (ways.empty() || ways.back() != part.way)
        ways.push_back(part.way);
    }
    std::string name = codeText(side.classes[drop.classIndex].names[0]);
    if (link)
      name = "<a href=\"#class-" + std::to_string(drop.classIndex) + "\">" +
             name + "</a>";
    out +=
        tableRow({std::string("left out, ") + where, name, escape(drop.reason),
                  counted(elements, "element") + " an instance, of way" +
                      (ways.size() == 1 ? " " : "s ") + rangesText(ways)});
  }
  return out;
}

static std::string copyRows(const LoweredSide &side, const char *what,
                            const char *note) {
  std::string out;
  for (const LoweredClass &lowered : side.classes)
    if (lowered.row.copy_of != DELTA_NONE)
      out += tableRow({what, codeText(lowered.names[0]),
                       "same values as " +
                           codeText(side.classes[lowered.row.copy_of].names[0]),
                       note});
  return out;
}

std::string report::exceptionsSection(const View &view) {
  const LoweredPlan &plan = view.plan;
  std::string rows =
      dropRows(view, plan.source, view.facts.sourceDrops, "trainer", true) +
      dropRows(view, plan.destination, view.facts.destinationDrops, "receiver",
               false) +
      copyRows(plan.source, "copy, trainer", "bound, never sent") +
      copyRows(plan.destination, "copy, receiver", "received as well") +
      copyRows(plan.hf, "second name", "written as well");
  for (size_t i = 0; i < plan.hf.classes.size(); ++i)
    if (view.piecesOfTensor[i].empty() &&
        plan.hf.classes[i].row.copy_of == DELTA_NONE)
      rows += tableRow({"not sent", codeText(plan.hf.classes[i].names[0]),
                        "no trainer class has elements of it", ""});
  std::string out = "<section id=\"exceptions\">\n"
                    "<h2>Left out, copied, named twice</h2>\n";
  if (rows.empty())
    return out + "<p>Nothing: every element of every parameter is sent.</p>\n"
                 "</section>\n";
  return out + "<div class=\"scroll\"><table>\n<thead>" +
         tableRow({"what", "name", "why", "how much"}, "th") +
         "</thead>\n<tbody>\n" + rows + "</tbody></table></div>\n</section>\n";
}
