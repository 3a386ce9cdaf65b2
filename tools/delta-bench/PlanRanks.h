//===- PlanRanks.h - Senders and receivers of a plan ---------- -*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The handles of one plan over the memory of a World, and the syncs that are
/// not timed: full ones, and those that verify.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_PLANRANKS_H
#define DELTA_TOOLS_DELTA_BENCH_PLANRANKS_H

#include "World.h"

namespace delta::bench {

class PlanRanks {
public:
  /// Binds all that the world has. The plan's API and the world outlive it.
  PlanRanks(const delta_plan_api_t &api, World &world, Machine &machine,
            uint32_t numThreads);
  ~PlanRanks();
  PlanRanks(const PlanRanks &) = delete;

  /// A full sync of all ranks to version 1, and `verify`.
  void seed();
  /// Sends every element again, by a full sync that the receivers compare with
  /// their memory instead of writing it, and reads a sample back to compare it
  /// with the copy on the host. Throws the first difference.
  struct Verified {
    uint64_t numCompared = 0; ///< 0: no receiver is here
    uint64_t numReadBack = 0;
  };
  Verified verify();

  delta_sender_t *first() const { return senders[world.measured]; }
  bool hasReceivers() const { return !receivers.empty(); }
  /// Drops messages.
  delta_transport_t nowhere() const;

  const delta_plan_api_t &api;
  World &world;
  Machine &machine;
  std::vector<delta_sender_t *> senders; ///< as world.sources
  std::vector<delta_receiver_t *> receivers;
  delta_transport_t mail = {};
  uint64_t version = 0; ///< of the last sync

private:
  void destroy();
  void create(uint32_t numThreads);
  /// Packs all elements as `ofVersion` and delivers them; returns how many.
  uint64_t sendAll(uint64_t ofVersion);
  void acknowledgeAll();
  // ReadBack.cpp
  uint64_t readBack();
  bool holds(const delta_place_t &place, const Layout::Item &item,
             const uint8_t *sent, uint64_t &outNumRead) const;
  std::string differenceOf(const delta_place_t &place,
                           const delta_place_t &from,
                           const std::string &name) const;

  delta_inproc_t *inproc = nullptr;
  uint64_t numReadBacks = 0;
};

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_PLANRANKS_H
