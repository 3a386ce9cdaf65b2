//===- PlanTablesFuzz.cpp - Any bytes as the tables of a plan -------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Tables that checkTables accepts can be used: every rank is expanded, the
/// corners of every row have places inside their parameters, and a full sync
/// and a delta run over memory of exactly the size.
///
//===----------------------------------------------------------------------===//

#include "RankBytes.h"
#include "TableCodec.h"

#include "codegen/device/HostKernels.h"
#include "runtime/Index.h"
#include "runtime/Inproc.h"
#include "runtime/Receiver.h"
#include "runtime/Replicas.h"
#include "runtime/Sender.h"

#include <cstdlib>

using namespace delta::fuzz;
using namespace delta::runtime;

/// More costs time and finds nothing.
static constexpr uint32_t MostRanks = 64;
static constexpr int64_t MostElements = 1 << 16;

static void requireInside(Index &index, delta_side_id_t side,
                          const delta_place_t &place) {
  delta_param_info_t info;
  if (place.rank >= index.getNumRanks(side) ||
      place.param >= index.getParams(side, place.rank).size())
    abort();
  if (index.paramInfo(side, place.rank, place.param, info).failed())
    return; // its name is too long
  if (place.element < 0 || place.element >= info.num_elements)
    abort();
}

static void walk(Index &index, uint32_t rank) {
  const Expansion &expansion = index.getExpansion(rank);
  for (const Row &row : expansion.rows)
    for (int64_t tile : {row.firstTile, row.firstTile + row.numTiles() - 1}) {
      delta_tile_info_t info;
      if (index.tileInfo(rank, uint64_t(tile), info).failed() ||
          info.num_elements == 0 || info.num_elements > DELTA_MAX_TILE)
        abort();
      for (uint32_t offset : {0u, info.num_elements - 1}) {
        delta_place_t source, hf, places[8];
        uint32_t count = 0;
        if (index
                .tileElement(rank, uint64_t(tile), offset, source, hf, places,
                             8, count)
                .failed())
          abort();
        requireInside(index, DELTA_SOURCE, source);
        requireInside(index, DELTA_HF, hf);
        for (uint32_t i = 0; i < std::min(count, 8u); ++i)
          requireInside(index, DELTA_DESTINATION, places[i]);
      }
    }
}

/// Elements of all parameters of a side, or -1 for too many.
static int64_t sizeOf(Index &index, delta_side_id_t id) {
  const Side &side = index.getSide(id);
  int64_t total = 0;
  for (uint32_t rank = 0; rank < side.getNumRanks(); ++rank)
    for (const Param &param : index.getParams(id, rank)) {
      total += numElements(side.getClass(param.classIndex));
      if (total > MostElements)
        return -1;
    }
  return total;
}

/// Two syncs between all ranks; elements that two rows claim may be written by
/// both, so only memory and not values are at stake.
static void sync(const delta_tables_t &tables, Index &index) {
  static const delta_kernels_t kernels = delta::device::allHostKernels();
  std::vector<std::unique_ptr<RankBytes>> memory;
  std::vector<std::unique_ptr<Sender>> senders;
  std::vector<std::unique_ptr<Receiver>> receivers;
  Inproc inproc(std::chrono::milliseconds(0));
  delta_transport_t transport = inproc.transport();
  for (uint32_t rank = 0; rank < index.getNumRanks(DELTA_SOURCE); ++rank) {
    memory.push_back(std::make_unique<RankBytes>(index.getSide(DELTA_SOURCE),
                                                 rank, uint8_t(rank)));
    senders.emplace_back();
    if (Sender::create(tables, kernels, rank, memory.back()->params.data(),
                       uint32_t(memory.back()->params.size()), 1, 1,
                       senders.back())
            .failed())
      return; // two parameters have one name
    (void)senders.back()->setCapacity(
        senders.back()->getShard().getLargestTile());
  }
  for (uint32_t rank = 0; rank < index.getNumRanks(DELTA_DESTINATION); ++rank) {
    memory.push_back(std::make_unique<RankBytes>(
        index.getSide(DELTA_DESTINATION), rank, uint8_t(rank)));
    receivers.emplace_back();
    if (Receiver::create(tables, kernels, rank, memory.back()->params.data(),
                         uint32_t(memory.back()->params.size()), 1, 1,
                         receivers.back())
            .failed())
      return;
  }
  for (uint64_t version : {1, 2}) {
    for (size_t rank = 0; rank < senders.size(); ++rank) {
      for (size_t i = 0; i < memory[rank]->params.size(); ++i)
        if (memory[rank]->getSize(i))
          memory[rank]->flip(i, memory[rank]->getSize(i) - 1);
      Status status = version == 1 ? senders[rank]->seed(1, nullptr)
                                   : senders[rank]->diff(2, nullptr);
      if (status.failed() || senders[rank]->send(transport).failed())
        abort();
    }
    for (auto &receiver : receivers)
      if (receiver->receive(transport).failed() || receiver->commit().failed())
        abort();
    for (auto &sender : senders)
      if (sender->acknowledge(version).failed())
        abort();
  }
  for (size_t s = 0; s < senders.size(); ++s)
    for (size_t r = 0; r < receivers.size(); ++r) {
      uint64_t count = 0;
      (void)senders[s]->fingerprints(uint32_t(r), 3, nullptr, 0, count);
      std::vector<uint64_t> sums(count);
      (void)senders[s]->fingerprints(uint32_t(r), 3, sums.data(), count, count);
      (void)receivers[r]->fingerprints(uint32_t(s), 3, sums.data(), count,
                                       count);
    }
  std::vector<std::vector<delta_replica_sum_t>> replicas;
  for (auto &sender : senders) {
    uint64_t count = 0;
    (void)sender->replicaSums(3, nullptr, 0, count);
    replicas.emplace_back(count);
    (void)sender->replicaSums(3, replicas.back().data(), count, count);
  }
  uint64_t compared = 0;
  if (auto difference = findReplicaDifference(replicas, compared))
    (void)describe(tables, *difference);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::unique_ptr<OwnedTables> owned = OwnedTables::decode(data, size);
  if (!owned || checkTables(owned->get()).failed())
    return 0;
  const delta_tables_t &tables = owned->get();
  for (delta_side_id_t id : {DELTA_SOURCE, DELTA_DESTINATION, DELTA_HF})
    if (Side(tables, id).getNumRanks() > MostRanks)
      return 0;
  Index index(tables);
  for (uint32_t rank = 0; rank < index.getNumRanks(DELTA_SOURCE); ++rank)
    walk(index, rank);
  if (sizeOf(index, DELTA_SOURCE) >= 0 && sizeOf(index, DELTA_DESTINATION) >= 0)
    sync(tables, index);
  return 0;
}
