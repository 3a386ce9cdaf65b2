//===- DeviceReceiverTest.cpp - What a sync costs a device ----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Launches, waits and allocations of receivers of a device, and what they do
/// when one of its calls fails. What they write, the tests of the run time ask.
///
//===----------------------------------------------------------------------===//

#include "DeviceTarget.h"

#include "codegen/device/DestinationArguments.h"
#include "runtime/device/DeviceMessages.h"
#include "test/emulator/EmulatedDevice.h"
#include "test/unit/runtime/Cluster.h"
#include "test/unit/runtime/EngineCluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

using namespace delta::test;
using namespace delta::runtime;
namespace device = delta::device;

namespace {

uint64_t flip(uint64_t bits) { return bits ^ 1; }

Geometry tp(uint32_t ways) {
  Geometry out;
  out.tp = ways;
  return out;
}

/// Two sources and one receiver, whose messages lie in memory of the device.
class DeviceReceiverTest : public testing::Test {
protected:
  explicit DeviceReceiverTest(uint32_t numLayers = 2)
      : plan(tp(2), tp(1), false, numLayers, 2, mixedModel(tp(2), tp(1))),
        cluster(plan), emulated(static_cast<EmulatedDevice &>(*cluster.device)),
        receiver(*cluster.receivers[0]) {
    std::shared_ptr<MessageMemory> memory;
    EXPECT_FALSE(DeviceMessages::create(cluster.device, memory).failed());
    inproc = std::make_unique<Inproc>(std::chrono::seconds(5), memory);
    cluster.fill();
  }
  /// What is staged goes back to the transport while there is one.
  void TearDown() override { receiver.discard(); }
  /// Packs and sends; version 1 is a full sync.
  void send(uint64_t version, double share = 0.1) {
    if (version > 1)
      cluster.update(share, version, flip);
    version == 1 ? cluster.seed(version) : cluster.diff(version);
    for (auto &sender : cluster.senders)
      EXPECT_FALSE(sender->send(inproc->transport()).failed());
  }
  void acknowledge(uint64_t version) {
    for (auto &sender : cluster.senders)
      EXPECT_FALSE(sender->acknowledge(version).failed());
  }
  void receive(uint64_t version) {
    Status status = receiver.receive(inproc->transport());
    EXPECT_FALSE(status.failed()) << status.getText();
    status = receiver.commit();
    EXPECT_FALSE(status.failed()) << status.getText();
    acknowledge(version);
    EXPECT_EQ(cluster.countMismatches(), 0u);
  }
  std::vector<DeviceKernel> launched() const {
    std::vector<DeviceKernel> out;
    for (const EmulatedDevice::Launch &launch : emulated.launches)
      out.push_back(launch.kernel);
    return out;
  }

  /// The mailboxes; counts what is lent, and gives `misaligned`, behind its
  /// first byte, in place of the second source's message.
  delta_transport_t mixedTransport() {
    delta_transport_t out = {};
    out.context = this;
    out.receive = [](void *context, uint32_t source, uint32_t destination,
                     delta_bytes_t *outMessage, delta_error_t error) {
      auto &test = *static_cast<DeviceReceiverTest *>(context);
      ++test.numLent;
      if (source == 1 && !test.misaligned.empty()) {
        *outMessage = {test.misaligned.data() + 1, test.misaligned.size() - 1};
        return delta_status_t(DELTA_OK);
      }
      return test.inproc->receive(source, destination, *outMessage)
          .report(error);
    };
    out.release = [](void *context, uint32_t, uint32_t, delta_bytes_t message) {
      auto &test = *static_cast<DeviceReceiverTest *>(context);
      --test.numLent;
      test.inproc->release(message);
    };
    return out;
  }

