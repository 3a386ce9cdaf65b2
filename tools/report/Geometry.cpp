//===- Geometry.cpp - Axes, layers, experts, tensors by kind --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/Html.h"
#include "tools/report/Sections.h"

#include <map>

using namespace delta;
using namespace delta::report;

namespace {

/// Layers that hold the same tensors: one letter.
class Kinds {
public:
  explicit Kinds(const View &view) : view(view) {
    std::vector<std::vector<uint32_t>> ofLayer(view.plan.hf.layers.size());
    for (uint32_t kind = 0; kind < view.plan.layerKinds.size(); ++kind)
      for (uint32_t layer : view.plan.layerKinds[kind])
        ofLayer[layer].push_back(kind);
    std::map<std::vector<uint32_t>, uint32_t> known;
    for (const std::vector<uint32_t> &signature : ofLayer) {
      auto [entry, isNew] =
          known.try_emplace(signature, uint32_t(signatures.size()));
      if (isNew) {
        signatures.push_back(signature);
        layers.emplace_back();
      }
      layers[entry->second].push_back(uint32_t(numberOf.size()));
      numberOf.push_back(entry->second);
    }
  }

  /// Tensors by kind, with what lies outside the layers.
  std::string table() const {
    std::string out =
        "<div class=\"scroll\"><table class=\"numbers\">\n<thead>" +
        tableRow({"tensors by kind", "layers", "tensors a layer",
                  "elements a layer", "tensors", "elements"},
                 "th") +
        "</thead>\n<tbody>\n";
    int64_t all = 0, sum = 0;
    auto row = [&](const std::string &name, const std::string &where,
                   int64_t times, int64_t tensors, int64_t elements) {
      out += tableRow({name, where, grouped(tensors), grouped(elements),
                       grouped(times * tensors), grouped(times * elements)});
      all += times * tensors;
      sum += times * elements;
    };
    for (uint32_t kind = 0; kind < signatures.size(); ++kind) {
      auto [tensors, elements] = sizes(signatures[kind], false);
      row(chip(kind, letterOf(kind)), rangesText(layers[kind]),
          int64_t(layers[kind].size()), tensors, elements);
    }
    auto [tensors, elements] = sizes({}, true);
    row("outside layers", "", 1, tensors, elements);
    return out + "</tbody><tfoot>" +
           tableRow({"all", "", "", "", grouped(all), grouped(sum)}) +
           "</tfoot></table></div>\n";
  }

  std::string layerChip(uint32_t layer) const {
    return chip(numberOf[layer], std::to_string(layer));
  }

private:
  static std::string chip(uint32_t kind, const std::string &text) {
    return "<span class=\"chip k" + std::to_string(kind % 8) + "\">" + text +
           "</span>";
  }

  /// Tensors and elements of a layer of these kinds, or outside layers.
  std::pair<int64_t, int64_t> sizes(const std::vector<uint32_t> &kinds,
                                    bool outside) const {
    int64_t tensors = 0, elements = 0;
    for (const LoweredClass &lowered : view.plan.hf.classes) {
      const delta_class_t &type = lowered.row;
      if (type.copy_of != DELTA_NONE)
        continue;
      bool counts = outside && type.layer_kind == DELTA_NONE;
      for (uint32_t kind : kinds)
        counts |= kind == type.layer_kind;
      if (!counts)
        continue;
      int64_t each = view.numInstances(type) / view.numLayers(type);
      tensors += each;
      elements += each * runtime::numElements(type);
    }
    return {tensors, elements};
  }

  const View &view;
  std::vector<std::vector<uint32_t>> signatures;
  std::vector<std::vector<uint32_t>> layers;
  std::vector<uint32_t> numberOf;
};

} // namespace

static std::string axesRow(const std::string &name, const delta_side_t &side) {
  std::vector<std::string> cells = {name};
  for (uint32_t size : {side.tp, side.cp, side.dp, side.pp, side.vpp, side.etp,
                        side.ep, side.edp, side.replicas})
    cells.push_back(size == 1 ? "<span class=\"one\">1</span>"
                              : std::to_string(size));
  cells.push_back(grouped(int64_t(side.replicas) * side.ranks_per_replica));
  return tableRow(cells);
}

