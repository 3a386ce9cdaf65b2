//===- DeviceToDeviceTest.cpp - Syncs from a device to a device -----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Senders and receivers of emulated devices, with mailboxes in memory of the
/// receivers' one: no byte of a message is in memory of the host.
///
//===----------------------------------------------------------------------===//

#include "RoundCases.h"
#include "Twins.h"

#include "runtime/device/DeviceMessages.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

namespace {

class DeviceToDeviceTest : public testing::TestWithParam<RoundCase> {
protected:
  /// Sends what the senders of the device have packed, and commits it.
  void deliver(uint64_t version) {
    for (auto &sender : twins.senders)
      expectOk(sender->send(inproc->transport()));
    for (auto &receiver : cluster.receivers) {
      expectOk(receiver->receive(inproc->transport()));
      expectOk(receiver->commit());
    }
    for (auto &sender : twins.senders)
      expectOk(sender->acknowledge(version));
    EXPECT_EQ(cluster.countMismatches(), 0u) << "version " << version;
  }
  /// Two full syncs, and deltas of some shares.
  void run() {
    std::shared_ptr<MessageMemory> memory;
    expectOk(DeviceMessages::create(cluster.device, memory));
    inproc = std::make_unique<Inproc>(std::chrono::seconds(5), memory);
    cluster.fill();
    uint64_t version = 0;
    for (double share : {1.0, 0.03, 0.6, 0.0, 1.0}) {
      ++version;
      if (version > 1)
        cluster.update(share, version, [](uint64_t bits) { return bits ^ 1; });
      twins.refresh();
      for (auto &sender : twins.senders)
        expectOk(share == 1 ? sender->seed(version, nullptr)
                            : sender->diff(version, nullptr));
      deliver(version);
    }
    EXPECT_TRUE(cluster.guardsIntact());
  }
  static void expectOk(const Status &status) {
    EXPECT_FALSE(status.failed()) << status.getText();
  }

  TestPlan plan{GetParam().source,
                GetParam().destination,
                GetParam().toHf,
                2,
                4,
                mixedModel(GetParam().source, GetParam().destination)};
  Cluster cluster{plan};
  Twins twins{plan.getTables(), cluster.sourceMemory, cluster.senders};
  std::unique_ptr<Inproc> inproc;
};

} // namespace

TEST_P(DeviceToDeviceTest, DeliversEveryElement) {
  twins.setCapacity(1);
  run();
}

TEST_P(DeviceToDeviceTest, DeliversItInRounds) {
  twins.setCapacity(0.1);
  run();
}

INSTANTIATE_TEST_SUITE_P(Geometries, DeviceToDeviceTest,
                         testing::ValuesIn(RoundCases), [](const auto &info) {
                           return std::string(info.param.name);
                         });
