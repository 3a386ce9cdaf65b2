//===- CapacityTest.cpp - Rounds of one tensor ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Recorder.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

static uint64_t flip(uint64_t bits) { return bits ^ 1; }

namespace {

/// One rank to one rank, 100 x 2,048 elements in 200 tiles, capacity 1 %.
class CapacityTest : public testing::Test {
protected:
  CapacityTest()
      : plan(Geometry(), Geometry(), false, 1, 4, model()), cluster(plan) {
    EXPECT_FALSE(sender().setCapacity(2048).failed());
    cluster.fill();
    cluster.seed(1);
    cluster.deliver(1);
  }
  static std::vector<Matrix> model() {
    Matrix matrix;
    matrix.name = "w";
    matrix.rows = 100;
    matrix.columns = 2048;
    matrix.tile = 1024;
    return {matrix};
  }
  Sender &sender() { return *cluster.senders[0]; }
  Receiver &receiver() { return *cluster.receivers[0]; }
  /// All messages of a sync in which everything changed.
  std::vector<Recorder::Message> pack(uint64_t version) {
    cluster.update(1.0, version, flip);
    cluster.diff(version);
    Recorder recorder;
    Status status = sender().send(recorder.transport());
    EXPECT_FALSE(status.failed()) << status.getText();
    return std::move(recorder.messages);
  }
  Status stage(const Recorder::Message &message) {
    return receiver().stage({message.bytes.data(), message.bytes.size()});
  }
  std::vector<uint64_t> received() const {
    std::vector<uint64_t> all;
    for (int64_t i = 0; i < 100 * 2048; ++i)
      all.push_back(cluster.destinationMemory[0]->get(0, i));
    return all;
  }

  TestPlan plan;
  Cluster cluster;
};

} // namespace

TEST_F(CapacityTest, EverythingChangedWithOnePercentIsExact) {
  cluster.update(1.0, 2, flip);
  cluster.diff(2);
  EXPECT_EQ(cluster.stats[0].changed, 100u * 2048);
  EXPECT_EQ(cluster.stats[0].tiles, 200u);
  EXPECT_EQ(cluster.stats[0].dense_tiles, 200u);
  EXPECT_EQ(sender().getNumRounds(), 100u);
  // Compare; then for each round compare, copy, seal.
  EXPECT_EQ(cluster.stats[0].launches, 301u);
  cluster.deliver(2);
  EXPECT_EQ(cluster.countMismatches(), 0u);
}

TEST_F(CapacityTest, TakesTheMemoryThatItSays) {
  // Two buffers of offset and value, room for one tile, heads of the section.
  uint64_t capacity = 2048 * (2 + 2), tile = 1024 * (2 + 2);
  EXPECT_GE(sender().getBufferBytes(), 2 * capacity + tile);
  EXPECT_LE(sender().getBufferBytes(), 2 * capacity + tile + 1024);
}

TEST_F(CapacityTest, FillsRoundsUpToTheCapacity) {
  // Tile 0 with 512 changes (sparse), tiles 1 and 2 dense, tile 3 with 1 000.
  auto &memory = *cluster.sourceMemory[0];
  auto change = [&](int64_t tile, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      memory.set(0, tile * 1024 + i, memory.get(0, tile * 1024 + i) ^ 1);
  };
  change(0, 512);
  change(1, 600);
  change(2, 1024);
  change(3, 500);
  cluster.diff(2);
  // 512 + 1,024, then 1,024 + 500: a dense tile counts whole.
  EXPECT_EQ(sender().getNumRounds(), 2u);
  Recorder recorder(cluster.inproc.transport());
  cluster.deliver(2, recorder.transport());
  EXPECT_EQ(cluster.countMismatches(), 0u);
  ASSERT_EQ(recorder.messages.size(), 2u);
  for (uint32_t round = 0; round < 2; ++round) {
    MessageHeader header = readHeader(recorder.messages[round].bytes.data());
    EXPECT_EQ(header.round, round);
    EXPECT_EQ(header.numRounds, 2u);
  }
}

TEST_F(CapacityTest, RefusesLessThanATile) {
  Status status = sender().setCapacity(1023);
  EXPECT_EQ(status.getCode(), DELTA_INVALID_ARGUMENT);
  EXPECT_EQ(status.getText(), "rank 0: capacity: 1023 elements, required are "
                              "1024: the largest tile");
  EXPECT_FALSE(sender().setCapacity(1024).failed());
  EXPECT_FALSE(sender().setCapacity(0).failed());
  EXPECT_FALSE(sender().setCapacity(UINT64_MAX).failed());
}

TEST_F(CapacityTest, RefusesToChangeUnderAPackedSync) {
  cluster.diff(2);
  EXPECT_EQ(sender().setCapacity(4096).getText(),
            "rank 0: capacity: version 2 is neither acknowledged nor aborted");
}

TEST_F(CapacityTest, SenderKeepsTheOrderOfRounds) {
  cluster.update(1.0, 2, flip);
  cluster.diff(2);
  EXPECT_EQ(sender().acknowledge(2).getText(),
            "rank 0: acknowledge: version 2: 0 of 100 rounds are sent");
  Recorder recorder;
  ASSERT_FALSE(sender().send(recorder.transport()).failed());
  EXPECT_EQ(sender().send(recorder.transport()).getText(),
            "rank 0: send: 100 of 100 rounds were sent already");
}

TEST_F(CapacityTest, AcknowledgesNothingThatWasSentInPart) {
  cluster.update(1.0, 2, flip);
  cluster.diff(2);
  Recorder recorder;
  recorder.failAt = 42;
  EXPECT_EQ(sender().send(recorder.transport()).getText(),
            "rank 0: send to destination rank 0: told to fail");
  EXPECT_EQ(sender().acknowledge(2).getText(),
            "rank 0: acknowledge: version 2: 42 of 100 rounds are sent");
  sender().abort();
  cluster.diff(3);
  cluster.deliver(3);
  EXPECT_EQ(cluster.countMismatches(), 0u);
}