static std::string axes(const View &view) {
  std::string out = "<div class=\"scroll\"><table class=\"numbers\">\n<thead>" +
                    tableRow({"", "tp", "cp", "dp", "pp", "vpp", "etp", "ep",
                              "edp", "replicas", "ranks"},
                             "th") +
                    "</thead>\n<tbody>\n" +
                    axesRow("trainer", view.plan.source.row);
  if (view.plan.destinationIsHf)
    out += "<tr><td>receiver</td><td colspan=\"8\">whole tensors</td><td>" +
           std::to_string(view.plan.destination.row.replicas) + "</td><td>" +
           std::to_string(view.plan.destination.row.replicas) + "</td></tr>\n";
  else
    out += axesRow("receiver", view.plan.destination.row);
  return out + "</tbody></table></div>\n";
}

/// Which layers are on which stage and chunk.
static std::string placement(const std::string &title, const LoweredSide &side,
                             const Kinds &kinds) {
  const delta_side_t &row = side.row;
  std::string out = "<h3>" + title +
                    "</h3>\n<div class=\"scroll\">"
                    "<table class=\"placement\">\n<thead><tr><th></th>";
  for (uint32_t chunk = 0; chunk < row.vpp; ++chunk)
    out += "<th>chunk " + std::to_string(chunk) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (uint32_t stage = 0; stage < row.pp; ++stage) {
    out += "<tr><th>stage " + std::to_string(stage) + "</th>";
    for (uint32_t chunk = 0; chunk < row.vpp; ++chunk) {
      std::vector<uint32_t> here;
      std::string chips;
      for (uint32_t layer = 0; layer < side.layers.size(); ++layer)
        if (side.layers[layer].stage == stage &&
            side.layers[layer].chunk == chunk) {
          here.push_back(layer);
          chips += kinds.layerChip(layer);
        }
      out += "<td><div class=\"count\">" +
             (here.empty() ? std::string("no layer")
                           : counted(int64_t(here.size()), "layer") + ": " +
                                 rangesText(here)) +
             "</div>" + chips + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

static std::string experts(const std::string &title, const LoweredSide &side) {
  if (side.experts.empty())
    return "";
  std::vector<std::vector<uint32_t>> ofRank(side.row.ep);
  for (uint32_t expert = 0; expert < side.experts.size(); ++expert)
    ofRank[side.experts[expert].ep].push_back(expert);
  std::string out = "<h3>" + title + "</h3>\n<ul class=\"experts\">\n";
  for (uint32_t ep = 0; ep < side.row.ep; ++ep)
    out += "<li><b>ep " + std::to_string(ep) + "</b> " +
           rangesText(ofRank[ep]) + "</li>\n";
  return out + "</ul>\n";
}

/// The experts of each rank of an engine, in the order of its slots.
static std::string slots(const LoweredSlots &slots) {
  std::string out = "<h3>Expert slots of the receiver</h3>\n";
  if (slots.tables.size() > 1)
    out += "<p class=\"also\">of layer 0; each layer has a table of its own"
           "</p>\n";
  out += "<ul class=\"experts\">\n";
  auto table = slots.tables[0].begin();
  for (size_t ep = 0; ep + 1 < slots.first.size(); ++ep)
    out += "<li><b>ep " + std::to_string(ep) + "</b> " +
           rangesText({table + slots.first[ep], table + slots.first[ep + 1]}) +
           "</li>\n";
  return out + "</ul>\n";
}

std::string report::geometrySection(const View &view) {
  const LoweredPlan &plan = view.plan;
  Kinds kinds(view);
  std::string out = "<section id=\"geometry\">\n<h2>Geometry</h2>\n" +
                    axes(view) + kinds.table();
  if (!plan.source.layers.empty())
    out += placement("Layers of the trainer", plan.source, kinds);
  out += experts("Experts of the trainer", plan.source);
  if (!plan.destinationIsHf) {
    if (!plan.destination.layers.empty())
      out += placement("Layers of the receiver", plan.destination, kinds);
    out += plan.slots.first.empty()
               ? experts("Experts of the receiver", plan.destination)
               : slots(plan.slots);
  }
  return out + "</section>\n";
}