  TestPlan plan;
  Cluster cluster;
  EmulatedDevice &emulated;
  Receiver &receiver;
  std::unique_ptr<Inproc> inproc;
  std::vector<uint8_t> misaligned;
  int numLent = 0;
};

class ManyLayersTest : public DeviceReceiverTest {
protected:
  ManyLayersTest() : DeviceReceiverTest(9) {}
};

const std::vector<DeviceKernel> Staging = {
    DeviceKernel::Frames, DeviceKernel::Sections, DeviceKernel::Heads,
    DeviceKernel::Offsets};

std::vector<DeviceKernel> with(std::vector<DeviceKernel> kernels,
                               std::initializer_list<DeviceKernel> further) {
  kernels.insert(kernels.end(), further);
  return kernels;
}

} // namespace

TEST_F(DeviceReceiverTest, ASyncIsAFewLaunchesAndOneRead) {
  send(1);
  emulated.launches.clear();
  uint64_t waits = emulated.numWaits;
  ASSERT_FALSE(receiver.receive(inproc->transport()).failed());
  EXPECT_EQ(emulated.numWaits, waits + 1);
  ASSERT_FALSE(receiver.commit().failed());
  // The commit waits because the transport takes its messages back.
  EXPECT_EQ(emulated.numWaits, waits + 2);
  EXPECT_EQ(launched(),
            with(Staging, {DeviceKernel::Zero, DeviceKernel::Scatter}));
  acknowledge(1);
  send(2);
  emulated.launches.clear();
  receive(2);
  EXPECT_EQ(launched(), with(Staging, {DeviceKernel::Scatter}));
}

TEST_F(ManyLayersTest, LaunchesAreAsManyForMoreParameters) {
  send(1);
  receive(1);
  send(2);
  emulated.launches.clear();
  receive(2);
  EXPECT_EQ(launched(), with(Staging, {DeviceKernel::Scatter}));
}

TEST_F(DeviceReceiverTest, NothingChangedIsOneLaunch) {
  send(1);
  receive(1);
  send(2, /*share=*/0);
  emulated.launches.clear();
  receive(2);
  EXPECT_EQ(launched(), std::vector<DeviceKernel>{DeviceKernel::Frames});
}

TEST_F(DeviceReceiverTest, ACommitOfCopiesWaitsForNothing) {
  cluster.seed(1);
  for (const std::vector<uint8_t> &message : cluster.allMessages())
    ASSERT_FALSE(receiver.stage({message.data(), message.size()}).failed());
  uint64_t waits = emulated.numWaits;
  ASSERT_FALSE(receiver.commit().failed());
  EXPECT_EQ(emulated.numWaits, waits);
  EXPECT_EQ(cluster.countMismatches(), 0u);
}

TEST_F(DeviceReceiverTest, SyncsAllocateNothingAfterTheFirst) {
  send(1);
  receive(1);
  send(2, 0.4);
  receive(2);
  uint64_t allocations = emulated.numAllocations;
  for (uint64_t version = 3; version < 6; ++version) {
    send(version, 0.3);
    receive(version);
  }
  EXPECT_EQ(emulated.numAllocations, allocations);
  EXPECT_TRUE(cluster.guardsIntact());
}

TEST_F(DeviceReceiverTest, CopiesOfTheHostsMessagesReuseMemory) {
  send(1);
  receive(1);
  uint64_t allocations = 0;
  for (uint64_t version = 2; version < 6; ++version) {
    cluster.update(0.3, version, flip);
    cluster.diff(version);
    for (const std::vector<uint8_t> &message : cluster.allMessages())
      ASSERT_FALSE(receiver.stage({message.data(), message.size()}).failed());
    ASSERT_FALSE(receiver.commit().failed());
    acknowledge(version);
    EXPECT_EQ(cluster.countMismatches(), 0u);
    if (version == 3)
      allocations = emulated.numAllocations;
    if (version > 3) {
      EXPECT_EQ(emulated.numAllocations, allocations);
    }
  }
}

