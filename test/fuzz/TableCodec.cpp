//===- TableCodec.cpp - Plan tables as bytes ------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TableCodec.h"

#include <cstring>

using namespace delta::fuzz;

/// Rows of a table at most.
static constexpr uint32_t MaxRows = 128;
static constexpr uint32_t MaxNameBytes = 256;

namespace {

class Writer {
public:
  template <typename T> void one(const T &value) { rows(&value, 1); }
  template <typename T> void rows(const T *first, uint32_t count) {
    auto *begin = reinterpret_cast<const uint8_t *>(first);
    bytes.insert(bytes.end(), begin, begin + count * sizeof(T));
  }
  std::vector<uint8_t> bytes;
};

class Reader {
public:
  Reader(const uint8_t *at, size_t left) : at(at), left(left) {}

  template <typename T> void one(T &value) {
    if (left < sizeof(T)) {
      failed = true;
      return;
    }
    memcpy(&value, at, sizeof(T));
    at += sizeof(T);
    left -= sizeof(T);
  }
  template <typename T> void rows(std::vector<T> &out, uint32_t count) {
    if (count > MaxRows)
      failed = true;
    for (uint32_t i = 0; i < count && !failed; ++i) {
      T row = {};
      one(row);
      out.push_back(row);
    }
  }
  bool failed = false;

private:
  const uint8_t *at;
  size_t left;
};

} // namespace

static constexpr size_t SideBytes = offsetof(delta_side_t, classes);

std::vector<uint8_t> delta::fuzz::encode(const delta_tables_t &tables) {
  Writer out;
  const delta_side_t *sides[] = {&tables.source, &tables.destination,
                                 &tables.hf};
  for (const delta_side_t *side : sides)
    out.rows(reinterpret_cast<const uint8_t *>(side), SideBytes);
  for (uint32_t count :
       {tables.destination_is_hf, tables.num_layer_kinds, tables.num_layer_ids,
        tables.num_boxes, tables.num_images, uint32_t(tables.engine != nullptr),
        tables.slots.num_slots, tables.slots.num_tables, tables.num_refreshes})
    out.one(count);
  out.one(tables.fingerprint);
  for (const delta_side_t *side : sides) {
    out.rows(side->classes, side->num_classes);
    out.rows(side->layers, side->num_layers);
    out.rows(side->experts, side->num_experts);
  }
  out.rows(tables.layer_kinds, tables.num_layer_kinds);
  out.rows(tables.layer_ids, tables.num_layer_ids);
  out.rows(tables.boxes, tables.num_boxes);
  out.rows(tables.images, tables.num_images);
  if (tables.slots.num_slots) {
    out.rows(tables.slots.first, tables.destination.ep + 1);
    out.rows(tables.slots.expert,
             tables.slots.num_slots * tables.slots.num_tables);
  }
  for (uint32_t i = 0; i < tables.num_refreshes; ++i)
    out.one(tables.refreshes[i].class_index);
  std::vector<std::string> texts;
  for (const delta_side_t *side : sides)
    texts.insert(texts.end(), side->names, side->names + side->num_names);
  texts.push_back(tables.model ? tables.model : "");
  texts.push_back(tables.compiler ? tables.compiler : "");
  for (const std::string &text : texts) {
    out.one(uint16_t(text.size()));
    out.rows(text.data(), uint32_t(text.size()));
  }
  return out.bytes;
}

static void readText(Reader &in, std::string &text) {
  uint16_t size = 0;
  in.one(size);
  in.failed |= size > MaxNameBytes;
  for (uint32_t i = 0; i < size && !in.failed; ++i) {
    char letter = 0;
    in.one(letter);
    text += letter;
  }
}

