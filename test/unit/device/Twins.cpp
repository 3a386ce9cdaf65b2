//===- Twins.cpp - Senders of both targets, side by side ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Twins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

using namespace delta::test;
using namespace delta::runtime;

Twins::Twins(const delta_tables_t &from, Memories &memory, Senders &hosts,
             TwinOptions options)
    : tables(from), device(std::make_shared<EmulatedDevice>(tables)),
      hosts(hosts), memory(memory), options(options) {
  tables.snapshot = options.snapshot;
  senders.resize(hosts.size());
  bound.resize(hosts.size());
  for (uint32_t rank = 0; rank < hosts.size(); ++rank) {
    allocate(rank);
    Status status = Sender::create(
        tables, testKernels(), rank, bound[rank].params.data(),
        uint32_t(bound[rank].params.size()), options.run, options.numThreads,
        senders[rank], onDevice(device, tables, options.chunkBytes));
    EXPECT_FALSE(status.failed()) << status.getText();
  }
}

/// Everything is given back.
Twins::~Twins() {
  senders.clear();
  bound.clear();
  EXPECT_EQ(device->getNumBlocks(), 0u);
}

static uint64_t bytesOf(const RankMemory &memory, uint32_t param) {
  const delta_param_t &host =
      const_cast<RankMemory &>(memory).getBound()[param];
  return uint64_t(memory.getNumElements(param)) * elementSize(host.dtype);
}

void Twins::allocate(uint32_t rank) {
  Bound made;
  RankMemory &host = *memory[rank];
  for (uint32_t i = 0; i < host.getBound().size(); ++i) {
    delta_param_t param = host.getBound()[i];
    uint64_t shift = options.unaligned ? elementSize(param.dtype) : 0;
    DeviceBuffer data;
    Status status = data.allocate(device, bytesOf(host, i) + shift);
    EXPECT_FALSE(status.failed()) << status.getText();
    param.data = data.as(shift);
    made.params.push_back(param);
    made.data.push_back(std::move(data));
  }
  std::swap(bound[rank], made);
}

void Twins::refresh() {
  for (uint32_t rank = 0; rank < bound.size(); ++rank)
    for (uint32_t i = 0; i < bound[rank].params.size(); ++i)
      memcpy(bound[rank].params[i].data, memory[rank]->getBound()[i].data,
             bytesOf(*memory[rank], i));
}

Status Twins::rebind(uint32_t rank) {
  Bound before = std::move(bound[rank]);
  allocate(rank);
  return senders[rank]->rebind(bound[rank].params.data(),
                               uint32_t(bound[rank].params.size()));
}

void Twins::setCapacity(double share) {
  both([&](Sender &one) {
    const Shard &shard = one.getShard();
    return one.setCapacity(
        std::max(uint64_t(share * double(shard.getNumElements())),
                 uint64_t(shard.getLargestTile())));
  });
}

void Twins::expectAlike(const Status &host, const Status &twin) {
  EXPECT_EQ(host.getCode(), twin.getCode()) << twin.getText();
  EXPECT_EQ(host.getText(), twin.getText());
}

void Twins::compareStats(const delta_sync_stats_t &host,
                         const delta_sync_stats_t &twin) {
  EXPECT_EQ(host.elements, twin.elements);
  if (areCountsEqual)
    EXPECT_EQ(host.changed, twin.changed);
  else
    EXPECT_LE(host.changed, twin.changed);
  EXPECT_EQ(host.tiles, twin.tiles);
  EXPECT_EQ(host.dense_tiles, twin.dense_tiles);
  EXPECT_EQ(host.message_bytes, twin.message_bytes);
  numChanged += host.changed;
}

void Twins::pack(uint64_t version, bool isSeed) {
  numChanged = 0;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    delta_sync_stats_t host = {}, twin = {};
    auto call = [&](Sender &one, delta_sync_stats_t &stats) {
      return isSeed ? one.seed(version, &stats) : one.diff(version, &stats);
    };
    expectAlike(call(*hosts[rank], host), call(*senders[rank], twin));
    compareStats(host, twin);
    EXPECT_EQ(hosts[rank]->getNumRounds(), senders[rank]->getNumRounds());
  }
}

