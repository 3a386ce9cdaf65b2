//===- BigPlan.h - A plan of one huge parameter -----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Tables of one class on one rank, and address space without memory behind it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_RUNTIME_BIGPLAN_H
#define DELTA_TEST_UNIT_RUNTIME_BIGPLAN_H

#include "codegen/device/IndexFunctions.h"
#include "runtime/delta_abi.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

namespace delta::test {

/// Address space that reads as zeros.
class Sparse {
public:
  explicit Sparse(uint64_t numBytes) : numBytes(numBytes) {
    bytes = mmap(nullptr, numBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~Sparse() {
    if (isMapped())
      munmap(bytes, numBytes);
  }
  Sparse(const Sparse &) = delete;

  bool isMapped() const { return bytes != MAP_FAILED; }
  template <typename T> T *as() const { return static_cast<T *>(bytes); }

private:
  void *bytes;
  uint64_t numBytes;
};

constexpr int64_t Rows = 5;
/// More than 2^31, odd, so that no row begins like another.
constexpr int64_t Columns = (int64_t(1) << 31) + 77;

/// Tables of one class of [Rows, Columns] on one rank, with the tensors as
/// destination.
class BigPlan {
public:
  explicit BigPlan(delta_dtype_t dtype, int64_t rows = Rows,
                   int64_t columns = Columns) {
    type.num_names = 1;
    type.dtype = dtype;
    type.rank = 2;
    std::fill(type.shape, type.shape + DELTA_MAX_RANK, 1);
    type.shape[0] = rows;
    type.shape[1] = columns;
    type.layer_kind = DELTA_NONE;
    type.ways = 1;
    type.copy_of = DELTA_NONE;
    type.part_of = DELTA_NONE;
    for (delta_side_t *side :
         {&tables.source, &tables.destination, &tables.hf}) {
      side->tp = side->cp = side->dp = side->ep = side->etp = side->edp = 1;
      side->pp = side->vpp = side->replicas = side->ranks_per_replica = 1;
      side->num_classes = side->num_names = 1;
      side->classes = &type;
      side->names = &name;
    }
    tables.size = sizeof(tables);
    tables.abi_version = DELTA_ABI_VERSION;
    tables.destination_is_hf = 1;
  }

  /// A box with the same strides on both sides, shifted by `shift` elements.
  void addBox(int64_t offset, int64_t shift, std::vector<int64_t> extents,
              std::vector<int64_t> strides, uint32_t tileRuns,
              uint32_t tileColumns) {
    delta_box_t box = {};
    delta_image_t image = {};
    box.num_loops = uint32_t(extents.size());
    box.source_offset = offset;
    image.way_end = 1;
    image.offset = offset + shift;
    for (size_t loop = 0; loop < extents.size(); ++loop) {
      box.extent[loop] = extents[loop];
      box.source_stride[loop] = image.stride[loop] = strides[loop];
    }
    box.tile_runs = tileRuns;
    box.tile_columns = tileColumns;
    box.num_tiles = (device::numRuns(box) + tileRuns - 1) / tileRuns *
                    ((device::numColumns(box) + tileColumns - 1) / tileColumns);
    box.first_image = box.hf_image = uint32_t(images.size());
    box.num_images = 1;
    boxes.push_back(box);
    images.push_back(image);
    tables.boxes = boxes.data();
    tables.images = images.data();
    tables.num_boxes = tables.num_images = uint32_t(boxes.size());
  }

  delta_param_t param(void *data) const {
    delta_param_t out = {};
    out.name = name;
    out.dtype = type.dtype;
    out.rank = 2;
    out.shape[0] = type.shape[0];
    out.shape[1] = out.stride[0] = type.shape[1];
    out.stride[1] = 1;
    out.data = data;
    return out;
  }

  const delta_tables_t &getTables() const { return tables; }
  const delta_box_t &getBox(size_t i = 0) const { return boxes[i]; }
  const delta_image_t &getImage(size_t i = 0) const { return images[i]; }
  delta_tables_t tables = {};
  delta_class_t type = {};

private:
  const char *name = "w";
  std::vector<delta_box_t> boxes;
  std::vector<delta_image_t> images;
};

} // namespace delta::test

#endif // DELTA_TEST_UNIT_RUNTIME_BIGPLAN_H