TEST_F(CapacityTest, NoticesParametersThatChangeBeforeTheyAreSent) {
  for (int64_t i = 0; i < 100 * 2048; i += 3)
    cluster.sourceMemory[0]->set(0, i, cluster.sourceMemory[0]->get(0, i) ^ 1);
  cluster.diff(2);
  ASSERT_GT(sender().getNumRounds(), 1u);
  cluster.sourceMemory[0]->set(0, 1, cluster.sourceMemory[0]->get(0, 1) ^ 1);
  Recorder recorder;
  Status status = sender().send(recorder.transport());
  EXPECT_EQ(status.getCode(), DELTA_REFUSED);
  EXPECT_EQ(status.getText(),
            "rank 0: send: parameters changed since diff: round 0 of 34 has "
            "2049 elements, was 2048");
  sender().abort();
  cluster.diff(3);
  cluster.deliver(3);
  EXPECT_EQ(cluster.countMismatches(), 0u);
}

TEST_F(CapacityTest, RefusesALostRound) {
  std::vector<Recorder::Message> messages = pack(2);
  std::vector<uint64_t> before = received();
  ASSERT_FALSE(stage(messages[0]).failed());
  EXPECT_EQ(stage(messages[2]).getText(),
            "rank 0: source 0: stage: round 2 of 100 came before round 1");
  EXPECT_EQ(receiver().commit().getText(),
            "rank 0: source 0: commit: 1 of 100 rounds are staged");
  for (size_t i = 1; i + 1 < messages.size(); ++i)
    ASSERT_FALSE(stage(messages[i]).failed());
  EXPECT_EQ(receiver().commit().getText(),
            "rank 0: source 0: commit: 99 of 100 rounds are staged");
  EXPECT_EQ(received(), before);
  ASSERT_FALSE(stage(messages.back()).failed());
  ASSERT_FALSE(receiver().commit().failed());
  EXPECT_EQ(cluster.countMismatches(), 0u);
}

TEST_F(CapacityTest, RefusesARepeatedRound) {
  std::vector<Recorder::Message> messages = pack(2);
  ASSERT_FALSE(stage(messages[0]).failed());
  EXPECT_EQ(stage(messages[0]).getText(),
            "rank 0: source 0: stage: round 0 of 100 is staged already");
  for (size_t i = 1; i < messages.size(); ++i)
    ASSERT_FALSE(stage(messages[i]).failed());
  EXPECT_EQ(stage(messages[99]).getText(),
            "rank 0: source 0: stage: is staged already");
}

TEST_F(CapacityTest, RefusesAnotherNumberOfRounds) {
  std::vector<Recorder::Message> messages = pack(2);
  ASSERT_FALSE(stage(messages[0]).failed());
  EXPECT_EQ(
      stage(withHeader(messages[1], [](MessageHeader &h) { h.numRounds = 2; }))
          .getText(),
      "rank 0: source 0: stage: round 1 of 2, those before it were of "
      "100");
  EXPECT_EQ(
      stage(withHeader(messages[1], [](MessageHeader &h) { h.numRounds = 1; }))
          .getText(),
      "rank 0: message: stage: round 1 of 1");
  EXPECT_EQ(
      stage(withHeader(messages[1], [](MessageHeader &h) { h.flags = 6; }))
          .getText(),
      "rank 0: message: stage: unknown flags 0x6");
}

TEST_F(CapacityTest, RefusesATileThatComesTwice) {
  std::vector<Recorder::Message> messages = pack(2);
  ASSERT_FALSE(stage(messages[0]).failed());
  EXPECT_EQ(
      stage(withHeader(messages[0], [](MessageHeader &h) { h.round = 1; }))
          .getText(),
      "rank 0: source 0: stage: round 1: a tile of an earlier round");
  EXPECT_FALSE(stage(messages[1]).failed());
}

TEST_F(CapacityTest, RefusesASeedThatLacksARound) {
  sender().abort();
  cluster.seed(2);
  Recorder recorder;
  ASSERT_FALSE(sender().send(recorder.transport()).failed());
  auto sealedAs = [&](size_t index, uint32_t round) {
    return withHeader(recorder.messages[index], [&](MessageHeader &h) {
      h.round = round;
      h.numRounds = 2;
    });
  };
  ASSERT_FALSE(stage(sealedAs(0, 0)).failed());
  EXPECT_EQ(stage(sealedAs(2, 1)).getText(),
            "rank 0: source 0: stage: a full sync has 4 tiles of 200");
  EXPECT_TRUE(receiver().commit().failed());
}

TEST_F(CapacityTest, ReceiveTakesAllRoundsOfAFailedSync) {
  std::vector<Recorder::Message> messages = pack(2);
  for (size_t broken : {size_t(0), size_t(1), size_t(50), size_t(99)}) {
    std::vector<uint64_t> before = received();
    for (size_t i = 0; i < messages.size(); ++i) {
      Recorder::Message message = messages[i];
      if (i == broken)
        message.bytes.back() ^= 1;
      delta_bytes_t part = {message.bytes.data(), message.bytes.size()};
      ASSERT_FALSE(cluster.inproc.send(0, 0, &part, 1).failed());
    }
    EXPECT_EQ(receiver().receive(cluster.inproc.transport()).getText(),
              "rank 0: source 0: stage: checksum of section 0");
    EXPECT_EQ(received(), before);
  }
  sender().abort();
  cluster.diff(3);
  cluster.deliver(3);
  EXPECT_EQ(cluster.countMismatches(), 0u);
}