void Twins::beginMoved() {
  numChanged = 0;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    delta_sync_stats_t host = {}, twin = {};
    expectAlike(hosts[rank]->beginMoved(&host),
                senders[rank]->beginMoved(&twin));
    compareStats(host, twin);
    EXPECT_EQ(hosts[rank]->getNumRounds(), senders[rank]->getNumRounds());
  }
}

size_t Twins::send(uint64_t failAt) {
  size_t numSent = 0;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    Recorder host, twin;
    host.failAt = twin.failAt = failAt;
    expectAlike(hosts[rank]->send(host.transport()),
                senders[rank]->send(twin.transport()));
    EXPECT_EQ(host.messages.size(), twin.messages.size());
    for (size_t i = 0; i < std::min(host.messages.size(), twin.messages.size());
         ++i)
      EXPECT_TRUE(host.messages[i] == twin.messages[i])
          << "rank " << rank << ", message " << i << " of "
          << host.messages[i].bytes.size() << " and "
          << twin.messages[i].bytes.size() << " bytes";
    numSent += host.messages.size();
  }
  return numSent;
}

void Twins::abort() {
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    hosts[rank]->abort();
    senders[rank]->abort();
  }
}

void Twins::sync(uint64_t version, bool isSeed) {
  refresh();
  pack(version, isSeed);
  send();
  acknowledge(version);
}

uint32_t Twins::mostRounds() const {
  uint32_t most = 0;
  for (const auto &sender : senders)
    most = std::max(most, sender->getNumRounds());
  return most;
}

static Matrix matrixOf(const char *name, int64_t rows, int64_t columns,
                       delta_dtype_t dtype, Cut source, Cut destination,
                       int64_t tile, delta_value_op_t op = DELTA_VALUE_ID) {
  Matrix matrix = {name, rows, columns, dtype, source, destination};
  matrix.tile = tile;
  matrix.op = op;
  return matrix;
}

std::vector<Matrix> delta::test::wideModel(const Geometry &source,
                                           const Geometry &destination) {
  const Cut rows{DELTA_AXIS_TP, source.tp, 0};
  const Cut columns{DELTA_AXIS_TP, source.tp, 1};
  const Cut toRows{DELTA_AXIS_TP, destination.tp, 0};
  const Cut toColumns{DELTA_AXIS_TP, destination.tp, 1};
  return {
      // Whole rows, in tiles of more elements than a block lists.
      matrixOf("whole", 24, 512, DELTA_BF16, rows, toRows, 3072),
      // Runs of 64 and of 20 elements; one of the latter in three is aligned.
      matrixOf("runs", 16, 256, DELTA_BF16, rows, toColumns, 1024),
      matrixOf("odd", 24, 80, DELTA_BF16, rows, toColumns, 640),
      matrixOf("half", 40, 64, DELTA_FP16, rows, toColumns, 512),
      matrixOf("wide", 16, 64, DELTA_FP32, columns, toColumns, 256),
      matrixOf("ids", 6, 32, DELTA_INT64, rows, toColumns, 64),
      matrixOf("norm", 1, 77, DELTA_BF16, Cut(), Cut(), 64,
               DELTA_VALUE_ADD_ONE),
  };
}

std::vector<Matrix> delta::test::largeModel(const Geometry &destination) {
  const Cut none;
  const Cut toRows{DELTA_AXIS_TP, destination.tp, 0};
  const Cut toColumns{DELTA_AXIS_TP, destination.tp, 1};
  constexpr int64_t Tile = DELTA_MAX_TILE, Piece = 2048, Stage = 1024;
  return {
      matrixOf("whole", 832, Stage, DELTA_BF16, none, toRows, Tile),
      matrixOf("runs", 256, 512, DELTA_BF16, none, toColumns, Tile),
      matrixOf("stage", 37, Stage, DELTA_FP16, none, none, Tile),
      matrixOf("vectors", 1, 16 * Piece + Stage + 3 * 256 + 8 + 5, DELTA_BF16,
               none, none, Tile),
      matrixOf("rest", 1, 18 * Piece + 5, DELTA_BF16, none, none, Tile),
      matrixOf("wide_runs", 128, 1024, DELTA_FP32, none, toColumns, Tile),
      matrixOf("single", 64, 600, DELTA_FP32, none, none, Tile),
      matrixOf("ids", 1, 40000, DELTA_INT64, none, none, Tile),
  };
}
