//===- RefusalTest.cpp - Messages that do not fit -------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Recorder.h"

#include "codegen/device/PackFormat.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace delta::test;
using namespace delta::runtime;
namespace device = delta::device;

namespace {

using Bytes = std::vector<uint8_t>;

/// Two sources, one receiver with whole tensors, seeded with version 1.
class RefusalTest : public testing::Test {
protected:
  RefusalTest() : plan(two(), Geometry(), true, 2, 4, model()) {
    cluster = std::make_unique<Cluster>(plan);
    cluster->fill();
    cluster->seed(1);
    seeds = cluster->allMessages();
  }
  static Geometry two() {
    Geometry geometry;
    geometry.tp = 2;
    return geometry;
  }
  static std::vector<Matrix> model() {
    Matrix small, norm;
    small.name = "w";
    small.rows = 8;
    small.columns = 6;
    small.source.axis = DELTA_AXIS_TP;
    small.source.ways = 2;
    small.tile = 16;
    small.layered = true;
    norm.name = "norm";
    norm.columns = 5;
    norm.dtype = DELTA_FP32;
    return {small, norm};
  }

  void deliverSeed() { cluster->deliver(1); }
  /// Changes a few elements and packs version `version`.
  std::vector<Bytes> packDelta(uint64_t version) {
    cluster->update(0.2, version, [](uint64_t bits) { return bits ^ 1; });
    cluster->diff(version);
    return cluster->allMessages();
  }
  Receiver &receiver() { return *cluster->receivers[0]; }
  Status stage(const Bytes &bytes) {
    return receiver().stage({bytes.data(), bytes.size()});
  }
  void expectRefused(const Bytes &bytes, delta_status_t code,
                     const std::string &text) {
    Status status = stage(bytes);
    EXPECT_EQ(status.getCode(), code);
    EXPECT_EQ(status.getText(), text);
  }

  /// The message with a changed body of its first section, sealed anew.
  template <typename Change>
  static Bytes withBody(Bytes bytes, const Change &change) {
    uint8_t *section = bytes.data() + HeaderBytes;
    change(section + SectionHeaderBytes);
    SectionHeader header = readSectionHeader(section);
    sealSection(header, section);
    return sealed(bytes);
  }
  Bytes received() const {
    Bytes all;
    for (delta_param_t &param : cluster->destinationMemory[0]->getBound()) {
      size_t size = elementSize(param.dtype);
      for (uint32_t dim = 0; dim < param.rank; ++dim)
        size *= size_t(param.shape[dim]);
      auto *begin = static_cast<const uint8_t *>(param.data);
      all.insert(all.end(), begin, begin + size);
    }
    return all;
  }

  TestPlan plan;
  std::unique_ptr<Cluster> cluster;
  std::vector<Bytes> seeds;
};

} // namespace

TEST_F(RefusalTest, RefusesADeltaBeforeTheFirstSeed) {
  Bytes bytes = withHeader(seeds[0], [](MessageHeader &header) {
    header.flags = 0;
    header.base = 1;
    header.version = 2;
  });
  expectRefused(bytes, DELTA_NOT_SEEDED,
                "rank 0: source 0: stage: delta to version 2 before the first "
                "full sync");
}

TEST_F(RefusalTest, RefusesACommitBeforeAllSources) {
  ASSERT_FALSE(stage(seeds[0]).failed());
  Status status = receiver().commit();
  EXPECT_EQ(status.getCode(), DELTA_REFUSED);
  EXPECT_EQ(status.getText(), "rank 0: source 1: commit: no message is staged");
  EXPECT_EQ(receiver().getVersion(), 0u);
}

TEST_F(RefusalTest, RefusesASecondMessageOfASource) {
  ASSERT_FALSE(stage(seeds[0]).failed());
  expectRefused(seeds[0], DELTA_REFUSED,
                "rank 0: source 0: stage: is staged already");
}

TEST_F(RefusalTest, RefusesAnotherRun) {
  expectRefused(
      withHeader(seeds[0], [](MessageHeader &header) { header.run = 78; }),
      DELTA_REFUSED,
      "rank 0: source 0: stage: run 000000000000004e, this is run "
      "000000000000004d");
}

TEST_F(RefusalTest, RefusesAnotherPlan) {
  expectRefused(
      withHeader(seeds[0], [](MessageHeader &header) { header.plan[1] = 5; }),
      DELTA_REFUSED,
      "rank 0: source 0: stage: plan 1234567890abcdef0000000000000005, this "
      "is plan 1234567890abcdeffedcba0987654321");
}

TEST_F(RefusalTest, RefusesAnotherDestination) {
  expectRefused(
      withHeader(seeds[0],
                 [](MessageHeader &header) { header.destination = 4; }),
      DELTA_REFUSED, "rank 0: source 0: stage: is for destination rank 4");
}

TEST_F(RefusalTest, RefusesASourceThatSendsNothing) {
  expectRefused(
      withHeader(seeds[0], [](MessageHeader &header) { header.source = 9; }),
      DELTA_REFUSED, "rank 0: source 9: stage: this rank sends nothing here");
}

