//===- ReplicaCheck.cpp - Do trainer ranks hold the same? -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The sums come from the plan, as they would over a network; element and
/// values are looked up in memory, which in one process all ranks share.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/ReplicaCheck.h"

#include "codegen/device/IndexFunctions.h"
#include "runtime/Replicas.h"

#include <algorithm>

namespace delta::run {

const Held *Replicas::find(uint32_t rank, uint32_t param) const {
  delta_param_info_t info = {};
  if (!map.param(DELTA_SOURCE, rank, param, info))
    return nullptr;
  for (const std::string &name : reference::namesOf(info))
    if (const Held *held = world.sources[rank].find(info.chunk, name))
      return held;
  return nullptr;
}

bool Replicas::compare(uint64_t key, uint64_t &outCompared,
                       std::string &error) const {
  std::vector<std::vector<delta_replica_sum_t>> sums(session.numSenders());
  const auto sumOf = [&](size_t rank, delta_error_t text) {
    delta_sender_t *sender = session.sender(rank);
    uint64_t count = 0;
    const delta_status_t status =
        api.sender_replica_sums(sender, key, nullptr, 0, &count, text);
    sums[rank].resize(count);
    if (status != DELTA_OK || count == 0)
      return status;
    return api.sender_replica_sums(sender, key, sums[rank].data(), count,
                                   &count, text);
  };
  if (!Session::eachRank(sums.size(), sumOf, error))
    return false;
  const auto difference = runtime::findReplicaDifference(sums, outCompared);
  if (difference)
    error = describe(*api.tables, *difference,
                     [&](const runtime::ReplicaHolder &holder) {
                       const Held *held = find(holder.rank, holder.param);
                       return held ? held->data.get() : nullptr;
                     });
  return !difference;
}

/// A tile of the row that the rank does not own, -1 if there is none.
static int64_t tileOfOthers(const runtime::Expansion &own,
                            const runtime::ReplicaRow &row,
                            const delta_box_t &box, uint64_t seed) {
  for (const runtime::Row &owned : own.rows)
    if (owned.box == row.box && owned.layer == row.layer &&
        owned.expert == row.expert && owned.param == row.param) {
      if (owned.tileBegin > 0)
        return int64_t(seed % uint64_t(owned.tileBegin));
      return owned.tileEnd < box.num_tiles ? owned.tileEnd : -1;
    }
  return int64_t(seed % uint64_t(box.num_tiles));
}

std::string Replicas::flipOne(uint64_t seed) const {
  runtime::Expander expander(*api.tables);
  const uint32_t numRanks = map.numRanks(DELTA_SOURCE);
  for (uint32_t i = 0; i < numRanks; ++i) {
    const auto rank = uint32_t((seed + i) % numRanks);
    const runtime::Expansion own = expander.expand(rank);
    const auto rows = runtime::replicaRows(expander, rank);
    for (size_t j = 0; j < rows.size(); ++j) {
      const runtime::ReplicaRow &row = rows[(seed * 7919 + j) % rows.size()];
      const delta_box_t &box = api.tables->boxes[row.box];
      const int64_t number = tileOfOthers(own, row, box, seed);
      const Held *held = find(rank, row.param);
      if (number < 0 || !held)
        continue;
      const device::Tile tile = device::tileOf(box, number);
      const int64_t element =
          row.expertOffset +
          device::elementAt(box, tile,
                            uint32_t(seed * 104729 % tile.numElements()),
                            device::Layout::source(box));
      held->data.get()[element * held->width] ^= 1;
      return "trainer rank " + std::to_string(rank) + " \"" + held->name +
             "\" " + reference::elementText(held->shape, element);
    }
  }
  return "";
}

} // namespace delta::run
