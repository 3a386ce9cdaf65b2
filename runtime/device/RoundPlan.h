//===- RoundPlan.h - The rounds of a sync on a device -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Cuts a sync into rounds as runtime/Pack.h does on the host, and sums up what
/// they will send.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_ROUNDPLAN_H
#define DELTA_RUNTIME_DEVICE_ROUNDPLAN_H

#include "runtime/Packing.h"
#include "runtime/device/SourceTables.h"

namespace delta::runtime {

class RoundPlan {
public:
  /// Room for the rounds of `elements` at `capacity`, so that none is allocated
  /// later.
  void reserve(uint64_t elements, uint64_t capacity);
  /// One round, of which totals and places of sections were read back.
  void takeOne(const SourceTables &tables);
  /// Rounds of at most `capacity` elements. `isWhole`: all tiles are sent
  /// whole; else the places of all tiles were read.
  void cut(const SourceTables &tables, bool isWhole, uint64_t capacity);
  void clear() { rounds.clear(); }

  uint32_t getNumRounds() const { return uint32_t(rounds.size()); }
  uint64_t getNumSent(uint32_t round) const { return rounds[round].numSent; }
  /// Tiles of a round.
  std::pair<int64_t, int64_t> getRange(uint32_t round) const {
    return {round ? rounds[round - 1].endTile : 0, rounds[round].endTile};
  }
  /// Of all rounds, without launches.
  const PackCounts &getCounts() const { return counts; }

private:
  struct Round {
    int64_t endTile;
    uint64_t numSent;
  };
  void sumSection(const SourceTables &tables, uint32_t section,
                  const device::SectionShape &shape);

  std::vector<Round> rounds;
  PackCounts counts;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_ROUNDPLAN_H
