//===- Slots.h - Where an engine's experts live -----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The slots of an engine and the expert in each: one placement. A plan has the
/// one that it was compiled for; a handle may be given another while it runs.
/// A placement never changes: a new one is another value.
///
/// Worked placement. Five experts on EP 2, one of them twice: six slots, three
/// a coordinate.
///
///   slot    0 1 2 | 3 4 5          expert 0 lies in slots 0 and 5, so its
///   expert  0 1 2 | 3 4 0          elements go to both coordinates
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_SLOTS_H
#define DELTA_RUNTIME_SLOTS_H

#include "runtime/Status.h"

#include <memory>
#include <vector>

namespace delta::runtime {

class Slots {
public:
  /// The placement that the plan was compiled for; null if it has none.
  static std::shared_ptr<const Slots> ofPlan(const delta_tables_t &tables);

  /// Another map for the slots of the plan: `numTables` rows of `numSlots`
  /// experts. Fails when the numbers are not the plan's, or when a table names
  /// an expert that there is not or misses one.
  static Status create(const delta_tables_t &tables, const uint32_t *experts,
                       uint32_t numTables, uint32_t numSlots,
                       std::shared_ptr<const Slots> &out);

  uint32_t numSlotsOf(uint32_t ep) const { return first[ep + 1] - first[ep]; }
  uint32_t firstOf(uint32_t ep) const { return first[ep]; }
  /// The coordinate whose ranks have the slot.
  uint32_t epOf(uint32_t slot) const { return epOfSlot[slot]; }
  uint32_t expertIn(uint32_t layer, uint32_t slot) const {
    return expert[tableOf(layer) * getNumSlots() + slot];
  }
  uint32_t getNumSlots() const { return first.back(); }

  /// Calls body(slot) for each slot of an expert, ascending. A class outside
  /// layers has layer DELTA_NONE.
  template <typename Body>
  void forEachSlotOf(uint32_t layer, uint32_t wanted, const Body &body) const {
    const size_t row = tableOf(layer) * (numExperts + 1) + wanted;
    for (uint32_t i = begin[row]; i < begin[row + 1]; ++i)
      body(slotOf[i]);
  }

  /// Of the map; the same for one table and for that table repeated for each
  /// layer. Never 0.
  uint64_t getFingerprint() const { return fingerprint; }

private:
  Slots(const delta_slots_t &table, uint32_t numEp, uint32_t numExperts);
  size_t tableOf(uint32_t layer) const {
    return numTables == 1 || layer == DELTA_NONE ? 0 : layer;
  }

  uint32_t numTables, numExperts;
  std::vector<uint32_t> first, expert, epOfSlot;
  /// Slots by table and expert: `begin` has numExperts + 1 rows a table.
  std::vector<uint32_t> begin, slotOf;
  uint64_t fingerprint;
};

/// Checks a placement of the plan's destination: sizes, slots that ascend, and
/// every expert in some slot of each table. The text says what is wrong and
/// not where.
Status checkSlots(const delta_tables_t &tables, const delta_slots_t &slots);

} // namespace delta::runtime

#endif // DELTA_RUNTIME_SLOTS_H