/// What a transport lends in memory of the device is not copied.
TEST_F(DeviceReceiverTest, ReadsLentMessagesWhereTheyLie) {
  send(1);
  emulated.launches.clear();
  ASSERT_FALSE(receiver.receive(inproc->transport()).failed());
  device::StageArguments arguments;
  memcpy(&arguments, emulated.launches.at(0).arguments.data(),
         sizeof(arguments));
  ASSERT_EQ(arguments.numMessages, 2u);
  std::vector<std::vector<uint8_t>> sent = cluster.allMessages();
  std::vector<const uint8_t *> lentBytes;
  for (uint32_t i = 0; i < 2; ++i) {
    const device::MessagePlace &place = arguments.messages[i];
    ASSERT_EQ(place.numBytes, sent[i].size());
    EXPECT_EQ(memcmp(place.bytes, sent[i].data(), sent[i].size()), 0);
    EXPECT_EQ(emulated.kindOf(place.bytes), MemoryKind::Device);
    lentBytes.push_back(place.bytes);
  }
  // Memory that the transport gets back is what it uses next.
  ASSERT_FALSE(receiver.commit().failed());
  acknowledge(1);
  send(2);
  emulated.launches.clear();
  ASSERT_FALSE(receiver.receive(inproc->transport()).failed());
  memcpy(&arguments, emulated.launches.at(0).arguments.data(),
         sizeof(arguments));
  for (uint32_t i = 0; i < 2; ++i)
    EXPECT_TRUE(std::count(lentBytes.begin(), lentBytes.end(),
                           arguments.messages[i].bytes));
}

/// Each call that can fail, one after the other: what was there before stays,
/// and the same sync works afterwards.
TEST_F(DeviceReceiverTest, KeepsEverythingWhenACallFails) {
  send(1);
  receive(1);
  cluster.update(0.3, 2, flip);
  cluster.diff(2);
  const std::vector<std::vector<uint8_t>> messages = cluster.allMessages();
  auto stageAll = [&] {
    Status status;
    for (const std::vector<uint8_t> &message : messages)
      if (!status.failed())
        status = receiver.stage({message.data(), message.size()});
    return status.failed() ? status : receiver.commit();
  };
  uint64_t numFailures = 0;
  for (uint64_t call = 0;; ++call) {
    emulated.failAt = emulated.numCalls + call;
    Status status = stageAll();
    emulated.failAt = UINT64_MAX;
    if (!status.failed())
      break;
    ++numFailures;
    EXPECT_EQ(status.getCode(), DELTA_NO_MEMORY);
    EXPECT_EQ(status.getText().rfind("rank 0: ", 0), 0u) << status.getText();
    EXPECT_NE(status.getText().find("out of memory"), std::string::npos);
    EXPECT_EQ(receiver.getVersion(), 1u);
    EXPECT_NE(cluster.countMismatches(), 0u);
    receiver.discard();
  }
  // Of each message an upload, four launches and a copy of the report, the
  // scatter; memory for copies of messages, of which there was none yet.
  EXPECT_GE(numFailures, 13u);
  EXPECT_EQ(receiver.getVersion(), 2u);
  EXPECT_EQ(cluster.countMismatches(), 0u);
}

