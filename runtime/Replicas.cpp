//===- Replicas.cpp - What several trainer ranks hold ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Replicas.h"

#include "codegen/device/IndexFunctions.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <tuple>

using namespace delta::runtime;

template <typename Row> static auto identityOf(const Row &row) {
  return std::make_tuple(row.box, row.layer, row.expert);
}

/// For each class of the source, whether another one copies it.
static std::vector<bool> classesWithCopies(const Side &side) {
  std::vector<bool> copied(side.getTable().num_classes, false);
  for (uint32_t i = 0; i < copied.size(); ++i)
    if (uint32_t owner = side.getClass(i).copy_of; owner != DELTA_NONE)
      copied[owner] = true;
  return copied;
}

std::vector<ReplicaRow> delta::runtime::replicaRows(const Expander &expander,
                                                    uint32_t rank) {
  const Side &side = expander.getSource();
  const Coordinates at = side.coordinates(rank);
  const std::vector<Param> params = side.params(rank);
  const std::vector<bool> copied = classesWithCopies(side);
  std::vector<ReplicaRow> rows;
  for (uint32_t i = 0; i < copied.size(); ++i) {
    const delta_class_t &type = side.getClass(i);
    const uint32_t owner = type.copy_of == DELTA_NONE ? i : type.copy_of;
    if (!copied[owner] && expander.numHolders(type, rank) < 2)
      continue;
    // A copy may live in a layer where its owner does not.
    const bool layered = side.getClass(owner).layer_kind != DELTA_NONE;
    auto [box, end] = expander.boxesOf(owner, side.wayOf(type, at));
    for (; box != end; ++box) {
      if (box->num_images == 0)
        continue; // nobody receives it
      for (uint32_t layer : side.layersOf(type, at.pp))
        for (uint32_t expert : side.expertsOf(type, at.ep))
          rows.push_back({uint32_t(box - expander.getTables().boxes),
                          layered ? layer : DELTA_NONE, expert,
                          side.find(params, i, layer, expert),
                          side.expertOffset(type, expert)});
    }
  }
  std::sort(rows.begin(), rows.end(), [](const auto &a, const auto &b) {
    return std::make_tuple(identityOf(a), a.param) <
           std::make_tuple(identityOf(b), b.param);
  });
  return rows;
}

std::optional<ReplicaDifference> delta::runtime::findReplicaDifference(
    const std::vector<std::vector<delta_replica_sum_t>> &sums,
    uint64_t &outCompared) {
  struct Entry {
    uint32_t rank;
    const delta_replica_sum_t *row;
  };
  std::vector<Entry> entries;
  for (uint32_t rank = 0; rank < sums.size(); ++rank)
    for (const delta_replica_sum_t &row : sums[rank])
      entries.push_back({rank, &row});
  auto order = [](const Entry &entry) {
    return std::make_tuple(identityOf(*entry.row), entry.rank,
                           entry.row->param);
  };
  std::sort(
      entries.begin(), entries.end(),
      [&](const Entry &a, const Entry &b) { return order(a) < order(b); });
  std::optional<ReplicaDifference> difference;
  outCompared = 0;
  for (size_t begin = 0, end; begin < entries.size(); begin = end) {
    const delta_replica_sum_t &first = *entries[begin].row;
    bool equal = true;
    for (end = begin; end < entries.size() &&
                      identityOf(*entries[end].row) == identityOf(first);
         ++end)
      equal = equal && entries[end].row->sum == first.sum;
    outCompared += end - begin > 1;
    if (equal || difference)
      continue;
    difference = {first.box, first.layer, first.expert, {}};
    for (size_t i = begin; i < end; ++i)
      difference->holders.push_back(
          {entries[i].rank, entries[i].row->param, entries[i].row->sum});
  }
  return difference;
}

//===----------------------------------------------------------------------===//
// In words
//===----------------------------------------------------------------------===//

/// "[6, 1]" of a row-major element.
static std::string indexText(const delta_class_t &type, int64_t element) {
  int64_t index[DELTA_MAX_RANK];
  for (uint32_t dim = type.rank; dim-- > 0; element /= type.shape[dim])
    index[dim] = element % type.shape[dim];
  return shapeText(index, type.rank);
}

static uint64_t bitsAt(const void *data, int64_t element, uint32_t size) {
  uint64_t bits = 0;
  memcpy(&bits, static_cast<const uint8_t *>(data) + element * size, size);
  return bits;
}

