//===- Sides.cpp - Ranks, instances and classes of a side -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/certificate/Sides.h"

#include "tools/certificate/PlanJson.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace delta::certificate;

static int64_t product(const delta_class_t &c) {
  __int128 n = 1;
  for (uint32_t i = 0; i < c.rank; ++i)
    if ((n *= c.shape[i]) > INT64_MAX)
      wrong("a shape overflows 64 bits");
  return int64_t(n);
}

int64_t delta::certificate::sliceSize(const delta_class_t &c) {
  return c.expert_stride ? c.expert_stride : product(c);
}

namespace {

class SideCheck {
public:
  SideCheck(const std::string &name, const delta_tables_t &tables,
            const delta_side_t &side)
      : name(name), tables(tables), side(side), neutral(&side == &tables.hf),
        engine(&side == &tables.destination && tables.engine),
        hasSlots(engine && tables.slots.num_slots) {}

  void run() {
    checkMesh();
    checkLayers();
    if (hasSlots)
      checkSlots();
    for (uint32_t e = 0; e < side.num_experts && !hasSlots; ++e) {
      uint32_t each = side.num_experts / side.ep;
      if (side.num_experts % side.ep || side.experts[e].ep != e / each ||
          side.experts[e].local != e % each)
        wrong(name + " expert " + std::to_string(e) + " is out of place");
    }
    for (uint32_t i = 0; i < side.num_classes; ++i)
      checkClass(name + " class " + std::to_string(i), i);
    for (uint32_t i = 0; engine && i < tables.num_refreshes; ++i)
      if (tables.refreshes[i].class_index >= side.num_classes ||
          tables.refreshes[i].reserved || !*tables.refreshes[i].method)
        wrong("refresh " + std::to_string(i) + " is of no class or method");
  }

private:
  void checkMesh() {
    for (int64_t size : {side.tp, side.cp, side.dp, side.ep, side.etp, side.edp,
                         side.pp, side.vpp, side.replicas})
      if (size < 1)
        wrong(name + " has an axis of size 0");
    stage = int64_t(side.tp) * side.cp * side.dp;
    if (stage != int64_t(side.etp) * side.ep * side.edp ||
        stage * side.pp != side.ranks_per_replica ||
        (&side != &tables.destination && side.replicas != 1))
      wrong(name + ": ranks of dense and expert axes differ");
    if (neutral && (side.ranks_per_replica != 1 || side.vpp != 1))
      wrong("the neutral layout has more than one rank");
    if (engine && side.vpp != 1)
      wrong("the engine has several chunks");
    if (side.num_layers != tables.source.num_layers ||
        side.num_experts != tables.source.num_experts)
      wrong(name + " has other layers or experts than the source");
  }

  /// Chunk outermost, local numbers from 0, which in an engine go on over its
  /// stages; then stacks on the first or the last chunk, of which no class has
  /// layers of two.
  void checkLayers() {
    for (uint32_t i = 0; i < side.num_layers; ++i) {
      const delta_placement_t &row = side.layers[i];
      const delta_placement_t &last = side.layers[i ? i - 1 : 0];
      std::pair here(row.chunk, row.stage), before(last.chunk, last.stage);
      uint32_t local = neutral               ? i
                       : i && here == before ? last.local + 1
                       : engine              ? i
                                             : 0;
      bool atEnd = row.stage + row.chunk == 0 ||
                   (row.stage + 1 == side.pp && row.chunk + 1 == side.vpp);
      bool stack = !neutral && row.local == 0 && atEnd && !spansKind(i);
      if (row.stage >= side.pp || row.chunk >= side.vpp || row.number != i ||
          !((row.local == local && here >= before) || stack))
        wrong(name + " layer " + std::to_string(i) + " is out of place");
    }
  }

  /// Whether a layer kind has layers before `layer` and from it on.
  bool spansKind(uint32_t layer) const {
    const delta_layer_kind_t *kinds = tables.layer_kinds;
    return std::any_of(kinds, kinds + tables.num_layer_kinds, [&](auto &kind) {
      const uint32_t *ids = tables.layer_ids + kind.first;
      return kind.count && ids[0] < layer && ids[kind.count - 1] >= layer;
    });
  }

  /// Ranks have slots one after the other, and every expert has one in every
  /// table. The experts' own rows are their first slots of the first table.
  void checkSlots() {
    const delta_slots_t &s = tables.slots;
    if (s.num_tables != 1 && s.num_tables != side.num_layers)
      wrong("the slots have tables for other layers");
    if (s.first[0] != 0 || s.first[side.ep] != s.num_slots ||
        !std::is_sorted(s.first, s.first + side.ep + 1))
      wrong("the slots of the ranks do not follow one another");
    for (uint32_t t = 0; t < s.num_tables; ++t) {
      std::vector<bool> found(side.num_experts);
      for (uint32_t i = 0, p = 0; i < s.num_slots; ++i) {
        while (i >= s.first[p + 1])
          ++p;
        uint32_t e = s.expert[size_t(t) * s.num_slots + i];
        if (e >= side.num_experts)
          wrong("slot " + std::to_string(i) + " holds no expert");
        bool same =
            side.experts[e].ep == p && side.experts[e].local == i - s.first[p];
        if (t == 0 && !found[e] && !same)
          wrong(name + " expert " + std::to_string(e) + " is out of place");
        found[e] = true;
      }
      auto missing = std::find(found.begin(), found.end(), false);
      if (missing != found.end())
        wrong("table " + std::to_string(t) + " has no slot for expert " +
              std::to_string(missing - found.begin()));
    }
    for (uint32_t p = 0; p < side.ep; ++p)
      most = std::max<int64_t>(most, s.first[p + 1] - s.first[p]);
  }

