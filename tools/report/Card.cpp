//===- Card.cpp - A class with its shards and tensors ---------------------===//
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

/// Ways whose parts are listed.
constexpr uint32_t listedWays = 8;

namespace {

class Card {
public:
  Card(const View &view, uint32_t index)
      : view(view), index(index), lowered(view.plan.source.classes[index]),
        type(lowered.row), sections(view.sectionsOfClass[index]) {}

  std::string run() {
    std::string number = std::to_string(index);
    out = "<section class=\"card\" id=\"class-" + number + "\" data-class=\"" +
          number + "\">\n<h3>" + codeText(lowered.names[0]) + "</h3>\n";
    if (lowered.names.size() > 1) {
      out += "<p class=\"also\">or ";
      for (size_t i = 1; i < lowered.names.size(); ++i)
        out += (i > 1 ? ", " : "") + codeText(lowered.names[i]);
      out += "</p>\n";
    }
    printFacts();
    if (type.copy_of == DELTA_NONE) {
      printLegend();
      out += drawings(view, index);
      printDrops();
      printParts();
    }
    return out + "</section>\n";
  }

private:
  void fact(const std::string &text) { out += "<li>" + text + "</li>\n"; }

  void printFacts() {
    out += "<ul class=\"facts\">\n";
    fact(runtime::dtypeName(type.dtype) + " <b>" + shapeOf(type) +
         "</b> on a rank");
    if (type.ways > 1)
      fact("cut over " + axisName(type.axis) + " into <b>" +
           counted(type.ways, "way") + "</b>");
    else
      fact("not cut");
    if (type.layer_kind == DELTA_NONE)
      fact("outside layers, stage " + std::to_string(type.stage));
    else
      fact(counted(view.numLayers(type), "layer") + ": " +
           rangesText(view.plan.layerKinds[type.layer_kind]));
    if (type.num_experts != 0)
      fact(counted(type.num_experts, "expert") + ", " +
           std::to_string(view.plan.source.row.ep) + " ep ranks, " +
           (type.expert_stride ? "stacked" : "a parameter each"));
    if (type.copy_of != DELTA_NONE)
      fact("<b>copy</b> of <a href=\"#class-" + std::to_string(type.copy_of) +
           "\">" + escape(view.plan.source.classes[type.copy_of].names[0]) +
           "</a>: bound and received, never sent");
    else
      fact(holders());
    out += "</ul>\n";
  }

  /// Ranks of a stage that hold the same shard; they take its tiles in turn.
  std::string holders() const {
    runtime::Coordinates first = view.source.coordinates(0);
    int64_t count = 0;
    for (uint32_t i = 0; i < view.source.getRanksPerStage(); ++i) {
      runtime::Coordinates at = view.source.coordinates(i);
      count += view.source.wayOf(type, at) == view.source.wayOf(type, first) &&
               (type.num_experts == 0 || at.ep == first.ep);
    }
    if (count == 1)
      return "one owner a shard";
    return "held <b>" + std::to_string(count) +
           "-fold</b>; its holders share out the sending, one owner a tile";
  }

  std::string sectionName(uint32_t section) const {
    const Section &s = sections[section];
    std::string text = shortName(view.plan.hf.classes[s.tensor].names[0]);
    if (s.count > 1)
      text += ", part " + std::to_string(s.index + 1) + " of " +
              std::to_string(s.count);
    return text;
  }

  void printLegend() {
    bool drops = false;
    for (const Drop &drop : view.facts.sourceDrops)
      drops |= drop.classIndex == index;
    for (uint32_t receiver : view.receiversOf(index))
      for (const Drop &drop : view.facts.destinationDrops)
        drops |= drop.classIndex == receiver;
    if (sections.size() <= 1 && !drops)
      return;
    out += "<ul class=\"legend\">\n";
    for (uint32_t i = 0; i < sections.size(); ++i)
      out += "<li><svg class=\"key\" width=\"18\" height=\"14\" "
             "aria-hidden=\"true\"><rect class=\"ink s" +
             std::to_string(i) + "\" width=\"18\" height=\"14\"/></svg><b>" +
             letterOf(i) + "</b> " + escape(sectionName(i)) + "</li>\n";
    if (drops)
      out += "<li><svg class=\"key\" width=\"18\" height=\"14\" "
             "aria-hidden=\"true\"><rect class=\"drop\" width=\"18\" "
             "height=\"14\"/></svg>left out</li>\n";
    out += "</ul>\n";
  }

  void printDrops() {
    for (const Drop &drop : view.facts.sourceDrops) {
      if (drop.classIndex != index)
        continue;
      // Ways that lose the same are told together.
      std::vector<std::string> texts;
      std::vector<std::vector<uint32_t>> ways;
      for (const Drop::Part &part : drop.parts) {
        std::string text = where(part.elements, type) + " (" +
                           counted(part.elements.numElements(), "element") +
                           ")";
        if (texts.empty() || texts.back() != text) {
          texts.push_back(text);
          ways.emplace_back();
        }
        ways.back().push_back(part.way);
      }
      out +=
          "<p class=\"dropped\">Left out, <b>" + escape(drop.reason) + "</b>: ";
      for (size_t i = 0; i < texts.size(); ++i) {
        if (i == listedWays) {
          out += "; \u2026";
          break;
        }
        out += std::string(i ? "; " : "") +
               (ways[i].size() == 1 ? "way " : "each of ways ") +
               rangesText(ways[i]) + ": " + texts[i];
      }
      out += "</p>\n";
    }
  }

