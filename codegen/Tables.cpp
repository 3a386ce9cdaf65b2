//===- Tables.cpp - The tables of a plan in memory ------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Flattening of a LoweredPlan: offsets into shared pools instead of nested
/// vectors, and one copy of what is equal.
///
//===----------------------------------------------------------------------===//

#include "codegen/Tables.h"

#include <cassert>
#include <cstring>
#include <map>
#include <string_view>
#include <type_traits>

using namespace delta;

/// Null rather than a pointer past nothing: an empty table has no address.
template <typename T> static const T *dataOrNull(const std::vector<T> &rows) {
  return rows.empty() ? nullptr : rows.data();
}

static uint32_t count(size_t size) {
  assert(size <= UINT32_MAX && "a table of a plan has 32-bit row numbers");
  return static_cast<uint32_t>(size);
}

/// Whether two tables hold the same bytes. Rows have no padding.
template <typename T>
static bool equalRows(const T *left, uint32_t numLeft, const T *right,
                      uint32_t numRight) {
  static_assert(std::has_unique_object_representations_v<T>);
  return numLeft == numRight &&
         (numLeft == 0 || std::memcmp(left, right, numLeft * sizeof(T)) == 0);
}

static bool equalNames(const delta_side_t &left, const delta_side_t &right) {
  if (left.num_names != right.num_names)
    return false;
  for (uint32_t i = 0; i < left.num_names; ++i)
    if (std::strcmp(left.names[i], right.names[i]) != 0)
      return false;
  return true;
}

/// Lets `side` use the tables of `other` where they are equal.
static void shareTables(delta_side_t &side, const delta_side_t &other) {
  if (equalNames(side, other))
    side.names = other.names;
  if (equalRows(side.classes, side.num_classes, other.classes,
                other.num_classes))
    side.classes = other.classes;
  if (equalRows(side.layers, side.num_layers, other.layers, other.num_layers))
    side.layers = other.layers;
  if (equalRows(side.experts, side.num_experts, other.experts,
                other.num_experts))
    side.experts = other.experts;
}

delta_side_t TableStorage::layOutSide(const LoweredSide &lowered,
                                      Side &storage) {
  for (const LoweredClass &cls : lowered.classes) {
    assert(!cls.names.empty() && "a class has a name");
    assert(cls.row.reserved == 0 && "reserved fields are zero");
    delta_class_t row = cls.row;
    row.first_name = count(storage.strings.size());
    row.num_names = count(cls.names.size());
    storage.classes.push_back(row);
    storage.strings.insert(storage.strings.end(), cls.names.begin(),
                           cls.names.end());
  }
  for (const std::string &name : storage.strings)
    storage.names.push_back(name.c_str());
  storage.layers = lowered.layers;
  storage.experts = lowered.experts;

  delta_side_t side = lowered.row;
  side.num_classes = count(storage.classes.size());
  side.num_layers = count(storage.layers.size());
  side.num_experts = count(storage.experts.size());
  side.num_names = count(storage.names.size());
  side.classes = dataOrNull(storage.classes);
  side.layers = dataOrNull(storage.layers);
  side.experts = dataOrNull(storage.experts);
  side.names = dataOrNull(storage.names);
  return side;
}

/// The bytes of image rows, as a key.
static std::string_view bytesOf(const delta_image_t *rows, size_t numRows) {
  static_assert(std::has_unique_object_representations_v<delta_image_t>);
  return {reinterpret_cast<const char *>(rows), numRows * sizeof(*rows)};
}

void TableStorage::layOutBoxes(const std::vector<LoweredBox> &lowered) {
  // Keys point into `lowered`, which outlives the maps. A list of images is
  // found as a whole; the neutral image may be any row of any list.
  std::map<std::string_view, uint32_t> lists, rows;
  auto place = [&](const delta_image_t *first, size_t numRows,
                   std::map<std::string_view, uint32_t> &known) {
    auto [it, isNew] =
        known.try_emplace(bytesOf(first, numRows), count(images.size()));
    if (isNew)
      for (size_t i = 0; i < numRows; ++i) {
        rows.try_emplace(bytesOf(first + i, 1), count(images.size()));
        images.push_back(first[i]);
      }
    return it->second;
  };
  for (const LoweredBox &box : lowered) {
    delta_box_t row = box.row;
    row.num_images = count(box.images.size());
    row.first_image = place(box.images.data(), box.images.size(), lists);
    row.hf_image = place(&box.hfImage, 1, rows);
    boxes.push_back(row);
  }
}

void TableStorage::layOutEngine(const LoweredPlan &plan) {
  engine = plan.engine;
  engineVersion = plan.engineVersion;
  flat.engine = engine.c_str();
  flat.engine_version = engineVersion.c_str();
  slotFirst = plan.slots.first;
  for (const std::vector<uint32_t> &table : plan.slots.tables) {
    assert(table.size() == plan.slots.tables.front().size() &&
           "all tables have the same slots");
    slotExperts.insert(slotExperts.end(), table.begin(), table.end());
  }
  if (!slotExperts.empty())
    flat.slots = {count(plan.slots.tables.front().size()),
                  count(plan.slots.tables.size()), slotFirst.data(),
                  slotExperts.data()};
  for (const LoweredRefresh &refresh : plan.refreshes)
    methods.push_back(refresh.method);
  for (size_t i = 0; i < methods.size(); ++i)
    refreshes.push_back(
        {plan.refreshes[i].classIndex, /*reserved=*/0, methods[i].c_str()});
  flat.num_refreshes = count(refreshes.size());
  flat.refreshes = dataOrNull(refreshes);
}

TableStorage::TableStorage(const LoweredPlan &plan)
    : model(plan.model), compiler(plan.compiler) {
  flat.size = sizeof(delta_tables_t);
  flat.abi_version = DELTA_ABI_VERSION;
  flat.fingerprint[0] = plan.fingerprint[0];
  flat.fingerprint[1] = plan.fingerprint[1];
  flat.model = model.c_str();
  flat.compiler = compiler.c_str();

  flat.source = layOutSide(plan.source, source);
  flat.hf = layOutSide(plan.hf, hf);
  shareTables(flat.hf, flat.source);
  flat.destination_is_hf = plan.destinationIsHf;
  if (plan.destinationIsHf) {
    flat.destination = flat.hf;
    flat.destination.replicas = plan.destination.row.replicas;
  } else {
    flat.destination = layOutSide(plan.destination, destination);
    shareTables(flat.destination, flat.hf);
    shareTables(flat.destination, flat.source);
  }

  if (!plan.copied.classes.empty()) {
    flat.copied = layOutSide(plan.copied, copied);
    shareTables(flat.copied, flat.hf);
  }

  for (const std::vector<uint32_t> &kind : plan.layerKinds) {
    layerKinds.push_back({count(layerIds.size()), count(kind.size())});
    layerIds.insert(layerIds.end(), kind.begin(), kind.end());
  }
  layOutBoxes(plan.boxes);
  flat.num_layer_kinds = count(layerKinds.size());
  flat.num_layer_ids = count(layerIds.size());
  flat.num_boxes = count(boxes.size());
  flat.num_images = count(images.size());
  flat.layer_kinds = dataOrNull(layerKinds);
  flat.layer_ids = dataOrNull(layerIds);
  flat.boxes = dataOrNull(boxes);
  flat.images = dataOrNull(images);
  flat.snapshot = plan.snapshot;
  if (!plan.engine.empty())
    layOutEngine(plan);
}
