//===- Slots.cpp - Where an engine's experts live -------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Slots.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace delta::runtime;

/// Slots of an engine at most, over all layers.
static constexpr uint64_t MaxSlots = uint64_t(1) << 24;

std::shared_ptr<const Slots> Slots::ofPlan(const delta_tables_t &tables) {
  const delta_slots_t &slots = tables.slots;
  if (!slots.num_slots || tables.destination_is_hf)
    return nullptr;
  return std::shared_ptr<const Slots>(
      new Slots(slots, tables.destination.ep, tables.destination.num_experts));
}

/// The table is one that checkSlots accepts. Tables that are all alike are one.
Slots::Slots(const delta_slots_t &table, uint32_t numEp, uint32_t numExperts)
    : numTables(table.num_tables), numExperts(numExperts),
      first(table.first, table.first + numEp + 1) {
  const size_t numSlots = table.num_slots;
  bool alike = true;
  for (size_t i = 1; i < numTables && alike; ++i)
    alike = std::equal(table.expert, table.expert + numSlots,
                       table.expert + i * numSlots);
  if (alike)
    numTables = 1;
  expert.assign(table.expert, table.expert + numTables * numSlots);
  for (uint32_t ep = 0; ep < numEp; ++ep)
    epOfSlot.insert(epOfSlot.end(), numSlotsOf(ep), ep);

  // Counting sort: a table's slots by expert, ascending in each.
  begin.assign(size_t(numTables) * (numExperts + 1), 0);
  slotOf.resize(expert.size());
  for (size_t t = 0; t < numTables; ++t) {
    const uint32_t *map = expert.data() + t * numSlots;
    uint32_t *starts = begin.data() + t * (numExperts + 1);
    for (size_t slot = 0; slot < numSlots; ++slot)
      ++starts[map[slot] + 1];
    starts[0] = uint32_t(t * numSlots);
    for (uint32_t i = 0; i < numExperts; ++i)
      starts[i + 1] += starts[i];
    std::vector<uint32_t> next(starts, starts + numExperts);
    for (uint32_t slot = 0; slot < numSlots; ++slot)
      slotOf[next[map[slot]]++] = slot;
  }

  fingerprint = XXH3_64bits_withSeed(first.data(), first.size() * 4, numTables);
  fingerprint =
      XXH3_64bits_withSeed(expert.data(), expert.size() * 4, fingerprint);
  fingerprint += fingerprint == 0;
}

static Status wrong(const std::string &text) {
  return Status::error(DELTA_INVALID_ARGUMENT, "%s", text.c_str());
}

/// Every expert lies in a slot of table `index`.
static Status checkTable(const delta_side_t &side, const delta_slots_t &slots,
                         uint32_t index) {
  const uint32_t *map = slots.expert + size_t(index) * slots.num_slots;
  const std::string where =
      slots.num_tables > 1 ? "layer " + std::to_string(index) + ": " : "";
  std::vector<bool> isThere(side.num_experts);
  for (uint32_t slot = 0; slot < slots.num_slots; ++slot) {
    if (map[slot] >= side.num_experts)
      return wrong(where + "slot " + std::to_string(slot) + " holds expert " +
                   std::to_string(map[slot]) + " of " +
                   std::to_string(side.num_experts));
    isThere[map[slot]] = true;
  }
  const size_t missing = size_t(
      std::find(isThere.begin(), isThere.end(), false) - isThere.begin());
  if (missing < isThere.size())
    return wrong(where + "expert " + std::to_string(missing) +
                 " is in no slot");
  return {};
}

Status delta::runtime::checkSlots(const delta_tables_t &tables,
                                  const delta_slots_t &slots) {
  const delta_side_t &side = tables.destination;
  if (!slots.first || !slots.expert)
    return wrong("a table is null");
  if (slots.num_tables != 1 &&
      (slots.num_tables == 0 || slots.num_tables != side.num_layers))
    return wrong(std::to_string(slots.num_tables) +
                 " tables, required are 1 or " +
                 std::to_string(side.num_layers) + ", one for each layer");
  if (uint64_t(slots.num_slots) * slots.num_tables > MaxSlots)
    return wrong("more than " + std::to_string(MaxSlots) + " slots");
  for (uint32_t ep = 0; ep < side.ep; ++ep)
    if (slots.first[ep] > slots.first[ep + 1])
      return wrong("the slots of ep " + std::to_string(ep) + " are [" +
                   std::to_string(slots.first[ep]) + ", " +
                   std::to_string(slots.first[ep + 1]) + ")");
  if (slots.first[0] != 0 || slots.first[side.ep] != slots.num_slots)
    return wrong("the coordinates have slots [" +
                 std::to_string(slots.first[0]) + ", " +
                 std::to_string(slots.first[side.ep]) + ") of " +
                 std::to_string(slots.num_slots));
  for (uint32_t i = 0; i < slots.num_tables; ++i)
    if (Status status = checkTable(side, slots, i); status.failed())
      return status;
  return {};
}

Status Slots::create(const delta_tables_t &tables, const uint32_t *experts,
                     uint32_t numTables, uint32_t numSlots,
                     std::shared_ptr<const Slots> &out) {
  if (!tables.slots.num_slots || tables.destination_is_hf)
    return wrong("the plan has no slots of experts");
  if (numSlots != tables.slots.num_slots)
    return wrong(std::to_string(numSlots) + " slots, required are " +
                 std::to_string(tables.slots.num_slots));
  const delta_slots_t slots = {numSlots, numTables, tables.slots.first,
                               experts};
  if (Status status = checkSlots(tables, slots); status.failed())
    return status;
  out.reset(
      new Slots(slots, tables.destination.ep, tables.destination.num_experts));
  return {};
}
