//===- DeviceCallsTest.cpp - What a sender asks of its device -------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Launches, arguments, allocations and failures.
///
//===----------------------------------------------------------------------===//

#include "Twins.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

namespace {

uint64_t flip(uint64_t bits) { return bits ^ 1; }

class DeviceCallsTest : public testing::TestWithParam<delta_snapshot_t> {
protected:
  DeviceCallsTest() {
    cluster.fill();
    twins.setCapacity(1);
    twins.sync(1, /*isSeed=*/true);
  }
  static TwinOptions options() {
    TwinOptions options;
    options.snapshot = GetParam();
    options.chunkBytes = 1024;
    return options;
  }
  Sender &sender() { return *twins.senders[0]; }

  /// The launches of `call`, with their arguments.
  template <typename Call>
  std::vector<EmulatedDevice::Launch> launchesOf(const Call &call) {
    twins.device->launches.clear();
    Status status = call();
    EXPECT_FALSE(status.failed()) << status.getText();
    return twins.device->launches;
  }
  /// Calls with one call of the device after the other failing, until none
  /// does; returns how many there were.
  template <typename Call>
  uint64_t failEach(const char *begin, const Call &call) {
    EmulatedDevice &device = *twins.device;
    for (uint64_t number = 0;; ++number) {
      device.failAt = device.numCalls + number;
      Status status = call();
      device.failAt = UINT64_MAX;
      if (!status.failed())
        return number;
      EXPECT_EQ(status.getCode(), DELTA_NO_MEMORY);
      EXPECT_EQ(status.getText().rfind(begin, 0), 0u) << status.getText();
      EXPECT_NE(status.getText().find(": out of memory"), std::string::npos)
          << status.getText();
    }
  }

  Geometry geometry;
  TestPlan plan{geometry, geometry, false,
                2,        2,        mixedModel(geometry, geometry)};
  Cluster cluster{plan};
  Twins twins{plan.getTables(), cluster.sourceMemory, cluster.senders,
              options()};
};

bool sameLaunches(const std::vector<EmulatedDevice::Launch> &a,
                  const std::vector<EmulatedDevice::Launch> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto &one, const auto &other) {
                      return one.kernel == other.kernel &&
                             one.numBlocks == other.numBlocks &&
                             one.arguments == other.arguments;
                    });
}

/// Takes the bytes and drops them.
delta_transport_t nowhere() {
  delta_transport_t out = {};
  out.send = [](void *, uint32_t, uint32_t, const delta_bytes_t *, uint32_t,
                delta_error_t) { return delta_status_t(DELTA_OK); };
  return out;
}

std::string nameOf(const testing::TestParamInfo<delta_snapshot_t> &info) {
  const char *const names[] = {"device", "pinned", "pageable"};
  return names[info.param];
}

} // namespace

/// So that each part can be captured once, and launched at every sync.
TEST_P(DeviceCallsTest, NoArgumentOfAPartChanges) {
  std::vector<EmulatedDevice::Launch> first, firstSeal, firstAdvance;
  const uint64_t numAllocations = twins.device->numAllocations;
  for (uint64_t version = 2; version < 6; ++version) {
    cluster.update(0.1 * double(version), version, flip);
    twins.refresh();
    uint64_t numWaits = twins.device->numWaits;
    auto launches = launchesOf([&] { return sender().compare(); });
    EXPECT_EQ(twins.device->numWaits, numWaits);
    EXPECT_FALSE(launches.empty());
    if (version == 2)
      first = launches;
    EXPECT_TRUE(sameLaunches(first, launches)) << version;
    launches = launchesOf([&] { return sender().read(version, nullptr); });
    EXPECT_TRUE(launches.empty());
    numWaits = twins.device->numWaits;
    launches = launchesOf([&] { return sender().seal(); });
    EXPECT_EQ(twins.device->numWaits, numWaits);
    EXPECT_EQ(launches.size(), 1u);
    if (version == 2)
      firstSeal = launches;
    EXPECT_TRUE(sameLaunches(firstSeal, launches)) << version;
    EXPECT_FALSE(sender().send(nowhere()).failed());
    launches = launchesOf([&] { return sender().confirm(version); });
    EXPECT_TRUE(launches.empty());
    numWaits = twins.device->numWaits;
    launches = launchesOf([&] { return sender().advance(); });
    EXPECT_EQ(twins.device->numWaits, numWaits);
    EXPECT_EQ(launches.empty(), GetParam() == DELTA_SNAPSHOT_PAGEABLE);
    if (version == 2)
      firstAdvance = launches;
    EXPECT_TRUE(sameLaunches(firstAdvance, launches)) << version;
    if (version == 4) { // a full sync in between changes nothing either
      EXPECT_FALSE(sender().seed(4, nullptr).failed());
      EXPECT_FALSE(sender().send(nowhere()).failed());
      EXPECT_FALSE(sender().acknowledge(4).failed());
    }
  }
  EXPECT_EQ(twins.device->numAllocations, numAllocations);
}