TEST_F(RefusalTest, RefusesAnotherBase) {
  deliverSeed();
  std::vector<Bytes> deltas = packDelta(2);
  expectRefused(
      withHeader(deltas[0], [](MessageHeader &header) { header.base = 0; }),
      DELTA_REFUSED,
      "rank 0: source 0: stage: delta from version 0 to 2, held is 1");
}

TEST_F(RefusalTest, RefusesAStaleDelta) {
  deliverSeed();
  std::vector<Bytes> deltas = packDelta(2);
  cluster->deliver(2);
  expectRefused(deltas[0], DELTA_REFUSED,
                "rank 0: source 0: stage: delta from version 1 to 2, held is "
                "2");
}

TEST_F(RefusalTest, RefusesASeedOfThePast) {
  deliverSeed();
  packDelta(2);
  cluster->deliver(2);
  expectRefused(seeds[0], DELTA_REFUSED,
                "rank 0: source 0: stage: full sync from version 0 to 1, held "
                "is 2");
}

TEST_F(RefusalTest, RefusesTwoVersionsInOneSync) {
  deliverSeed();
  std::vector<Bytes> deltas = packDelta(2);
  ASSERT_FALSE(stage(deltas[0]).failed());
  expectRefused(
      withHeader(deltas[1], [](MessageHeader &header) { header.version = 3; }),
      DELTA_REFUSED,
      "rank 0: source 1: stage: delta to version 3, staged is delta 2");
  ASSERT_FALSE(stage(deltas[1]).failed());
  ASSERT_FALSE(receiver().commit().failed());
  EXPECT_EQ(cluster->countMismatches(), 0u);
}

TEST_F(RefusalTest, RefusesAnotherLayoutVersion) {
  expectRefused(
      withHeader(seeds[0],
                 [](MessageHeader &header) { header.wireVersion = 1; }),
      DELTA_REFUSED, "rank 0: message: stage: layout version 1, required 4");
}

TEST_F(RefusalTest, RefusesEveryTruncation) {
  for (size_t size = 0; size < seeds[0].size(); ++size) {
    Bytes bytes(seeds[0].begin(), seeds[0].begin() + long(size));
    bytes.reserve(1); // an empty message has an address too
    EXPECT_EQ(stage(bytes).getCode(), DELTA_CORRUPT) << size;
  }
  Bytes longer = seeds[0];
  longer.push_back(0);
  EXPECT_EQ(stage(longer).getCode(), DELTA_CORRUPT);
}

TEST_F(RefusalTest, CatchesEveryFlippedByteAndWritesNothing) {
  deliverSeed();
  std::vector<Bytes> deltas = packDelta(2);
  Bytes before = received();
  for (size_t i = 0; i < deltas[0].size(); ++i)
    for (uint8_t mask : {0x01, 0x80, 0xff}) {
      Bytes bytes = deltas[0];
      bytes[i] ^= mask;
      Status status = stage(bytes);
      EXPECT_TRUE(status.failed()) << "byte " << i;
      EXPECT_EQ(status.getText().rfind("rank 0: ", 0), 0u);
      receiver().discard();
    }
  EXPECT_EQ(received(), before);
  ASSERT_FALSE(stage(deltas[0]).failed());
  ASSERT_FALSE(stage(deltas[1]).failed());
  ASSERT_FALSE(receiver().commit().failed());
  EXPECT_EQ(cluster->countMismatches(), 0u);
}

/// Someone who can seal a message can still not make it write out of bounds:
/// every byte of the body is varied under a valid checksum.
TEST_F(RefusalTest, SurvivesEveryBodyUnderAValidChecksum) {
  deliverSeed();
  std::vector<Bytes> deltas = packDelta(2);
  size_t body = deltas[0].size() - HeaderBytes - SectionHeaderBytes;
  uint32_t refused = 0;
  // A stage on an emulated device takes milliseconds.
  const unsigned step = cluster->device ? 85 : 5;
  for (size_t i = 0; i < body; ++i)
    for (unsigned value = 0; value < 256; value += step) {
      Status status = stage(
          withBody(deltas[0], [&](uint8_t *b) { b[i] = uint8_t(value); }));
      refused += status.failed();
      receiver().discard();
    }
  EXPECT_GT(refused, 0u);
  EXPECT_TRUE(cluster->guardsIntact());
}

TEST_F(RefusalTest, RefusesOffsetsThatDoNotAscendOrFit) {
  deliverSeed();
  // Two changes in the first tile, which has 12 of its 16 elements.
  auto &memory = *cluster->sourceMemory[0];
  uint32_t w = 0;
  memory.set(w, 0, memory.get(w, 0) ^ 1);
  memory.set(w, 2, memory.get(w, 2) ^ 1);
  cluster->diff(2);
  Bytes message = cluster->allMessages()[0];
  device::SectionShape shape = {};
  for (const Row &row : cluster->senders[0]->getShard().getExpansion().rows)
    shape.numTiles += uint64_t(row.numTiles());
  shape.numPresent = 1;
  uint64_t offsetsAt = shape.offsetsBegin();
  auto with = [&](std::initializer_list<uint16_t> offsets) {
    return withBody(message, [&](uint8_t *body) {
      memcpy(body + offsetsAt, offsets.begin(), offsets.size() * 2);
    });
  };
  const char *text =
      "rank 0: source 0: stage: offsets do not ascend in their tile";
  expectRefused(with({2, 0}), DELTA_CORRUPT, text);
  expectRefused(with({2, 2}), DELTA_CORRUPT, text);
  expectRefused(with({0, 12}), DELTA_CORRUPT, text);
  expectRefused(with({0, 65535}), DELTA_CORRUPT, text);
  EXPECT_FALSE(stage(with({0, 11})).failed());
}

