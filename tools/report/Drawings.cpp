//===- Drawings.cpp - Shards, tensors and receivers of a class ------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/Html.h"
#include "tools/report/Picture.h"
#include "tools/report/Sections.h"

#include <algorithm>

using namespace delta;
using namespace delta::report;

/// Shards that are shown at once; the others are behind a click.
constexpr uint32_t openShards = 8;

namespace {

class Drawings {
public:
  Drawings(const View &view, uint32_t index)
      : view(view), index(index), lowered(view.plan.source.classes[index]),
        type(lowered.row), sections(view.sectionsOfClass[index]),
        receiverClasses(view.receiversOf(index)) {}

  std::string run() {
    const std::string arrow =
        "<div class=\"arrow\" aria-hidden=\"true\">\u2192</div>\n";
    findArrays();
    double scale = findScale();
    out = "<div class=\"map\">\n<div class=\"side\"><h4>Trainer shards</h4>\n";
    printShards(shards, scale, "way");
    out +=
        "</div>\n" + arrow + "<div class=\"side\"><h4>Tensors, by way</h4>\n";
    printTensors(scale);
    out += "</div>\n";
    for (size_t i = 0; i < receivers.size(); ++i) {
      const LoweredClass &of =
          view.plan.destination.classes[receiverClasses[i]];
      out += arrow + "<div class=\"side\"><h4>Receiver shards: " +
             codeText(shortName(of.names[0])) + " " + shapeOf(of.row) +
             "</h4>\n";
      printShards(receivers[i], scale, "shard");
      out += "</div>\n";
    }
    return out + "</div>\n";
  }

private:
  static Array arrayOf(const delta_class_t &of) {
    Array array;
    array.numRows = rowsOf(of);
    array.numColumns = columnsOf(of);
    return array;
  }

  static void addDrops(const std::vector<Drop> &drops, uint32_t classIndex,
                       uint32_t way, Array &array) {
    for (const Drop &drop : drops)
      if (drop.classIndex == classIndex)
        for (const Drop::Part &part : drop.parts)
          if (part.way == way)
            array.parts.push_back(
                {Part::Kind::Dropped, way, 0, "", part.elements});
  }

  Array shard(uint32_t way) const {
    Array array = arrayOf(type);
    std::string text = std::to_string(way);
    array.attributes = "data-side=\"s\" data-of=\"" + std::to_string(index) +
                       "\" data-way=\"" + text + "\"";
    array.description = "Shard of way " + text + " of " + lowered.names[0];
    for (uint32_t i : view.piecesOfClass[index]) {
      const Piece &piece = view.pieces[i];
      const LoweredBox &box = view.plan.boxes[piece.box];
      if (box.row.source_way == way)
        array.parts.push_back({Part::Kind::Own, way, piece.section,
                               labelOf(piece, false, sections.size() > 1),
                               sourceElements(box.row, piece)});
    }
    addDrops(view.facts.sourceDrops, index, way, array);
    return array;
  }

  std::string labelOf(const Piece &piece, bool way, bool letter) const {
    uint32_t number = view.plan.boxes[piece.box].row.source_way;
    return (way ? std::to_string(number) : "") +
           (letter ? letterOf(piece.section) : "");
  }

  /// Labels say the way, and the section where there are several.
  void addImage(const Piece &piece, const delta_image_t &image, bool letter,
                Array &array) const {
    const LoweredBox &box = view.plan.boxes[piece.box];
    bool own = box.row.source_class == index;
    array.parts.push_back({own ? Part::Kind::Own : Part::Kind::Foreign,
                           box.row.source_way, piece.section,
                           own ? labelOf(piece, true, letter) : "",
                           imageElements(box.row, image, piece)});
  }

  Array tensor(uint32_t number) const {
    const LoweredClass &of = view.plan.hf.classes[number];
    Array array = arrayOf(of.row);
    array.attributes =
        "data-side=\"t\" data-of=\"" + std::to_string(number) + "\"";
    array.description = "Tensor " + of.names[0] + " by way of the trainer";
    int64_t own = std::count_if(
        sections.begin(), sections.end(),
        [&](const Section &section) { return section.tensor == number; });
    for (uint32_t i : view.piecesOfTensor[number]) {
      const Piece &piece = view.pieces[i];
      addImage(piece, view.plan.boxes[piece.box].hfImage, own > 1, array);
    }
    return array;
  }