TEST_P(DeviceCallsTest, CountsTheKernelsThatItStarts) {
  uint64_t version = 1;
  for (double capacity : {1.0, 0.1}) {
    twins.setCapacity(capacity);
    for (double share : {0.0, 0.05, 0.9}) {
      cluster.update(share, ++version, flip);
      twins.refresh();
      delta_sync_stats_t stats = {};
      auto launches = launchesOf([&] {
        Status status = sender().diff(version, &stats);
        return status.failed() ? status : sender().send(nowhere());
      });
      EXPECT_EQ(launches.size(), stats.launches);
      if (sender().getNumRounds() == 1 && GetParam() != DELTA_SNAPSHOT_PAGEABLE)
        EXPECT_LE(stats.launches, 3u);
      EXPECT_FALSE(sender().acknowledge(version).failed());
    }
  }
}

TEST_P(DeviceCallsTest, NothingLeaksWhereTheDeviceHasNoMemory) {
  const size_t numBlocks = twins.device->getNumBlocks();
  auto &bound = cluster.sourceMemory[0]->getBound();
  std::vector<delta_param_t> params;
  std::vector<DeviceBuffer> data(bound.size());
  for (size_t i = 0; i < bound.size(); ++i) {
    EXPECT_FALSE(data[i].allocate(twins.device, 4096).failed());
    params.push_back(bound[i]);
    params.back().data = data[i].as();
  }
  uint64_t numCalls = failEach("rank 0: sender_create: cuM", [&] {
    EXPECT_EQ(twins.device->getNumBlocks(), numBlocks + params.size());
    std::unique_ptr<Sender> made;
    return Sender::create(twins.tables, testKernels(), 0, params.data(),
                          uint32_t(params.size()), 77, 1, made,
                          onDevice(twins.device, twins.tables));
  });
  EXPECT_GT(numCalls, 5u);
  EXPECT_EQ(twins.device->getNumBlocks(), numBlocks + params.size());
}

TEST_P(DeviceCallsTest, ACapacityThatDoesNotFitLeavesTheOldOne) {
  uint64_t old = 0;
  twins.setCapacity(0.5);
  old = sender().getBufferBytes();
  failEach("rank 0: sender_set_capacity: cuM", [&] {
    EXPECT_EQ(sender().getBufferBytes(), old);
    return sender().setCapacity(sender().getShard().getNumElements());
  });
  EXPECT_GT(sender().getBufferBytes(), old);
  cluster.update(0.01, 3, flip);
  twins.sync(2, /*isSeed=*/false);
}

/// A sync whose device failed can be aborted and done again.
TEST_P(DeviceCallsTest, ASyncThatFailedComesAgain) {
  cluster.update(0.3, 5, flip);
  twins.refresh();
  failEach("rank 0: sender_diff: cu", [&] {
    Status status = sender().diff(2, nullptr);
    EXPECT_EQ(sender().getNumRounds(), status.failed() ? 0u : 1u);
    return status;
  });
  sender().abort();
  failEach("rank 0: sender_seed: cu",
           [&] { return sender().seed(1, nullptr); });
  sender().abort();
  twins.setCapacity(0.1);
  failEach("rank 0: sender_", [&] {
    Status status = sender().diff(2, nullptr);
    if (!status.failed())
      status = sender().send(nowhere());
    // Not acknowledged: what was sent is unsure, as on the host below.
    sender().abort();
    return status;
  });
  if (GetParam() != DELTA_SNAPSHOT_BITMAP) {
    EXPECT_FALSE(cluster.senders[0]->diff(2, nullptr).failed());
    EXPECT_FALSE(cluster.senders[0]->send(nowhere()).failed());
    cluster.senders[0]->abort();
    twins.setCapacity(1);
    twins.sync(2, /*isSeed=*/false);
  }
  EXPECT_FALSE(sender().seed(9, nullptr).failed());
  failEach("rank 0: sender_acknowledge: cu",
           [&] { return sender().acknowledge(9); });
}

TEST_P(DeviceCallsTest, MemoryOfTheHostIsRefused) {
  std::vector<delta_param_t> params = cluster.sourceMemory[0]->getBound();
  const std::vector<void *> before = sender().getShard().getData();
  Status status = sender().rebind(params.data(), uint32_t(params.size()));
  EXPECT_EQ(status.getCode(), DELTA_BIND_MISMATCH);
  EXPECT_EQ(status.getText(),
            "rank 0: \"embedding\": bind: memory of the host, required: memory "
            "of the current device");
  EXPECT_EQ(sender().getShard().getData(), before);
  cluster.update(0.01, 3, flip);
  twins.refresh();
  EXPECT_FALSE(sender().diff(2, nullptr).failed());
}

INSTANTIATE_TEST_SUITE_P(Snapshots, DeviceCallsTest,
                         testing::Values(DELTA_SNAPSHOT_DEVICE,
                                         DELTA_SNAPSHOT_PINNED,
                                         DELTA_SNAPSHOT_PAGEABLE),
                         nameOf);
