//===- Shard.cpp - The bound tiles of a source rank -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Shard.h"

#include "codegen/device/IndexFunctions.h"
#include "runtime/Bind.h"

#include <algorithm>

using namespace delta::runtime;

/// Snapshots of rows begin on cache lines.
static constexpr uint64_t RowAlignment = 64;

const delta_host_kernels_t *
delta::runtime::kernelsOf(const delta_kernels_t &kernels, delta_dtype_t from,
                          delta_dtype_t to) {
  uint32_t row = delta_kernel_row(from, to);
  if (row >= DELTA_NUM_KERNELS || kernels.host[row].element_size == 0)
    return nullptr;
  return &kernels.host[row];
}

uint32_t TileRef::numElements() const {
  return device::tileOf(*row->box, boxTile).numElements();
}

Status Shard::create(Expander &expander, const delta_kernels_t &kernels,
                     uint32_t rank, const delta_param_t *params,
                     uint32_t numParams, Shard &out) {
  const delta_tables_t &tables = expander.getTables();
  const Side &side = expander.getSource();
  if (rank >= side.getNumRanks())
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: bind: there are %u source ranks", rank,
                         side.getNumRanks());
  out.expansion = expander.expand(rank);
  for (const Row &row : out.expansion.rows) {
    const delta_box_t &box = tables.boxes[row.box];
    delta_dtype_t dtype = side.getClass(box.source_class).dtype;
    delta_dtype_t sent = expander.sentType(box);
    const delta_host_kernels_t *rowKernels = kernelsOf(kernels, dtype, sent);
    if (!rowKernels)
      return Status::error(DELTA_INTERNAL,
                           "rank %u: bind: no kernels from %s to %s", rank,
                           dtypeName(dtype).c_str(), dtypeName(sent).c_str());
    int64_t before = device::elementsBefore(box, row.tileBegin);
    int64_t count = device::elementsBefore(box, row.tileEnd) - before;
    out.rows.push_back({&box, rowKernels, /*source=*/nullptr,
                        tables.images[box.first_image].value_op, before,
                        out.snapshotBytes});
    out.numElements += uint64_t(count);
    // The first tile of a box is not cut by its ends.
    out.largestTile =
        std::max(out.largestTile, device::tileOf(box, 0).numElements());
    out.largestElement = std::max(out.largestElement, rowKernels->element_size);
    out.snapshotBytes += uint64_t(count) * rowKernels->element_size;
    out.snapshotBytes =
        (out.snapshotBytes + RowAlignment - 1) & ~(RowAlignment - 1);
  }
  Status status = out.rebind(tables, params, numParams);
  if (!status.failed())
    out.snapshot.grow(out.snapshotBytes + RowAlignment);
  return status;
}

Status Shard::rebind(const delta_tables_t &tables, const delta_param_t *params,
                     uint32_t numParams) {
  std::vector<void *> found;
  Status status = bindParams(Side(tables, DELTA_SOURCE), expansion.rank,
                             expansion.params, params, numParams, found);
  if (status.failed())
    return status;
  data = std::move(found);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row &row = expansion.rows[i];
    rows[i].source = static_cast<const uint8_t *>(data[row.param]) +
                     row.expertOffset * rows[i].kernels->source_size;
  }
  return {};
}

uint8_t *Shard::snapshotOf(const TileRef &tile) const {
  uint64_t base = reinterpret_cast<uintptr_t>(snapshot.data());
  uint64_t aligned = (base + RowAlignment - 1) & ~(RowAlignment - 1);
  int64_t element = device::elementsBefore(*tile.row->box, tile.boxTile) -
                    tile.row->elementsBefore;
  return snapshot.data() + (aligned - base) + tile.row->snapshotAt +
         uint64_t(element) * tile.elementSize();
}