/// What only an engine has. Numbers beyond MaxRows are more than a fuzzer
/// should spend its time on.
static void readEngine(Reader &in, bool isEngine, delta_tables_t &tables,
                       std::vector<uint32_t> &first,
                       std::vector<uint32_t> &experts,
                       std::vector<delta_refresh_t> &refreshes) {
  tables.engine = isEngine ? "engine" : nullptr;
  delta_slots_t &slots = tables.slots;
  if (slots.num_slots) {
    in.failed |= slots.num_slots > MaxRows || slots.num_tables > MaxRows ||
                 tables.destination.ep > MaxRows;
    if (in.failed)
      return;
    in.rows(first, tables.destination.ep + 1);
    for (uint32_t i = 0; i < slots.num_tables; ++i)
      in.rows(experts, slots.num_slots);
    slots.first = first.data();
    slots.expert = experts.data();
  }
  std::vector<uint32_t> classes;
  in.rows(classes, tables.num_refreshes);
  for (uint32_t index : classes)
    refreshes.push_back({index, 0, "refresh"});
  tables.refreshes = refreshes.data();
}

std::unique_ptr<OwnedTables> OwnedTables::decode(const uint8_t *bytes,
                                                 size_t size) {
  auto out = std::make_unique<OwnedTables>();
  delta_tables_t &tables = out->tables;
  Reader in(bytes, size);
  delta_side_t *sides[] = {&tables.source, &tables.destination, &tables.hf};
  for (delta_side_t *side : sides) {
    uint8_t head[SideBytes] = {};
    in.one(head);
    memcpy(static_cast<void *>(side), head, SideBytes);
  }
  uint32_t isEngine = 0;
  for (uint32_t *count :
       {&tables.destination_is_hf, &tables.num_layer_kinds,
        &tables.num_layer_ids, &tables.num_boxes, &tables.num_images, &isEngine,
        &tables.slots.num_slots, &tables.slots.num_tables,
        &tables.num_refreshes})
    in.one(*count);
  in.one(tables.fingerprint);
  for (int i = 0; i < 3; ++i) {
    SideRows &rows = out->sides[i];
    in.rows(rows.classes, sides[i]->num_classes);
    in.rows(rows.layers, sides[i]->num_layers);
    in.rows(rows.experts, sides[i]->num_experts);
    sides[i]->classes = rows.classes.data();
    sides[i]->layers = rows.layers.data();
    sides[i]->experts = rows.experts.data();
  }
  in.rows(out->kinds, tables.num_layer_kinds);
  in.rows(out->layerIds, tables.num_layer_ids);
  in.rows(out->boxes, tables.num_boxes);
  in.rows(out->images, tables.num_images);
  readEngine(in, isEngine != 0, tables, out->slotFirst, out->slotExperts,
             out->refreshes);
  for (int i = 0; i < 3; ++i) {
    SideRows &rows = out->sides[i];
    in.failed |= sides[i]->num_names > MaxRows;
    rows.texts.resize(in.failed ? 0 : sides[i]->num_names);
    for (std::string &text : rows.texts)
      readText(in, text);
    for (const std::string &text : rows.texts)
      rows.names.push_back(text.c_str());
    sides[i]->names = rows.names.data();
  }
  if (in.failed)
    return nullptr;
  out->sides[0].texts.resize(tables.source.num_names + 2);
  std::vector<std::string> &texts = out->sides[0].texts;
  readText(in, texts[tables.source.num_names]);
  readText(in, texts[tables.source.num_names + 1]);
  // The two may have moved the others.
  for (uint32_t i = 0; i < tables.source.num_names; ++i)
    out->sides[0].names[i] = texts[i].c_str();
  tables.model = texts[tables.source.num_names].c_str();
  tables.compiler = texts[tables.source.num_names + 1].c_str();
  tables.layer_kinds = out->kinds.data();
  tables.layer_ids = out->layerIds.data();
  tables.boxes = out->boxes.data();
  tables.images = out->images.data();
  tables.size = sizeof(tables);
  tables.abi_version = DELTA_ABI_VERSION;
  return in.failed ? nullptr : std::move(out);
}
