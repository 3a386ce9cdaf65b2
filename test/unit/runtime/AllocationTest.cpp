//===- AllocationTest.cpp - Memory of a sync ------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// With a capacity, a sender allocates when it is bound and not after. A
/// program of its own, since it replaces operator new.
///
//===----------------------------------------------------------------------===//

#include "Cluster.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
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
