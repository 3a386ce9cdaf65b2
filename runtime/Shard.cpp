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
#include <numeric>
#include <tuple>

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

/// Expands, and lays the snapshot out in the order of the tiles.
Status Shard::layOut(Expander &expander, const delta_kernels_t &kernels,
                     uint32_t rank) {
  const delta_tables_t &tables = expander.getTables();
  const Side &side = expander.getSource();
  expansion = expander.expand(rank);
  for (const Row &row : expansion.rows) {
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
    rows.push_back({&box, rowKernels, /*source=*/nullptr,
                    tables.images[box.first_image].value_op, before,
                    snapshotBytes, delta_kernel_row(dtype, sent)});
    numElements += uint64_t(count);
    // The first tile of a box is not cut by its ends.
    largestTile = std::max(largestTile, device::tileOf(box, 0).numElements());
    largestElement = std::max(largestElement, rowKernels->element_size);
    snapshotBytes += uint64_t(count) * rowKernels->element_size;
    snapshotBytes = (snapshotBytes + RowAlignment - 1) & ~(RowAlignment - 1);
  }
  return {};
}

Status Shard::create(Expander &expander, const delta_kernels_t &kernels,
                     uint32_t rank, const delta_param_t *params,
                     uint32_t numParams, Shard &out, bool keepsSnapshot) {
  const Side &side = expander.getSource();
  if (rank >= side.getNumRanks())
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: bind: there are %u source ranks", rank,
                         side.getNumRanks());
  Status status = out.layOut(expander, kernels, rank);
  if (!status.failed())
    status = out.rebind(expander.getTables(), params, numParams);
  if (status.failed() || !keepsSnapshot)
    return status;
  out.snapshot.grow(out.snapshotBytes + RowAlignment);
  uint64_t base = reinterpret_cast<uintptr_t>(out.snapshot.data());
  uint64_t aligned = (base + RowAlignment - 1) & ~(RowAlignment - 1);
  out.snapshotBegin = out.snapshot.data() + (aligned - base);
  return {};
}

Status Shard::createLike(const Shard &whole, Expander &expander,
                         const delta_kernels_t &kernels, Shard &out) {
  Status status = out.layOut(expander, kernels, whole.expansion.rank);
  if (status.failed())
    return status;
  out.data = whole.data;
  out.place();
  out.snapshotBegin = whole.snapshotBegin;
  out.snapshotBytes = whole.snapshotBytes;
  std::vector<size_t> places = out.rowsIn(whole);
  for (size_t i = 0; i < out.rows.size(); ++i)
    out.rows[i].snapshotAt = whole.rows[places[i]].snapshotAt;
  return {};
}

/// The box, layer and expert of a row.
static auto identityOf(const Row &row) {
  return std::make_tuple(row.box, row.layer, row.expert);
}

std::vector<size_t> Shard::rowsIn(const Shard &other) const {
  const std::vector<Row> &theirs = other.expansion.rows;
  std::vector<size_t> order(theirs.size()), found;
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return identityOf(theirs[a]) < identityOf(theirs[b]);
  });
  for (const Row &row : expansion.rows)
    found.push_back(*std::lower_bound(order.begin(), order.end(),
                                      identityOf(row),
                                      [&](size_t a, const auto &wanted) {
                                        return identityOf(theirs[a]) < wanted;
                                      }));
  return found;
}

void Shard::place() {
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row &row = expansion.rows[i];
    rows[i].source = static_cast<const uint8_t *>(data[row.param]) +
                     row.expertOffset * rows[i].kernels->source_size;
  }
}

Status Shard::rebind(const delta_tables_t &tables, const delta_param_t *params,
                     uint32_t numParams) {
  std::vector<void *> found;
  Status status = bindParams(Side(tables, DELTA_SOURCE), expansion.rank,
                             expansion.params, params, numParams, found);
  if (status.failed())
    return status;
  data = std::move(found);
  place();
  return {};
}

void Shard::rebind(const std::vector<void *> &before) {
  data = before;
  place();
}

uint8_t *Shard::snapshotOf(const TileRef &tile) const {
  int64_t element = device::elementsBefore(*tile.row->box, tile.boxTile) -
                    tile.row->elementsBefore;
  return snapshotBegin + tile.row->snapshotAt +
         uint64_t(element) * tile.elementSize();
}