namespace delta::runtime {
namespace {

class Describer {
public:
  Describer(const delta_tables_t &tables, const ReplicaDifference &difference)
      : difference(difference), box(tables.boxes[difference.box]),
        image(tables.images[box.hf_image]), side(tables, DELTA_SOURCE),
        hf(tables, DELTA_HF), tensor(hf.getClass(image.class_index)) {}

  /// Holders that agree are named together.
  std::string whoDiffers() const {
    const bool stacked = tensor.num_experts == 0 || tensor.expert_stride;
    const Param named = {image.class_index,
                         tensor.layer_kind == DELTA_NONE ? DELTA_NONE
                                                         : difference.layer,
                         stacked ? DELTA_NONE : difference.expert};
    std::string text = "replicas of tensor \"" + hf.name(named) + "\" differ:";
    std::vector<bool> said(difference.holders.size(), false);
    for (size_t i = 0; i < said.size(); ++i) {
      if (said[i])
        continue;
      const ReplicaHolder &first = difference.holders[i];
      const std::string name = nameOf(first);
      text += (i ? " against \"" : " \"") + name + "\" of rank ";
      for (size_t j = i; j < said.size(); ++j) {
        const ReplicaHolder &other = difference.holders[j];
        if (said[j] || other.sum != first.sum || nameOf(other) != name)
          continue;
        said[j] = true;
        text += (j > i ? ", " : "") + std::to_string(other.rank);
      }
    }
    return text;
  }

  /// The first element, in the order of the box, that two holders have
  /// different; empty if there is none.
  std::string whichElement(const ReplicaHolder &left, const void *leftData,
                           const ReplicaHolder &right,
                           const void *rightData) const {
    const uint32_t size = elementSize(tensor.dtype);
    const device::Layout source = device::Layout::source(box);
    const int64_t atLeft = expertOffset(left), atRight = expertOffset(right);
    for (int64_t run = 0; run < device::numRuns(box); ++run) {
      const device::RunCursor cursor(box, run);
      const int64_t begin = cursor.begin(source);
      for (int64_t i = 0; i < device::numColumns(box); ++i) {
        const uint64_t a = bitsAt(leftData, atLeft + begin + i, size);
        const uint64_t b = bitsAt(rightData, atRight + begin + i, size);
        if (a == b)
          continue;
        const device::Layout layout = device::Layout::image(image);
        const int64_t element = hf.expertOffset(tensor, difference.expert) +
                                cursor.begin(layout) + i * layout.step(box);
        return "; first element " + indexText(tensor, element) + ": " +
               valueText(left, atLeft + begin + i, a) + ", " +
               valueText(right, atRight + begin + i, b);
      }
    }
    return "";
  }

private:
  Param paramOf(const ReplicaHolder &holder) const {
    return side.params(holder.rank)[holder.param];
  }
  std::string nameOf(const ReplicaHolder &holder) const {
    return side.name(paramOf(holder));
  }
  int64_t expertOffset(const ReplicaHolder &holder) const {
    return side.expertOffset(side.getClass(paramOf(holder).classIndex),
                             difference.expert);
  }
  std::string valueText(const ReplicaHolder &holder, int64_t element,
                        uint64_t bits) const {
    const Param param = paramOf(holder);
    const delta_class_t &type = side.getClass(param.classIndex);
    char value[20];
    snprintf(value, sizeof(value), "0x%0*" PRIx64,
             int(2 * elementSize(type.dtype)), bits);
    return "\"" + side.name(param) + "\"" + indexText(type, element) +
           " of rank " + std::to_string(holder.rank) + " is " + value;
  }

  const ReplicaDifference &difference;
  const delta_box_t &box;
  const delta_image_t &image;
  Side side, hf;
  const delta_class_t &tensor;
};

} // namespace
} // namespace delta::runtime

std::string delta::runtime::describe(
    const delta_tables_t &tables, const ReplicaDifference &difference,
    const std::function<const void *(const ReplicaHolder &)> &dataOf) {
  const Describer describer(tables, difference);
  std::string text = describer.whoDiffers();
  if (!dataOf)
    return text;
  const ReplicaHolder &left = difference.holders.front();
  const auto right = std::find_if(
      difference.holders.begin(), difference.holders.end(),
      [&](const ReplicaHolder &holder) { return holder.sum != left.sum; });
  const void *leftData = dataOf(left), *rightData = dataOf(*right);
  if (leftData && rightData)
    text += describer.whichElement(left, leftData, *right, rightData);
  return text;
}
