//===- SyncsTest.cpp - The stages of syncs, and what must stop them -------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Runs the measurement on the plan that is written by hand, through tables of
/// functions in which a test puts a mistake: a verification that cannot fail
/// would not be one.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-bench/Syncs.h"
#include "tools/delta-bench/BenchError.h"
#include "tools/reference/PlanFile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

using namespace delta::bench;
using delta::reference::PlanFile;
using testing::HasSubstr;
using testing::Not;

namespace {
/// The host with little memory.
class SmallMachine final : public Machine {
public:
  SmallMachine(std::unique_ptr<Machine> host, uint64_t numBytes)
      : host(std::move(host)), numBytes(numBytes) {}
  std::vector<std::string> describe() const override { return {}; }
  bool isDevice() const override { return false; }
  void *getStream() const override { return nullptr; }
  uint64_t getFreeBytes() const override { return numBytes; }
  void *allocate(uint64_t size) override { return host->allocate(size); }
  void free(void *memory) override { host->free(memory); }
  void *allocatePinned(uint64_t size) override {
    return host->allocatePinned(size);
  }
  void freePinned(void *memory) override { host->freePinned(memory); }
  bool pin(void *memory, uint64_t size) override {
    return host->pin(memory, size);
  }
  void unpin(void *memory) override { host->unpin(memory); }
  void copy(void *to, const void *from, uint64_t size) override {
    host->copy(to, from, size);
  }
  void fill(void *to, uint8_t value, uint64_t size) override {
    host->fill(to, value, size);
  }
  void wait() override { host->wait(); }
  Mark mark() override { return host->mark(); }
  double secondsBetween(Mark begin, Mark end) override {
    return host->secondsBetween(begin, end);
  }
  void forgetMarks() override { host->forgetMarks(); }

private:
  std::unique_ptr<Machine> host;
  uint64_t numBytes;
};

class SyncsTest : public testing::Test {
protected:
  void SetUp() override {
    std::string error;
    plan = PlanFile::open(DELTA_DEMO_PLAN, error);
    ASSERT_TRUE(plan) << error;
    api = plan->api();
    options.syncs = 2;
    options.rank = 1;
  }
  void TearDown() override { held = nullptr; }

  void makeWorld(uint64_t freeBytes = UINT64_MAX) {
    machine = std::make_unique<SmallMachine>(makeHostMachine(pool), freeBytes);
    world = std::make_unique<World>(api, *machine, pool, options.rank,
                                    /*keepsSnapshot=*/true);
    world->fill(/*seed=*/1);
    held = world.get();
  }
  /// All that is printed, or the failure.
  std::string run(double share) {
    const std::string path = testing::TempDir() + "delta-syncs-test";
    try {
      BenchReport report(path);
      PlanRanks ranks(api, *world, *machine, /*numThreads=*/1);
      Syncs syncs(ranks, report, options);
      syncs.seed();
      syncs.measure(share);
      syncs.measureFullSync();
      syncs.measureFingerprints();
    } catch (const BenchError &error) {
      return error.what();
    }
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    remove(path.c_str());
    return text.str();
  }

  std::unique_ptr<PlanFile> plan;
  delta_plan_api_t api;
  delta::runtime::Pool pool{2};
  PlanOptions options;
  std::unique_ptr<Machine> machine;
  std::unique_ptr<World> world;
  static World *held; ///< for functions that a test puts into a table
};
World *SyncsTest::held = nullptr;
} // namespace

