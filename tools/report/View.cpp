//===- View.cpp - A plan with what its page asks of it --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/View.h"

#include <algorithm>
#include <map>
#include <set>

using namespace delta;
using namespace delta::report;

/// More sections than this are not told apart.
constexpr size_t maxSections = 8;

std::string report::letterOf(uint32_t section) {
  std::string text(1, char('a' + section % 26));
  return section < 26 ? text : text + std::to_string(section / 26);
}

View::View(const LoweredPlan &plan, const Facts &facts)
    : plan(plan), facts(facts), tables(plan),
      source(tables.tables(), DELTA_SOURCE),
      destination(tables.tables(), DELTA_DESTINATION),
      piecesOfClass(plan.source.classes.size()),
      piecesOfTensor(plan.hf.classes.size()),
      sectionsOfClass(plan.source.classes.size()) {
  for (uint32_t i = 0; i < plan.boxes.size(); ++i) {
    const LoweredBox &box = plan.boxes[i];
    int loop = -1;
    if (!isReordered(box, loop) || box.row.extent[loop] > int64_t(maxSections))
      loop = -1;
    int64_t steps = loop < 0 ? 1 : box.row.extent[loop];
    for (int64_t step = 0; step < steps; ++step) {
      piecesOfClass[box.row.source_class].push_back(uint32_t(pieces.size()));
      piecesOfTensor[box.hfImage.class_index].push_back(
          uint32_t(pieces.size()));
      pieces.push_back({i, /*section=*/0, loop, step});
    }
  }
  for (uint32_t i = 0; i < piecesOfClass.size(); ++i)
    findSections(i);
}

/// Steps of one loop lie one after the other in the shard and alternate in the
/// tensor, or the other way round.
bool View::isReordered(const LoweredBox &box, int &outSmallest) const {
  const delta_box_t &row = box.row;
  int64_t from = columnsOf(plan.source.classes[row.source_class].row);
  int64_t to = columnsOf(plan.hf.classes[box.hfImage.class_index].row);
  const int64_t *here = row.source_stride, *there = box.hfImage.stride;
  auto isRow = [](int64_t stride, int64_t columns) {
    return stride % columns == 0;
  };
  outSmallest = -1;
  for (uint32_t i = 0; i < row.num_loops; ++i)
    for (uint32_t j = 0; j < row.num_loops; ++j)
      if (row.extent[i] > 1 && row.extent[j] >= row.extent[i] &&
          isRow(here[i], from) == isRow(here[j], from) &&
          isRow(there[i], to) == isRow(there[j], to) &&
          (here[i] < here[j]) != (there[i] < there[j]) &&
          (outSmallest < 0 || row.extent[i] < row.extent[outSmallest]))
        outSmallest = int(i);
  return outSmallest >= 0;
}

/// Does `next` lie on from `piece` in the shard as it does in the tensor? Then
/// only a cut of the receivers is between them.
bool View::continues(const Piece &next, const Piece &piece) const {
  auto placeOf = [&](const Piece &of, bool inTensor) {
    const LoweredBox &box = plan.boxes[of.box];
    return inTensor ? imageElements(box.row, box.hfImage, of)
                    : sourceElements(box.row, of);
  };
  Strided here = placeOf(piece, false), there = placeOf(piece, true);
  int64_t moved = placeOf(next, false).offset - here.offset;
  int64_t movedThere = placeOf(next, true).offset - there.offset;
  for (size_t i = 0; i < here.loops.size(); ++i) {
    int64_t stride = here.loops[i].stride;
    if (here.loops[i].extent > 1 && moved % stride == 0 &&
        moved / stride * there.loops[i].stride == movedThere)
      return true;
  }
  return false;
}