  void checkClass(const std::string &what, uint32_t index) {
    const delta_class_t &c = side.classes[index];
    int64_t axis = c.axis == DELTA_AXIS_TP      ? side.tp
                   : c.axis == DELTA_AXIS_ETP   ? side.etp
                   : c.axis == DELTA_AXIS_STAGE ? stage
                                                : 1;
    for (uint32_t d = 0; d < DELTA_MAX_RANK; ++d)
      if (d < c.rank ? c.shape[d] < 1 : c.shape[d] != 1)
        wrong(what + " has a size of " + std::to_string(c.shape[d]));
    if (c.reserved || c.dtype < DELTA_BF16 || c.dtype > DELTA_INT64 ||
        c.axis > (engine ? DELTA_AXIS_STAGE : DELTA_AXIS_ETP) || c.ways < 1 ||
        axis % c.ways)
      wrong(what + " has no type or ways that do not divide its axis");
    if (c.layer_kind == DELTA_NONE
            ? c.stage >= side.pp || c.chunk >= side.vpp
            : c.layer_kind >= tables.num_layer_kinds || c.stage || c.chunk)
      wrong(what + " lives nowhere");
    if (c.num_experts && c.num_experts != side.num_experts)
      wrong(what + " has another number of experts");
    int64_t local = !c.num_experts ? 1
                    : hasSlots     ? most
                                   : c.num_experts / side.ep;
    local += c.extra_slots;
    if (c.expert_stride && (c.expert_stride * local != product(c) ||
                            (engine && c.shape[0] != local)))
      wrong(what + " has slices that do not fill it");
    if (neutral && c.axis != DELTA_AXIS_NONE)
      wrong(what + " is sharded");
    checkForm(what, index);
    if (c.copy_of == DELTA_NONE)
      return;
    if (c.copy_of >= side.num_classes || c.copy_of == index)
      wrong(what + " copies no class");
    const delta_class_t &o = side.classes[c.copy_of];
    if (o.copy_of != DELTA_NONE || o.dtype != c.dtype || o.axis != c.axis ||
        product(o) != product(c) || o.ways != c.ways)
      wrong(what + " is unlike the class that it copies");
  }

  /// What an engine's classes alone have: an order of memory, slots behind the
  /// experts', each of which is one class, and such classes.
  void checkForm(const std::string &what, uint32_t index) {
    const delta_class_t &c = side.classes[index];
    bool part = c.part_of != DELTA_NONE;
    if ((part || c.part_slot || c.extra_slots || c.order) && !engine)
      wrong(what + " has what only an engine has");
    uint32_t dims = 0, rest = c.order;
    for (uint32_t d = 0; c.order && d < c.rank; ++d, rest >>= 4)
      dims |= 1u << (rest & 15);
    if (rest || (c.order && dims != (1u << c.rank) - 1))
      wrong(what + " has no order of its sizes in memory");
    if (c.num_experts && hasSlots && !c.expert_stride)
      wrong(what + " has experts that are no slots");
    if ((c.extra_slots && !c.expert_stride) ||
        (engine && c.expert_stride && (c.order & 15)))
      wrong(what + " has slots that do not follow one another");
    auto isSlot = [&](const delta_class_t &other, uint32_t slot) {
      return other.part_of == index && other.part_slot == slot;
    };
    for (uint32_t slot = 0; slot < c.extra_slots; ++slot)
      if (1 != std::count_if(side.classes, side.classes + side.num_classes,
                             [&](auto &other) { return isSlot(other, slot); }))
        wrong(what + " has a slot that is not one class");
    if (!part)
      return;
    if (c.part_of >= side.num_classes)
      wrong(what + " is part of no class");
    const delta_class_t &o = side.classes[c.part_of];
    if (c.part_slot >= o.extra_slots || c.num_experts || c.expert_stride ||
        o.expert_stride != product(c) || o.layer_kind != c.layer_kind ||
        o.stage != c.stage || o.dtype != c.dtype || o.axis != c.axis ||
        o.ways != c.ways || c.copy_of != DELTA_NONE ||
        o.copy_of != DELTA_NONE || o.part_of != DELTA_NONE ||
        strcmp(side.names[o.first_name], side.names[c.first_name]))
      wrong(what + " is unlike a slot of the class that it is part of");
  }

  const std::string &name;
  const delta_tables_t &tables;
  const delta_side_t &side;
  const bool neutral, engine, hasSlots;
  int64_t stage = 1; ///< its ranks
  int64_t most = 0;  ///< slots of a rank
};

} // namespace

void delta::certificate::checkSide(const std::string &name,
                                   const delta_tables_t &tables,
                                   const delta_side_t &side) {
  SideCheck(name, tables, side).run();
}