  /// "rows 0-95" or "rows 0-95, columns 3-4".
  static std::string where(const Strided &elements, const delta_class_t &of) {
    std::vector<std::string> words = cells(elements, of);
    if (words[0] == "all" && words[1] == "all")
      return "all of it";
    std::string text = "rows " + words[0];
    return words[1] == "all" ? text : text + ", columns " + words[1];
  }

  /// Rows and columns in words.
  static std::vector<std::string> cells(const Strided &elements,
                                        const delta_class_t &of) {
    std::vector<Region> regions = regionsOf(elements, columnsOf(of));
    if (regions.empty())
      return {"too many pieces to list", ""};
    std::string rows, columns;
    for (size_t i = 0; i < regions.size() && i < 3; ++i) {
      std::string separator = i ? "; " : "";
      rows += separator + inWords(regions[i].rows, rowsOf(of));
      columns += separator + inWords(regions[i].columns, columnsOf(of));
    }
    if (regions.size() > 3)
      rows += "; \u2026";
    return {rows, columns};
  }

  void printParts() {
    const std::vector<uint32_t> &pieces = view.piecesOfClass[index];
    out += "<details class=\"boxes\"" +
           std::string(pieces.size() > 1 && pieces.size() <= 6 ? " open" : "") +
           "><summary>" + counted(int64_t(pieces.size()), "part") +
           "</summary>\n<div class=\"scroll\"><table>\n<thead>" +
           tableRow({"part", "way", "shard rows", "columns", "tensor", "rows",
                     "columns", "elements", ""},
                    "th") +
           "</thead>\n<tbody>\n";
    for (uint32_t i : pieces) {
      const Piece &piece = view.pieces[i];
      const LoweredBox &box = view.plan.boxes[piece.box];
      if (box.row.source_way >= listedWays &&
          box.row.source_way + 1 != type.ways)
        continue;
      const LoweredClass &to = view.plan.hf.classes[box.hfImage.class_index];
      std::vector<std::string> from =
          cells(sourceElements(box.row, piece), type);
      std::vector<std::string> into =
          cells(imageElements(box.row, box.hfImage, piece), to.row);
      out += tableRow(
          {letterOf(piece.section), std::to_string(box.row.source_way), from[0],
           from[1], codeText(shortName(to.names[0])), into[0], into[1],
           grouped(sourceElements(box.row, piece).numElements()),
           changesOf(view, box)},
          "td", " data-w=\"" + std::to_string(box.row.source_way) + "\"");
    }
    out += "</tbody></table></div>\n";
    if (type.ways > listedWays + 1)
      out += "<p class=\"also\">Listed: the first " +
             std::to_string(listedWays) +
             " ways and the last one. The drawings show all.</p>\n";
    out += "</details>\n";
  }

  const View &view;
  uint32_t index;
  const LoweredClass &lowered;
  const delta_class_t &type;
  const std::vector<Section> &sections;
  std::string out;
};

} // namespace

std::string report::classCard(const View &view, uint32_t classIndex) {
  return Card(view, classIndex).run();
}

/// Rows of the shard run along columns of the tensor.
static bool isTransposed(const View &view, const LoweredBox &box) {
  int64_t from = columnsOf(view.plan.source.classes[box.row.source_class].row);
  int64_t to = columnsOf(view.plan.hf.classes[box.hfImage.class_index].row);
  if (from == 1 || to == 1)
    return false;
  for (uint32_t i = 0; i < box.row.num_loops; ++i)
    if (box.row.extent[i] > 1 && box.row.source_stride[i] % from == 0 &&
        box.hfImage.stride[i] < to)
      return true;
  return false;
}

std::string report::changesOf(const View &view, const LoweredBox &box) {
  std::string text;
  auto add = [&](const std::string &change) {
    text += (text.empty() ? "" : ", ") + change;
  };
  int loop;
  if (isTransposed(view, box))
    add("transposed");
  if (view.isReordered(box, loop))
    add("reordered");
  // An engine's places say more than the tensor's.
  delta_value_op_t op = box.hfImage.value_op;
  if (!box.images.empty())
    op |= box.images[0].value_op;
  if (op & DELTA_VALUE_ADD_ONE)
    add("values + 1");
  if (op & DELTA_VALUE_NEG_EXP)
    add("the receiver holds \u2212exp(value)");
  if (op & DELTA_VALUE_PLUS_ONE)
    add("the receiver holds value + 1");
  if (delta_dtype_t type = DELTA_VALUE_VIA_TYPE(op))
    add("through " + runtime::dtypeName(type));
  return text;
}

std::string report::shortName(const std::string &name) {
  size_t last = name.rfind('.');
  if (last == std::string::npos || last == 0)
    return name;
  size_t before = name.rfind('.', last - 1);
  return before == std::string::npos ? name : name.substr(before + 1);
}