/// The same for messages of a transport, which gets all of them back.
TEST_F(DeviceReceiverTest, GivesMessagesBackWhenACallFails) {
  send(1);
  receive(1);
  cluster.update(0.3, 2, flip);
  uint64_t numFailures = 0;
  for (uint64_t call = 0;; ++call) {
    send(2, /*share=*/0);
    // The host's messages are copied, half of the time.
    if (call % 2) {
      delta_bytes_t lent;
      ASSERT_FALSE(inproc->receive(1, 0, lent).failed());
      std::vector<uint8_t> bytes(size_t(lent.size) + 1);
      memcpy(bytes.data() + 1, lent.data, lent.size);
      inproc->release(lent);
      misaligned = std::move(bytes);
    }
    delta_transport_t transport = mixedTransport();
    emulated.failAt = emulated.numCalls + call / 2;
    Status status = receiver.receive(transport);
    if (!status.failed())
      status = receiver.commit();
    emulated.failAt = UINT64_MAX;
    misaligned.clear();
    if (!status.failed())
      break;
    ++numFailures;
    EXPECT_EQ(status.getText().rfind("rank 0: ", 0), 0u) << status.getText();
    EXPECT_EQ(receiver.getVersion(), 1u);
    for (auto &sender : cluster.senders)
      sender->abort();
    receiver.discard();
    EXPECT_EQ(numLent, 0);
  }
  EXPECT_EQ(numLent, 0);
  EXPECT_GE(numFailures, 12u);
  EXPECT_EQ(receiver.getVersion(), 2u);
  EXPECT_EQ(cluster.countMismatches(), 0u);
}

TEST_F(DeviceReceiverTest, RefusesParametersOfTheHost) {
  RankMemory onHost(Side(plan.getTables(), DELTA_DESTINATION), 0, false);
  auto &bound = onHost.getBound();
  std::unique_ptr<Receiver> out;
  Status status = Receiver::create(
      plan.getTables(), testKernels(), 0, bound.data(), uint32_t(bound.size()),
      77, 1, out, makeTargetIntake(cluster.device, plan.getTables()));
  EXPECT_EQ(status.getCode(), DELTA_BIND_MISMATCH);
  EXPECT_EQ(status.getText(),
            "rank 0: \"embedding\": bind: memory of the host, required: memory "
            "of the current device");
  // The old addresses stay bound.
  send(1);
  receive(1);
  EXPECT_EQ(receiver.rebind(bound.data(), uint32_t(bound.size())).getText(),
            status.getText());
  send(2);
  receive(2);
}

TEST_F(DeviceReceiverTest, TakesAStream) {
  Stream stream = nullptr;
  ASSERT_FALSE(emulated.createStream(stream).failed());
  EXPECT_FALSE(receiver.setStream(stream).failed());
  send(1);
  receive(1);
  EXPECT_FALSE(receiver.setStream(nullptr).failed());
  emulated.destroyStream(stream);
}

/// Differences in several tiles and in both images of an expert that lies
/// twice on a rank: host and device find the same first one.
TEST(DeviceCompareTest, FindsTheFirstDifferenceOfTheHost) {
  const EnginePlan plan;
  std::vector<std::string> texts[2];
  for (int target = 0; target < 2; ++target) {
    std::unique_ptr<HostTargets> host;
    if (target == 0)
      host = std::make_unique<HostTargets>();
    EngineCluster cluster(plan);
    cluster.fill(1);
    for (auto &sender : cluster.senders)
      ASSERT_FALSE(sender->seed(1, nullptr).failed());
    cluster.deliver();
    cluster.acknowledge(1);
    for (uint32_t step = 0; step < 5; ++step) {
      for (uint32_t i = 0; i < 1 + step % 3; ++i) {
        RankMemory &memory = *cluster.memory[(step + i) % 8];
        uint32_t param = (step * 5 + i) % uint32_t(memory.getParams().size());
        int64_t at = int64_t(step * 7 + i) % memory.getNumElements(param);
        memory.set(param, at, memory.get(param, at) ^ 1);
      }
      for (auto &sender : cluster.senders) {
        ASSERT_FALSE(sender->seed(1, nullptr).failed());
        ASSERT_FALSE(sender->send(cluster.inproc.transport()).failed());
        sender->abort();
      }
      for (auto &receiver : cluster.receivers) {
        uint64_t mismatches = 0;
        Status first;
        ASSERT_FALSE(receiver->receive(cluster.inproc.transport()).failed());
        ASSERT_FALSE(receiver->compare(mismatches, first).failed());
        texts[target].push_back(std::to_string(mismatches) + " " +
                                first.getText());
      }
    }
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_NE(texts[0].back(), texts[0].front());
}