/// Pieces in the order of the shard, so that the same section of two ways has
/// the same number among those of its tensor.
void View::findSections(uint32_t classIndex) {
  std::vector<uint32_t> order = piecesOfClass[classIndex];
  auto begins = [&](uint32_t piece) {
    return sourceElements(plan.boxes[pieces[piece].box].row, pieces[piece])
        .offset;
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    int64_t atA = begins(a), atB = begins(b);
    return atA != atB ? atA < atB : a < b;
  });
  // A section of one way: its pieces.
  using Group = std::vector<uint32_t>;
  std::vector<uint32_t> tensors; // in the order of the first shard
  std::map<uint32_t, std::map<uint32_t, std::vector<Group>>> byTensorAndWay;
  for (uint32_t i : order) {
    const LoweredBox &box = plan.boxes[pieces[i].box];
    uint32_t tensor = box.hfImage.class_index;
    if (std::find(tensors.begin(), tensors.end(), tensor) == tensors.end())
      tensors.push_back(tensor);
    std::vector<Group> &groups = byTensorAndWay[tensor][box.row.source_way];
    auto known =
        std::find_if(groups.begin(), groups.end(), [&](const Group &group) {
          return continues(pieces[i], pieces[group.back()]);
        });
    if (known == groups.end())
      groups.push_back({i});
    else
      known->push_back(i);
  }
  std::vector<Section> &sections = sectionsOfClass[classIndex];
  for (uint32_t tensor : tensors) {
    const auto &ways = byTensorAndWay[tensor];
    size_t count = ways.begin()->second.size();
    bool isEven = ways.size() == plan.source.classes[classIndex].row.ways &&
                  sections.size() + count <= maxSections;
    for (const auto &[way, groups] : ways)
      isEven &= groups.size() == count;
    for (const auto &[way, groups] : ways)
      for (size_t i = 0; i < groups.size(); ++i)
        for (uint32_t piece : groups[i])
          pieces[piece].section = uint32_t(sections.size() + (isEven ? i : 0));
    for (uint32_t i = 0; i < (isEven ? count : 1); ++i)
      sections.push_back({tensor, i, isEven ? uint32_t(count) : 1});
  }
}

std::vector<uint32_t> View::receiversOf(uint32_t sourceClass) const {
  std::set<uint32_t> classes;
  if (!plan.destinationIsHf)
    for (uint32_t piece : piecesOfClass[sourceClass])
      for (const delta_image_t &image : plan.boxes[pieces[piece].box].images)
        classes.insert(image.class_index);
  return {classes.begin(), classes.end()};
}

/// Sizes of a class in the order of memory; of stacked experts those of one.
static std::vector<int64_t> sizesOf(const delta_class_t &type) {
  std::vector<int64_t> sizes;
  for (uint32_t i = type.expert_stride != 0; i < type.rank; ++i)
    sizes.push_back(type.shape[type.order ? type.order >> 4 * i & 15 : i]);
  return sizes;
}

int64_t report::rowsOf(const delta_class_t &type) {
  std::vector<int64_t> sizes = sizesOf(type);
  int64_t rows = 1;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (i + 1 < sizes.size() || i == 0)
      rows *= sizes[i];
  return rows;
}

int64_t report::columnsOf(const delta_class_t &type) {
  std::vector<int64_t> sizes = sizesOf(type);
  return sizes.size() > 1 ? sizes.back() : 1;
}

static Strided elementsOf(const delta_box_t &box, int64_t offset,
                          const int64_t *strides, const Piece &piece) {
  Strided out = {offset, {}};
  for (uint32_t i = 0; i < box.num_loops; ++i)
    if (int(i) == piece.loop)
      out.offset += piece.step * strides[i];
    else
      out.loops.push_back({box.extent[i], strides[i]});
  return out;
}

Strided report::sourceElements(const delta_box_t &box, const Piece &piece) {
  return elementsOf(box, box.source_offset, box.source_stride, piece);
}

Strided report::imageElements(const delta_box_t &box,
                              const delta_image_t &image, const Piece &piece) {
  return elementsOf(box, image.offset, image.stride, piece);
}

std::string report::shapeOf(const delta_class_t &type) {
  std::string text = "[";
  for (uint32_t i = 0; i < type.rank; ++i)
    text += (i ? "\u00a0\u00d7\u00a0" : "") + std::to_string(type.shape[i]);
  return text + "]";
}

std::string report::axisName(delta_axis_t axis) {
  return axis == DELTA_AXIS_TP      ? "tp"
         : axis == DELTA_AXIS_ETP   ? "etp"
         : axis == DELTA_AXIS_STAGE ? "all ranks of a stage"
                                    : "no axis";
}
