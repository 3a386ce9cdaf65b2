//===- View.h - A plan with what its page asks of it ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REPORT_VIEW_H
#define DELTA_TOOLS_REPORT_VIEW_H

#include "codegen/Tables.h"
#include "runtime/Side.h"
#include "tools/report/Report.h"

namespace delta::report {

/// A box, or one step of one of its loops: an interleave is one box, and is
/// seen only when its steps are told apart.
struct Piece {
  uint32_t box;
  uint32_t section;
  int loop; ///< -1: all of the box
  int64_t step;
};

/// A part of a class that goes to one tensor by one rule. Where every way has
/// equally many of them for the tensor, each is a section; else all are one.
struct Section {
  uint32_t tensor;
  uint32_t index; ///< of `count` sections of this tensor
  uint32_t count;
};

/// "a", "b", ... "z", "a1", ...
std::string letterOf(uint32_t section);

/// Borrows the plan and the facts.
class View {
public:
  View(const LoweredPlan &plan, const Facts &facts);

  const LoweredPlan &plan;
  const Facts &facts;
  const TableStorage tables;
  const runtime::Side source, destination;

  /// In the order of the boxes.
  std::vector<Piece> pieces;
  std::vector<std::vector<uint32_t>> piecesOfClass, piecesOfTensor;
  std::vector<std::vector<Section>> sectionsOfClass;

  /// Do loops of the box that run along the same dimension change their order?
  /// Then `outSmallest` is the one with the fewest steps.
  bool isReordered(const LoweredBox &box, int &outSmallest) const;

  /// Destination classes that elements of a source class go to, ascending;
  /// none where the destination is the tensors themselves.
  std::vector<uint32_t> receiversOf(uint32_t sourceClass) const;

  int64_t numLayers(const delta_class_t &type) const {
    return type.layer_kind == DELTA_NONE
               ? 1
               : int64_t(plan.layerKinds[type.layer_kind].size());
  }
  /// Parameters or tensors of a class, over all layers and experts.
  int64_t numInstances(const delta_class_t &type) const {
    bool apart = type.num_experts != 0 && type.expert_stride == 0;
    return numLayers(type) * (apart ? type.num_experts : 1);
  }

private:
  bool continues(const Piece &next, const Piece &piece) const;
  void findSections(uint32_t classIndex);
};

/// Rows and columns of a class as it is drawn: one expert of a stack; all
/// dimensions of memory but the last are rows; a vector is a column.
int64_t rowsOf(const delta_class_t &type);
int64_t columnsOf(const delta_class_t &type);

/// The elements of a piece of `box` in its shard, and in the array of an image.
Strided sourceElements(const delta_box_t &box, const Piece &piece);
Strided imageElements(const delta_box_t &box, const delta_image_t &image,
                      const Piece &piece);

/// "[64, 2048]" with multiplication signs.
std::string shapeOf(const delta_class_t &type);

/// "tp", "etp", "all ranks of a stage".
std::string axisName(delta_axis_t axis);

} // namespace delta::report

#endif // DELTA_TOOLS_REPORT_VIEW_H