TEST_F(RefusalTest, RefusesASeedThatIsNotWhole) {
  expectRefused(
      withHeader(Bytes(seeds[0].begin(), seeds[0].begin() + long(HeaderBytes)),
                 [](MessageHeader &header) {
                   header.numSections = 0;
                   header.payloadBytes = 0;
                 }),
      DELTA_CORRUPT, "rank 0: source 0: stage: a full sync has 0 tiles of 4");
  expectRefused(withBody(seeds[0], [](uint8_t *body) { body[0] &= 0xfe; }),
                DELTA_CORRUPT,
                "rank 0: source 0: stage: set 0: counts and bytes differ");
}

TEST_F(RefusalTest, SenderKeepsToItsOrder) {
  Sender &sender = *cluster->senders[0];
  EXPECT_EQ(sender.diff(2, nullptr).getText(),
            "rank 0: diff: no full sync was acknowledged yet");
  EXPECT_EQ(sender.seed(1, nullptr).getText(),
            "rank 0: seed: version 1 is neither acknowledged nor aborted");
  EXPECT_EQ(sender.acknowledge(2).getText(),
            "rank 0: acknowledge: version 2, packed is version 1");
  deliverSeed();
  EXPECT_EQ(sender.send(cluster->inproc.transport()).getText(),
            "rank 0: send: nothing is packed");
  EXPECT_EQ(sender.diff(1, nullptr).getText(),
            "rank 0: diff: version 1, the current one is 1");
  EXPECT_EQ(sender.seed(0, nullptr).getText(),
            "rank 0: seed: version 0, the current one is 1");
}

TEST_F(RefusalTest, ReceiveTakesAllMessagesOfAFailedSync) {
  deliverSeed();
  std::vector<Bytes> deltas = packDelta(2);
  delta_transport_t transport = cluster->inproc.transport();
  Bytes bad = deltas[0];
  bad.back() ^= 1;
  delta_bytes_t parts[] = {{bad.data(), bad.size()},
                           {deltas[1].data(), deltas[1].size()}};
  ASSERT_FALSE(cluster->inproc.send(0, 0, parts, 1).failed());
  ASSERT_FALSE(cluster->inproc.send(1, 0, parts + 1, 1).failed());
  Bytes before = received();
  Status status = receiver().receive(transport);
  EXPECT_EQ(status.getCode(), DELTA_CORRUPT);
  EXPECT_EQ(status.getText(), "rank 0: source 0: stage: checksum of section 0");
  EXPECT_EQ(received(), before);
  // The next try finds only its own messages.
  for (auto &sender : cluster->senders)
    sender->abort();
  cluster->diff(3);
  cluster->deliver(3);
  EXPECT_EQ(cluster->countMismatches(), 0u);
}

TEST(InprocTest, TimesOutWithNames) {
  Inproc inproc(std::chrono::milliseconds(10));
  delta_bytes_t message;
  Status status = inproc.receive(3, 5, message);
  EXPECT_EQ(status.getCode(), DELTA_REFUSED);
  EXPECT_EQ(status.getText(), "source 3 to destination 5: no message in 10 ms");
}

TEST(InprocTest, WakesReceiversWhenClosed) {
  Inproc inproc(std::chrono::seconds(60));
  std::thread closer([&] { inproc.close(); });
  delta_bytes_t message;
  Status status = inproc.receive(3, 5, message);
  closer.join();
  EXPECT_EQ(status.getText(), "source 3 to destination 5: transport is closed");
  EXPECT_TRUE(inproc.send(3, 5, nullptr, 0).failed());
}

TEST(InprocTest, KeepsTheOrderOfAPairAcrossThreads) {
  Inproc inproc(std::chrono::seconds(60));
  constexpr uint32_t Count = 200;
  std::thread sender([&] {
    for (uint32_t i = 0; i < Count; ++i) {
      delta_bytes_t part = {&i, sizeof(i)};
      EXPECT_FALSE(inproc.send(1, 2, &part, 1).failed());
    }
  });
  for (uint32_t i = 0; i < Count; ++i) {
    delta_bytes_t message;
    ASSERT_FALSE(inproc.receive(1, 2, message).failed());
    ASSERT_EQ(message.size, sizeof(i));
    EXPECT_EQ(memcmp(message.data, &i, sizeof(i)), 0);
    inproc.release(message);
  }
  sender.join();
}
