//===- World.cpp - The ranks that are in this process ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "World.h"

#include "BenchError.h"

using namespace delta::bench;

/// Layouts of all ranks of a side.
static std::vector<Layout> layoutsOf(const delta_plan_api_t &api,
                                     delta_side_id_t side) {
  std::vector<Layout> layouts;
  for (uint32_t rank = 0; rank < api.num_ranks(side); ++rank)
    layouts.emplace_back(api, side, rank);
  return layouts;
}

static uint64_t sumOf(const std::vector<Layout> &layouts) {
  uint64_t numBytes = 0;
  for (const Layout &layout : layouts)
    numBytes += layout.getNumBytes();
  return numBytes;
}

/// A bound from above of what the first full sync takes: weights, snapshot and
/// two buffers for 1/16 of the elements; the receivers' parameters, and the
/// messages of a full sync with a quarter to spare; a full sync of the measured
/// rank in one round, twice.
World::Needs World::needsOf(const std::vector<Layout> &from,
                            const std::vector<Layout> &to, uint32_t rank,
                            bool keepsSnapshot, bool isDevice) {
  const double sources = double(sumOf(from)), receivers = double(sumOf(to));
  const double own = double(from[rank].getNumBytes());
  const double ofMachine = sources * (keepsSnapshot ? 2.25 : 1.35) +
                           receivers * 2.3 + own * 2 + double(1 << 28);
  // The copies, and at worst the snapshots.
  const double ofHost = sources * 2;
  return isDevice ? Needs{uint64_t(ofMachine), uint64_t(ofHost)}
                  : Needs{uint64_t(ofMachine + sources), 0};
}

World::World(const delta_plan_api_t &api, Machine &machine, runtime::Pool &pool,
             uint32_t rank, bool keepsSnapshot)
    : machine(machine) {
  std::vector<Layout> from = layoutsOf(api, DELTA_SOURCE);
  std::vector<Layout> to = layoutsOf(api, DELTA_DESTINATION);
  const Needs needs =
      needsOf(from, to, rank, keepsSnapshot, machine.isDevice());
  const uint64_t free = machine.getFreeBytes(), freeOnHost = freeHostBytes();
  const bool fits = needs.ofMachine <= free && needs.ofHost <= freeOnHost;
  const std::string number = std::to_string(rank);
  if (fits) {
    description = "source ranks 0 to " + std::to_string(from.size() - 1) +
                  ", receivers 0 to " + std::to_string(to.size() - 1) +
                  "; measured is source rank " + number;
    measured = rank;
    for (Layout &layout : from)
      sources.push_back(
          std::make_unique<SourceShard>(machine, pool, std::move(layout)));
    for (Layout &layout : to) {
      Block block(machine, layout.getNumBytes());
      receivers.push_back({std::move(layout), std::move(block)});
    }
    return;
  }
  const bool isOfMachine = needs.ofMachine > free;
  auto megabytes = [](uint64_t numBytes) {
    return std::to_string(numBytes >> 20) + " MiB";
  };
  description =
      "source rank " + number +
      " alone, no receiver, not verified: " + "all ranks take up to " +
      megabytes(isOfMachine ? needs.ofMachine : needs.ofHost) +
      (isOfMachine ? "" : " of the host") + ", free are " +
      megabytes(isOfMachine ? free : freeOnHost);
  sources.push_back(
      std::make_unique<SourceShard>(machine, pool, std::move(from[rank])));
}

void World::fill(uint64_t seed) {
  for (auto &source : sources)
    source->fill(quantiles, seed);
}

void World::clearReceivers() {
  for (ReceiverMemory &receiver : receivers)
    machine.fill(receiver.block.as(), 0, receiver.layout.getNumBytes());
  machine.wait();
}
