//===- Proof.cpp - The certificate of a plan ------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What the checker needs beside the plan: what the family drops on each side,
/// and the destination's own maps, from which the images of the route boxes
/// follow. The rest repeats the plan's tables, so that a plan and a certificate
/// that do not belong together are told apart number by number.
///
//===----------------------------------------------------------------------===//

#include "Proof.h"

#include "passes/Classes.h"

#include <nlohmann/json.hpp>

#include <map>

using namespace delta;
using namespace mlir;
// Keys in the order in which they are written, for the reader.
using json = nlohmann::ordered_json;

static std::string hex(uint64_t high, uint64_t low) {
  char text[33];
  snprintf(text, sizeof(text), "%016llx%016llx",
           static_cast<unsigned long long>(high),
           static_cast<unsigned long long>(low));
  return text;
}

static json sideJson(const LoweredSide &side) {
  const delta_side_t &s = side.row;
  json out;
  out["mesh"] = {s.tp,  s.cp, s.dp,  s.ep,       s.etp,
                 s.edp, s.pp, s.vpp, s.replicas, s.ranks_per_replica};
  out["layers"] = json::array();
  for (const delta_placement_t &layer : side.layers)
    out["layers"].push_back(
        {layer.stage, layer.chunk, layer.local, layer.number});
  out["experts"] = json::array();
  for (const delta_expert_t &expert : side.experts)
    out["experts"].push_back({expert.ep, expert.local});
  out["classes"] = json::array();
  for (const LoweredClass &lowered : side.classes) {
    const delta_class_t &c = lowered.row;
    out["classes"].push_back({json(lowered.names), json(c.shape), c.rank,
                              c.dtype, int32_t(c.layer_kind), c.stage, c.chunk,
                              c.num_experts, c.expert_stride, c.axis, c.ways,
                              int32_t(c.copy_of), int32_t(c.part_of),
                              c.part_slot, c.extra_slots, c.order, c.reserved});
  }
  return out;
}

static json imageJson(const delta_image_t &image) {
  return {image.class_index, image.way_begin, image.way_end,
          image.value_op,    image.offset,    json(image.stride)};
}

static json boxJson(const LoweredBox &box) {
  const delta_box_t &b = box.row;
  json out = {b.source_class,        b.source_way,   b.num_loops,
              b.tile_runs,           b.tile_columns, b.num_tiles,
              b.source_offset,       json(b.extent), json(b.source_stride),
              imageJson(box.hfImage)};
  for (const delta_image_t &image : box.images)
    out.push_back(imageJson(image));
  return out;
}

/// Pieces of all ways of a map: [way, source, destination, [e, s, d], ...].
static json piecesJson(const ShardedMap &map) {
  json pieces = json::array();
  for (size_t way = 0; way < map.ways.size(); ++way)
    for (const Piece &piece : map.ways[way].pieces) {
      json row = {way, piece.source, piece.destination};
      for (const Loop &loop : piece.loops)
        row.push_back({loop.extent, loop.source, loop.destination});
      pieces.push_back(row);
    }
  return pieces;
}

/// What a side drops: the class, the reason, and boxes of its shards as
/// [way, offset, [extent, stride], ...].
static json dropsJson(SideOp side) {
  SideClasses classes(side);
  json out = json::array();
  for (auto drop : side.getBody().front().getOps<DropOp>()) {
    ApplyOp apply = applyOf(drop);
    for (auto [value, attr] :
         llvm::zip(apply.getValues(), apply.getMaps().getAsRange<MapAttr>())) {
      const ShardedMap &map = attr.getValue();
      json boxes = json::array();
      for (size_t way = 0; way < map.ways.size(); ++way)
        for (const Piece &piece : map.ways[way].pieces) {
          json row = {way, piece.source};
          for (const Loop &loop : piece.loops)
            row.push_back({loop.extent, loop.source});
          boxes.push_back(row);
        }
      out.push_back({{"class", classes.number.lookup(value.getDefiningOp())},
                     {"reason", drop.getReason().str()},
                     {"boxes", boxes}});
    }
  }
  return out;
}