  Array receiver(uint32_t number, uint32_t way) const {
    const LoweredClass &of = view.plan.destination.classes[number];
    Array array = arrayOf(of.row);
    std::string text = std::to_string(way);
    array.attributes = "data-side=\"d\" data-of=\"" + std::to_string(number) +
                       "\" data-way=\"" + text + "\"";
    array.description = "Receiver shard " + text + " of " + of.names[0] +
                        " by way of the trainer";
    for (const Piece &piece : view.pieces)
      for (const delta_image_t &image : view.plan.boxes[piece.box].images)
        if (image.class_index == number && image.way_begin <= way &&
            way < image.way_end)
          addImage(piece, image, sections.size() > 1, array);
    addDrops(view.facts.destinationDrops, number, way, array);
    return array;
  }

  static std::string figure(const Array &array, double scale,
                            const std::string &caption) {
    int64_t missing = std::count_if(
        array.parts.begin(), array.parts.end(), [&](const Part &part) {
          return regionsOf(part.elements, array.numColumns).empty();
        });
    std::string note =
        missing == 0 ? ""
                     : ", " + counted(missing, "part") + " too fine to draw";
    return "<figure><figcaption>" + caption + note + "</figcaption>\n" +
           draw(array, scale) + "</figure>\n";
  }

  void printShards(const std::vector<Array> &arrays, double scale,
                   const std::string &word) {
    out += "<div class=\"row\">\n";
    for (uint32_t way = 0; way < arrays.size(); ++way) {
      if (way == openShards)
        out += "</div>\n<details><summary>ways " + std::to_string(way) +
               "\u2013" + std::to_string(arrays.size() - 1) +
               "</summary>\n<div class=\"row\">\n";
      out += figure(arrays[way], scale, word + " " + std::to_string(way));
    }
    out += arrays.size() > openShards ? "</div></details>\n" : "</div>\n";
  }

  void findArrays() {
    for (uint32_t way = 0; way < type.ways; ++way)
      shards.push_back(shard(way));
    for (const Section &section : sections)
      if (std::find(tensorClasses.begin(), tensorClasses.end(),
                    section.tensor) == tensorClasses.end()) {
        tensorClasses.push_back(section.tensor);
        tensors.push_back(tensor(section.tensor));
      }
    for (uint32_t number : receiverClasses) {
      receivers.emplace_back();
      uint32_t ways = view.plan.destination.classes[number].row.ways;
      for (uint32_t way = 0; way < ways; ++way)
        receivers.back().push_back(receiver(number, way));
    }
  }

  double findScale() const {
    std::vector<const Array *> all;
    auto add = [&](const std::vector<Array> &arrays) {
      for (size_t i = 0; i < arrays.size() && i < openShards; ++i)
        all.push_back(&arrays[i]);
    };
    add(shards);
    add(tensors);
    for (const std::vector<Array> &arrays : receivers)
      add(arrays);
    return scaleOf(all);
  }

  void printTensors(double scale) {
    out += "<div class=\"row tensors\">\n";
    for (size_t i = 0; i < tensors.size(); ++i) {
      const LoweredClass &of = view.plan.hf.classes[tensorClasses[i]];
      std::string caption =
          codeText(shortName(of.names[0])) + " " + shapeOf(of.row);
      if (of.row.expert_stride)
        caption += ", one expert of the stack";
      std::string change = changes(tensorClasses[i]);
      if (!change.empty())
        caption += ", <b>" + change + "</b>";
      out += figure(tensors[i], scale, caption);
    }
    out += "</div>\n";
  }

  /// What happens to the first box of this class in a tensor.
  std::string changes(uint32_t tensor) const {
    for (uint32_t i : view.piecesOfClass[index]) {
      const LoweredBox &box = view.plan.boxes[view.pieces[i].box];
      if (box.hfImage.class_index == tensor)
        return changesOf(view, box);
    }
    return "";
  }

  const View &view;
  uint32_t index;
  const LoweredClass &lowered;
  const delta_class_t &type;
  const std::vector<Section> &sections;
  std::vector<uint32_t> tensorClasses, receiverClasses;
  std::vector<Array> shards, tensors;
  std::vector<std::vector<Array>> receivers;
  std::string out;
};

} // namespace

std::string report::drawings(const View &view, uint32_t classIndex) {
  return Drawings(view, classIndex).run();
}
