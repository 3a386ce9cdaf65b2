//===- AllocationTest.cpp - Memory of a sync ------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// With a capacity, a sender allocates when it is bound and not after. A delta
/// into an engine takes memory for what changed and not for a tensor. A program
/// of its own, since it replaces operator new, and malloc too (`--wrap` in
/// CMakeLists.txt), by which buffers grow.
///
//===----------------------------------------------------------------------===//

#include "Cluster.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <malloc.h>
#include <new>

static std::atomic<uint64_t> numNews{0};

void *operator new(size_t size) {
  ++numNews;
  void *bytes = malloc(size ? size : 1);
  if (!bytes)
    throw std::bad_alloc();
  return bytes;
}
void operator delete(void *bytes) noexcept { free(bytes); }
void operator delete(void *bytes, size_t) noexcept { free(bytes); }

//===----------------------------------------------------------------------===//
// Bytes that are allocated now, at most, and at once
//===----------------------------------------------------------------------===//

static std::atomic<int64_t> liveBytes{0}, peakBytes{0}, largestBytes{0};

extern "C" {
void *__real_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *bytes);

static void note(std::atomic<int64_t> &most, int64_t now) {
  int64_t before = most;
  while (now > before && !most.compare_exchange_weak(before, now))
    ;
}

static void *taken(void *bytes) {
  auto size = int64_t(malloc_usable_size(bytes));
  note(largestBytes, size);
  note(peakBytes, liveBytes += size);
  return bytes;
}

void *__wrap_malloc(size_t size) { return taken(__real_malloc(size)); }
void *__wrap_realloc(void *old, size_t size) {
  liveBytes -= int64_t(malloc_usable_size(old));
  return taken(__real_realloc(old, size));
}
void __wrap_free(void *bytes) {
  liveBytes -= int64_t(malloc_usable_size(bytes));
  __real_free(bytes);
}
}

using namespace delta::test;
using namespace delta::runtime;

namespace {

/// Takes the bytes and drops them.
delta_transport_t nowhere() {
  delta_transport_t out = {};
  out.send = [](void *, uint32_t, uint32_t, const delta_bytes_t *, uint32_t,
                delta_error_t) { return delta_status_t(DELTA_OK); };
  return out;
}

/// Calls of operator new, and growth of the buffers, in a few syncs of all
/// ranks.
std::pair<uint64_t, uint64_t> costOfSyncs(uint64_t capacity,
                                          uint32_t numThreads) {
  Geometry source, destination;
  source.tp = source.pp = 2;
  destination.tp = 4;
  TestPlan plan(source, destination, false, 4, 4,
                mixedModel(source, destination));
  Cluster cluster(plan, {numThreads});
  cluster.fill();
  delta_transport_t transport = nowhere();
  uint64_t news = 0, bytes = 0;
  for (auto &sender : cluster.senders) {
    EXPECT_FALSE(sender->setCapacity(capacity).failed());
    bytes -= sender->getBufferBytes();
  }
  uint64_t version = 0;
  for (double share : {1.0, 0.0, 0.01, 0.5, 1.0}) {
    cluster.update(share, version, [](uint64_t bits) { return bits ^ 1; });
    ++version;
    uint64_t before = numNews;
    for (auto &sender : cluster.senders) {
      Status status = version == 1 ? sender->seed(version, nullptr)
                                   : sender->diff(version, nullptr);
      EXPECT_FALSE(status.failed() || sender->send(transport).failed() ||
                   sender->acknowledge(version).failed());
    }
    news += numNews - before;
  }
  for (auto &sender : cluster.senders)
    bytes += sender->getBufferBytes();
  return {news, bytes};
}

} // namespace

TEST(AllocationTest, ASyncWithACapacityAllocatesNothing) {
  for (uint32_t numThreads : {1u, 3u})
    for (uint64_t capacity : {64u, 200u, 1000000u}) {
      auto [news, bytes] = costOfSyncs(capacity, numThreads);
      EXPECT_EQ(news, 0u) << "capacity " << capacity;
      EXPECT_EQ(bytes, 0u) << "capacity " << capacity;
    }
}

TEST(AllocationTest, WithoutOneItGrows) {
  auto [news, bytes] = costOfSyncs(0, 1);
  EXPECT_GT(news, 0u);
  EXPECT_GT(bytes, 0u);
}

//===----------------------------------------------------------------------===//
// Into an engine
//===----------------------------------------------------------------------===//

namespace {

/// What a part of a sync allocates.
struct Cost {
  int64_t peak;    ///< live bytes above those at its begin, at most
  int64_t largest; ///< bytes at once
  int64_t kept;    ///< live bytes above those at its begin, at its end
};
template <typename Body> Cost costOf(const Body &body) {
  const int64_t before = liveBytes;
  peakBytes = before;
  largestBytes = 0;
  body();
  return {peakBytes - before, largestBytes, liveBytes - before};
}

/// A trainer with TP 2 and EP 2, an engine with TP 4 and EP 2 and a slot for
/// each expert. All matrices are 2 MiB and more on each rank.
class EngineCost {
public:
  static constexpr int64_t Rows = 2048, Columns = 2048;
  static constexpr int64_t SmallestBytes = Rows / 4 * Columns * 2;

