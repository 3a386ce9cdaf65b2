//===- PlanJson.cpp - A plan as a certificate writes it -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Rows are lists, their columns as in passes/PROOF.md.
///
//===----------------------------------------------------------------------===//

#include "tools/certificate/PlanJson.h"

#include <algorithm>
#include <stdexcept>

using namespace delta::certificate;
using nlohmann::json;

void delta::certificate::wrong(const std::string &text) {
  throw std::runtime_error(text);
}

static json sideJson(const delta_side_t &s) {
  json out = {{"mesh",
               {s.tp, s.cp, s.dp, s.ep, s.etp, s.edp, s.pp, s.vpp, s.replicas,
                s.ranks_per_replica}},
              {"layers", json::array()},
              {"experts", json::array()},
              {"classes", json::array()}};
  for (const delta_placement_t *i = s.layers; i != s.layers + s.num_layers; ++i)
    out["layers"].push_back({i->stage, i->chunk, i->local, i->number});
  for (uint32_t i = 0; i < s.num_experts; ++i)
    out["experts"].push_back({s.experts[i].ep, s.experts[i].local});
  uint32_t names = 0;
  for (const delta_class_t *c = s.classes; c != s.classes + s.num_classes;
       ++c) {
    if (c->first_name != names || c->num_names < 1 ||
        c->num_names > s.num_names - names || c->rank < 1 ||
        c->rank > DELTA_MAX_RANK)
      wrong("a class of the plan has no name or shape");
    names += c->num_names;
    out["classes"].push_back(
        {json(std::vector<std::string>(s.names + c->first_name,
                                       s.names + names)),
         json(c->shape), c->rank, c->dtype, int32_t(c->layer_kind), c->stage,
         c->chunk, c->num_experts, c->expert_stride, c->axis, c->ways,
         int32_t(c->copy_of), int32_t(c->part_of), c->part_slot, c->extra_slots,
         c->order, c->reserved});
  }
  if (names != s.num_names)
    wrong("a name of the plan belongs to no class");
  return out;
}

static json imageJson(const delta_image_t &i) {
  return {i.class_index, i.way_begin, i.way_end,
          i.value_op,    i.offset,    json(i.stride)};
}

static json boxJson(const delta_tables_t &t, const delta_box_t &b) {
  if (b.hf_image >= t.num_images || (b.num_images < 1 && !t.engine) ||
      uint64_t(b.first_image) + b.num_images > t.num_images)
    wrong("a box of the plan has an image that is not there");
  json out = {b.source_class,        b.source_way,
              b.num_loops,           b.tile_runs,
              b.tile_columns,        b.num_tiles,
              b.source_offset,       json(b.extent),
              json(b.source_stride), imageJson(t.images[b.hf_image])};
  for (uint32_t i = 0; i < b.num_images; ++i)
    out.push_back(imageJson(t.images[b.first_image + i]));
  return out;
}

/// What only an engine has: who it is, its slots, what it recomputes.
static void addEngine(const delta_tables_t &t, json &out) {
  const delta_slots_t &s = t.slots;
  if (!t.engine && (s.num_slots || s.num_tables || t.num_refreshes))
    wrong("a trainer of the plan has slots or refreshes");
  if (t.snapshot > DELTA_SNAPSHOT_BITMAP || (t.engine_version && !t.engine))
    wrong("a trainer of the plan has a version");
  if (!t.engine)
    return;
  out["engine"] = {t.engine, t.engine_version ? t.engine_version : ""};
  out["slots"] = {json::array(), json::array()};
  if (s.num_slots)
    out["slots"][0] =
        std::vector<uint32_t>(s.first, s.first + t.destination.ep + 1);
  for (uint32_t i = 0; i < s.num_tables; ++i) {
    const uint32_t *table = s.expert + size_t(i) * s.num_slots;
    out["slots"][1].push_back(
        std::vector<uint32_t>(table, table + s.num_slots));
  }
  out["refreshes"] = json::array();
  for (uint32_t i = 0; i < t.num_refreshes; ++i)
    out["refreshes"].push_back({t.refreshes[i].class_index,
                                t.refreshes[i].reserved,
                                t.refreshes[i].method});
}

json delta::certificate::planJson(const delta_tables_t &t) {
  char plan[33];
  snprintf(plan, sizeof(plan), "%016llx%016llx",
           (unsigned long long)t.fingerprint[0],
           (unsigned long long)t.fingerprint[1]);
  json out = {{"format", "delta-certificate-2"},
              {"plan", plan},
              {"model", t.model},
              {"compiler", t.compiler},
              {"kinds", json::array()},
              {"source", sideJson(t.source)},
              {"hf", sideJson(t.hf)},
              {"boxes", json::array()}};
  if (t.copied.num_classes)
    out["copied"] = sideJson(t.copied);
  uint32_t ids = 0;
  for (uint32_t k = 0; k < t.num_layer_kinds; ++k) {
    const delta_layer_kind_t &kind = t.layer_kinds[k];
    if (kind.first != ids || kind.count > t.num_layer_ids - ids)
      wrong("the layer kinds of the plan do not follow one another");
    for (; ids < kind.first + kind.count; ++ids)
      if (t.layer_ids[ids] >= t.source.num_layers ||
          (ids > kind.first && t.layer_ids[ids] <= t.layer_ids[ids - 1]))
        wrong("a layer kind of the plan is out of order or range");
    out["kinds"].push_back(
        std::vector<uint32_t>(t.layer_ids + kind.first, t.layer_ids + ids));
  }
  if (ids != t.num_layer_ids)
    wrong("a layer of the plan is of no kind");
  if (t.destination_is_hf)
    out["replicas"] = t.destination.replicas;
  else
    out["destination"] = sideJson(t.destination);
  addEngine(t, t.destination_is_hf ? out : out["destination"]);
  for (uint32_t b = 0; b < t.num_boxes; ++b)
    out["boxes"].push_back(boxJson(t, t.boxes[b]));
  return out;
}

void delta::certificate::requireSame(const json &certificate,
                                     const json &plan) {
  const json own = {"/source/drops", "/destination/drops", "/destination/maps",
                    "/destination/unheld"};
  const json absent = "absent";
  auto text = [](const json &value) { return value.dump().substr(0, 60); };
  for (const json &change : json::diff(certificate, plan)) {
    const json::json_pointer at(change["path"].get<std::string>());
    if (!std::count(own.begin(), own.end(), change["path"]))
      wrong(at.to_string() + " is " + text(certificate.value(at, absent)) +
            " in the certificate and " + text(change.value("value", absent)) +
            " in the plan");
  }
}