/// The destination's own maps, from its classes to tensors, which are numbered
/// as the source's: by name and layers. An engine may have several producers of
/// a tensor.
static json mapsJson(SideOp side, SideOp source) {
  SideClasses classes(side), tensors(source);
  std::map<std::pair<std::string, const void *>, int64_t> numbers, producers;
  auto keyOf = [](TensorOp tensor) {
    return std::pair(tensor.getName().str(),
                     layersOf(tensor).getAsOpaquePointer());
  };
  for (TensorOp tensor : tensors.tensors)
    if (!tensor.getAlias())
      numbers.emplace(keyOf(tensor), numbers.size());
  json out = json::array();
  for (TensorOp tensor : classes.tensors) {
    if (tensor.getAlias())
      continue;
    int64_t producer = producers[keyOf(tensor)]++;
    ApplyOp apply = applyOf(tensor);
    for (auto [value, attr] :
         llvm::zip(apply.getValues(), apply.getMaps().getAsRange<MapAttr>()))
      out.push_back({{"class", classes.number.lookup(value.getDefiningOp())},
                     {"tensor", numbers.at(keyOf(tensor))},
                     {"producer", producer},
                     {"pieces", piecesJson(attr.getValue())}});
  }
  return out;
}

/// What only an engine has: who it is, its slots, what it recomputes, and how
/// the names of tensors begin that it does not hold.
static json engineJson(const LoweredPlan &plan, SideOp side) {
  json out, refreshes = json::array();
  for (const LoweredRefresh &refresh : plan.refreshes)
    refreshes.push_back({refresh.classIndex, 0, refresh.method});
  out["engine"] = {plan.engine, plan.engineVersion};
  out["slots"] = {plan.slots.first, plan.slots.tables};
  out["refreshes"] = refreshes;
  out["unheld"] = json::array();
  for (auto op : side.getBody().front().getOps<PassthroughOp>())
    if (op.getAll())
      out["unheld"].push_back(op.getName().str());
  return out;
}

/// One record a line, so that two certificates can be compared by eye.
static void printLines(std::string &out, const std::string &key,
                       const json &records) {
  out += ",\n \"" + key + "\": [";
  for (size_t i = 0; i < records.size(); ++i)
    out += (i ? ",\n  " : "\n  ") + records[i].dump();
  out += "]";
}

static void printSide(std::string &out, const std::string &name,
                      const json &side, const json &drops = nullptr,
                      const json *maps = nullptr,
                      const json &engine = json::object()) {
  out += ",\n\"" + name + "\": {\n \"mesh\": " + side["mesh"].dump();
  out += ",\n \"layers\": " + side["layers"].dump();
  out += ",\n \"experts\": " + side["experts"].dump();
  printLines(out, "classes", side["classes"]);
  if (!drops.is_null())
    printLines(out, "drops", drops);
  if (maps)
    printLines(out, "maps", *maps);
  for (const auto &[key, value] : engine.items())
    out += ",\n " + json(key).dump() + ": " + value.dump();
  out += "}";
}

std::string delta::printCertificate(ModuleOp module, const LoweredPlan &plan) {
  auto source = module.lookupSymbol<SideOp>("source");
  auto destination = module.lookupSymbol<SideOp>("destination");
  std::string out = "{\"format\": \"delta-certificate-2\",\n\"plan\": \"" +
                    hex(plan.fingerprint[0], plan.fingerprint[1]) +
                    "\",\n\"model\": " + json(plan.model).dump() +
                    ",\n\"compiler\": " + json(plan.compiler).dump() +
                    ",\n\"kinds\": " + json(plan.layerKinds).dump();
  printSide(out, "source", sideJson(plan.source), dropsJson(source));
  printSide(out, "hf", sideJson(plan.hf));
  if (!plan.copied.classes.empty())
    printSide(out, "copied", sideJson(plan.copied));
  if (destination) {
    json maps = mapsJson(destination, source);
    printSide(out, "destination", sideJson(plan.destination),
              dropsJson(destination), &maps,
              plan.engine.empty() ? json::object()
                                  : engineJson(plan, destination));
  } else {
    out += ",\n\"replicas\": " + std::to_string(plan.destination.row.replicas);
  }
  json boxes = json::array();
  for (const LoweredBox &box : plan.boxes)
    boxes.push_back(boxJson(box));
  out += ",\n\"boxes\": [";
  for (size_t i = 0; i < boxes.size(); ++i)
    out += (i ? ",\n  " : "\n  ") + boxes[i].dump();
  return out + "]}\n";
}