  EngineCost() {
    tables = plan.getTables();
    tables.engine = "test";
    tables.engine_version = "1";
    tables.slots = {4, 1, first, experts};
    const Side from(tables, DELTA_SOURCE), to(tables, DELTA_DESTINATION);
    for (uint32_t rank = 0; rank < from.getNumRanks(); ++rank)
      add(from, rank, sources, senders, [&](auto &bound, auto &out) {
        return Sender::create(tables, testKernels(), rank, bound.data(),
                              uint32_t(bound.size()), 1, 1, out);
      });
    for (uint32_t rank = 0; rank < to.getNumRanks(); ++rank)
      add(to, rank, destinations, receivers, [&](auto &bound, auto &out) {
        return Receiver::create(tables, testKernels(), rank, bound.data(),
                                uint32_t(bound.size()), 1, 1, out);
      });
  }

  /// Changes every `step`th element of all sources.
  void change(int64_t step) {
    for (auto &memory : sources)
      for (uint32_t i = 0; i < memory->getParams().size(); ++i)
        for (int64_t e = 0; e < memory->getNumElements(i); e += step)
          memory->set(i, e, memory->get(i, e) ^ 1);
  }

  void expectOk(const Status &status) {
    EXPECT_FALSE(status.failed()) << status.getText();
  }

  const uint32_t first[3] = {0, 2, 4}, experts[4] = {0, 1, 2, 3};
  TestPlan plan{geometry(2), geometry(4), false, 1, 4, model()};
  delta_tables_t tables;
  std::vector<std::unique_ptr<RankMemory>> sources, destinations;
  Inproc inproc{std::chrono::seconds(5)};
  std::vector<std::unique_ptr<Sender>> senders;
  std::vector<std::unique_ptr<Receiver>> receivers;

private:
  static Geometry geometry(uint32_t tp) {
    Geometry out;
    out.tp = tp;
    out.ep = 2;
    return out;
  }
  static std::vector<Matrix> model() {
    Cut from{DELTA_AXIS_TP, 2, 0}, to{DELTA_AXIS_TP, 4, 0}, stacked;
    stacked.stacked = true;
    const int64_t tile = DELTA_MAX_TILE;
    return {{"dense", Rows, Columns, DELTA_BF16, from, to, true, false,
             DELTA_VALUE_ID, false, false, tile},
            {"expert", Rows / 2, Columns, DELTA_BF16, Cut(), stacked, true,
             true, DELTA_VALUE_ID, false, false, tile}};
  }
  template <typename Handle, typename Create>
  void add(const Side &side, uint32_t rank,
           std::vector<std::unique_ptr<RankMemory>> &memory,
           std::vector<std::unique_ptr<Handle>> &handles,
           const Create &create) {
    memory.push_back(std::make_unique<RankMemory>(side, rank, false));
    handles.emplace_back();
    expectOk(create(memory.back()->getBound(), handles.back()));
  }
};

} // namespace

TEST(AllocationTest, ADeltaIntoAnEngineAllocatesNoWholeTensor) {
  EngineCost cost;
  const delta_transport_t transport = cost.inproc.transport();
  for (auto &sender : cost.senders) {
    cost.expectOk(sender->seed(1, nullptr));
    cost.expectOk(sender->send(transport));
  }
  for (auto &receiver : cost.receivers) {
    cost.expectOk(receiver->receive(transport));
    cost.expectOk(receiver->commit());
  }
  for (auto &sender : cost.senders)
    cost.expectOk(sender->acknowledge(1));

  cost.change(/*step=*/100);
  // Messages as bytes, and those that a mailbox holds for each receiver.
  int64_t sent = 0, held = 0;
  for (auto &sender : cost.senders) {
    delta_sync_stats_t stats;
    Cost packing = costOf([&] { cost.expectOk(sender->diff(2, &stats)); });
    const auto bytes = int64_t(stats.message_bytes);
    EXPECT_GT(stats.changed, 20000u);
    EXPECT_LT(packing.largest, EngineCost::SmallestBytes / 4);
    // What was found and what is packed, each half as large again at most, and
    // room to compare one tile.
    EXPECT_GT(packing.peak, bytes);
    EXPECT_LT(packing.peak, 3 * bytes + 2 * DELTA_MAX_TILE * 2 + 65536);
    Cost sending = costOf([&] { cost.expectOk(sender->send(transport)); });
    EXPECT_LT(sending.largest, EngineCost::SmallestBytes / 4);
    sent += bytes;
    held += sending.kept;
  }
  EXPECT_GT(held, sent / 2);
  EXPECT_LT(held, sent + sent / 4 + 65536);
  for (auto &receiver : cost.receivers) {
    Cost taking = costOf([&] {
      cost.expectOk(receiver->receive(transport));
      cost.expectOk(receiver->commit());
    });
    // Which tiles are staged, and no values: the transport lends those.
    EXPECT_LT(taking.largest, EngineCost::SmallestBytes / 64);
    EXPECT_GT(taking.peak, 0);
    EXPECT_LT(taking.peak, EngineCost::SmallestBytes / 16);
    EXPECT_LE(taking.kept, 0);
  }
  for (auto &sender : cost.senders) {
    Cost advancing = costOf([&] { cost.expectOk(sender->acknowledge(2)); });
    EXPECT_EQ(advancing.peak, 0);
  }
}

/// A full sync with a capacity packs no more of it at once.
TEST(AllocationTest, AFullSyncIntoAnEngineTakesItsCapacity) {
  EngineCost cost;
  const delta_transport_t transport = nowhere();
  constexpr int64_t Capacity = 2 * DELTA_MAX_TILE;
  for (auto &sender : cost.senders) {
    cost.expectOk(sender->setCapacity(Capacity));
    Cost syncing = costOf([&] {
      cost.expectOk(sender->seed(1, nullptr));
      cost.expectOk(sender->send(transport));
      cost.expectOk(sender->acknowledge(1));
    });
    EXPECT_EQ(syncing.peak, 0);
  }
}