TEST_F(SyncsTest, MeasuresAndVerifies) {
  makeWorld();
  const std::string text = run(0.5);
  // 20 elements of words and 4 of the norm: in the full sync, and in 3 syncs.
  EXPECT_THAT(text, HasSubstr("full sync, 24 elements verified"));
  EXPECT_THAT(text, HasSubstr(", 72 elements verified"));
  for (const char *line : {"compare+pack", "local stage", "exchange",
                           "receiver stage", "receiver commit", "advance",
                           "full sync: gather", "fingerprints, sender",
                           "fingerprints, receiver", "equal on both sides"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST_F(SyncsTest, RanksThatHoldTheSameChangeItAlike) {
  makeWorld();
  ASSERT_EQ(world->sources.size(), 2u);
  auto bytesOf = [&](size_t rank, size_t param) {
    const SourceShard &source = *world->sources[rank];
    const Layout::Item &item = source.getLayout().getItems()[param];
    return std::string(
        reinterpret_cast<const char *>(source.onHost()) + item.at, 8);
  };
  for (int step = 0; step < 3; ++step) {
    EXPECT_NE(bytesOf(0, 0), bytesOf(1, 0)); // two shards of words
    EXPECT_EQ(bytesOf(0, 1), bytesOf(1, 1)); // the norm
    const std::string before = bytesOf(0, 1);
    for (auto &source : world->sources)
      EXPECT_GT(source->change(0.9, uint64_t(step)), 0u);
    EXPECT_NE(bytesOf(0, 1), before);
  }
}

TEST_F(SyncsTest, ChangesAreUploaded) {
  makeWorld();
  SourceShard &source = *world->sources[0];
  const uint64_t numBytes = source.getLayout().getNumBytes();
  source.change(0.9, 5);
  EXPECT_NE(memcmp(source.onHost(), source.onMachine(), numBytes), 0);
  source.upload();
  for (const Layout::Item &item : source.getLayout().getItems())
    EXPECT_EQ(memcmp(source.onHost() + item.at, source.onMachine() + item.at,
                     item.numBytes),
              0);
}

/// An element of the receiver gets another bit with each commit.
static delta_status_t (*realCommit)(delta_receiver_t *, delta_error_t);
static uint8_t *spoiled;
static delta_status_t spoilingCommit(delta_receiver_t *receiver,
                                     delta_error_t error) {
  delta_status_t status = realCommit(receiver, error);
  *spoiled ^= 4;
  return status;
}

TEST_F(SyncsTest, ASpoiledElementIsFound) {
  makeWorld();
  const ReceiverMemory &receiver = world->receivers[0];
  const Layout::Item &norm = receiver.layout.getItems()[1];
  spoiled = receiver.block.as() + norm.at + norm.numBytes - 4;
  realCommit = api.receiver_commit;
  api.receiver_commit = spoilingCommit;
  const std::string text = run(0.5);
  EXPECT_THAT(text, HasSubstr("1 elements of receiver 0 differ"));
  EXPECT_THAT(text, HasSubstr("norm.weight"));
}

/// A plan that finds no difference is not believed: elements are read back.
static delta_status_t (*realCompare)(delta_receiver_t *, uint64_t *,
                                     delta_error_t);
static delta_status_t blindCompare(delta_receiver_t *receiver, uint64_t *out,
                                   delta_error_t error) {
  delta_status_t status = realCompare(receiver, out, error);
  *out = 0;
  return status;
}

TEST_F(SyncsTest, TheSampleFindsWhatThePlanDoesNot) {
  makeWorld();
  const ReceiverMemory &receiver = world->receivers[0];
  const Layout::Item &words = receiver.layout.getItems()[0];
  spoiled = receiver.block.as() + words.at + 19 * words.elementBytes;
  realCommit = api.receiver_commit;
  api.receiver_commit = spoilingCommit;
  realCompare = api.receiver_compare;
  api.receiver_compare = blindCompare;
  EXPECT_THAT(run(0.5), HasSubstr("version 1: receiver 0: "
                                  "\"words.weight\" element 19 is not "
                                  "element 7 of \"words.weight\" of source "
                                  "rank 1"));
}

TEST_F(SyncsTest, AChangeOfOtherWeightsIsFound) {
  makeWorld();
  // A sender that sees one change that is none.
  static delta_status_t (*realDiff)(delta_sender_t *, delta_error_t);
  realDiff = api.sender_compare;
  api.sender_compare = [](delta_sender_t *sender, delta_error_t error) {
    SourceShard &source = *held->sources[held->measured];
    auto *memory = const_cast<uint8_t *>(source.onMachine());
    const uint64_t numBytes = source.getLayout().getNumBytes();
    const std::vector<uint8_t> now(memory, memory + numBytes);
    memory[0] ^= 1;
    delta_status_t status = realDiff(sender, error);
    memcpy(memory, now.data(), numBytes);
    return status;
  };
  EXPECT_THAT(run(0), HasSubstr("p = 0, sync 0: version 2: 1 elements of "
                                "receiver 0 differ"));
}

TEST_F(SyncsTest, OneRankAloneWhereAllDoNotFit) {
  makeWorld(/*freeBytes=*/1000);
  EXPECT_EQ(world->sources.size(), 1u);
  EXPECT_TRUE(world->receivers.empty());
  EXPECT_EQ(world->measured, 0u);
  EXPECT_THAT(world->describe(), HasSubstr("source rank 1 alone"));
  const std::string text = run(0.5);
  EXPECT_THAT(text, HasSubstr("full sync, not verified"));
  EXPECT_THAT(text, HasSubstr("compare+pack"));
  EXPECT_THAT(text, Not(HasSubstr("receiver commit")));
}
