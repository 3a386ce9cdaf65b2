//===- WireTest.cpp - The same messages to host and device ----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Whatever bytes come, a receiver of a device must say and write what one of
/// the host does. The inputs are those of the wire fuzzer, and changes of them.
///
//===----------------------------------------------------------------------===//

#include "DeviceTarget.h"

#include "test/fuzz/WireCase.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

using namespace delta::fuzz;
using namespace delta::runtime;

namespace {

using Bytes = std::vector<uint8_t>;

/// A receiver of one target, and its parameters.
struct End {
  End(const WireCase &world, const std::shared_ptr<Device> &device)
      : memory(Side(world.getTables(), DELTA_DESTINATION), 0, 0, device),
        receiver(world.makeReceiver(
            memory, delta::test::makeTargetIntake(device, world.getTables()))) {
  }
  Status stage(const Bytes &message) {
    return receiver->stage({message.data(), message.size()});
  }

  RankBytes memory;
  std::unique_ptr<Receiver> receiver;
};

/// A receiver of each target, with the same values.
class Ends {
public:
  explicit Ends(const WireCase &world)
      : world(world), host(world, nullptr),
        device(world, delta::test::makeTargetDevice(world.getTables())) {}

  void seed() {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      RankBytes source(Side(world.getTables(), DELTA_SOURCE), rank, 1);
      auto sender = world.makeSender(rank, source);
      Collector collector;
      ASSERT_FALSE(sender->seed(1, nullptr).failed());
      ASSERT_FALSE(sender->send(collector.transport()).failed());
      for (const Bytes &message : collector.messages)
        expectSame("seed", host.stage(message), device.stage(message));
    }
    expectSame("seed", host.receiver->commit(), device.receiver->commit());
    EXPECT_EQ(host.receiver->getVersion(), 1u);
    expectSameMemory("seed");
  }

  /// One input of the fuzzer.
  void run(const Bytes &input, const std::string &name) {
    if (input.empty())
      return;
    const uint8_t options = input[0];
    for (size_t at = 1; at + 4 <= input.size();) {
      uint32_t length;
      memcpy(&length, input.data() + at, 4);
      at += 4;
      length = uint32_t(std::min<size_t>(length, input.size() - at));
      Bytes message(input.begin() + long(at),
                    input.begin() + long(at + length));
      message.reserve(1); // an empty message has an address too
      if (options & Seal)
        sealMessage(message, world.getTables());
      Status wanted = host.stage(message);
      expectSame(name, wanted, device.stage(message));
      ++numStaged;
      numTaken += !wanted.failed();
      at += length;
    }
    finish(options & 128, name);
  }

  uint64_t numStaged = 0, numTaken = 0, numCommitted = 0;

private:
  void finish(bool compares, const std::string &name) {
    if (compares) {
      uint64_t wanted = 0, found = 0;
      Status wantedFirst, foundFirst;
      expectSame(name, host.receiver->compare(wanted, wantedFirst),
                 device.receiver->compare(found, foundFirst));
      EXPECT_EQ(found, wanted) << name;
      EXPECT_EQ(foundFirst.getText(), wantedFirst.getText()) << name;
    } else {
      Status wanted = host.receiver->commit();
      expectSame(name, wanted, device.receiver->commit());
      numCommitted += !wanted.failed();
    }
    host.receiver->discard();
    device.receiver->discard();
    EXPECT_EQ(device.receiver->getVersion(), host.receiver->getVersion());
    expectSameMemory(name);
  }
  static void expectSame(const std::string &name, const Status &wanted,
                         const Status &found) {
    EXPECT_EQ(found.getCode(), wanted.getCode()) << name;
    EXPECT_EQ(found.getText(), wanted.getText()) << name;
  }
  void expectSameMemory(const std::string &name) {
    EXPECT_EQ(device.memory.contents(), host.memory.contents()) << name;
  }

  const WireCase &world;
  End host, device;
};

std::vector<std::pair<std::string, Bytes>> corpus() {
  std::vector<std::pair<std::string, Bytes>> out;
  for (const auto &entry :
       std::filesystem::directory_iterator(DELTA_WIRE_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    out.emplace_back(entry.path().filename().string(),
                     Bytes(std::istreambuf_iterator<char>(file), {}));
  }
  std::sort(out.begin(), out.end());
  return out;
}

} // namespace

TEST(WireTest, TheCorpusEndsAlike) {
  const WireCase world;
  ASSERT_GE(corpus().size(), 10u);
  uint64_t numTaken = 0, numCommitted = 0;
  for (const auto &[name, input] : corpus()) {
    Ends ends(world);
    if (input.at(0) & IsSeeded)
      ends.seed();
    ends.run(input, name);
    numTaken += ends.numTaken;
    numCommitted += ends.numCommitted;
  }
  // The seeds themselves are taken: two messages at least of each.
  EXPECT_GE(numTaken, 20u);
  EXPECT_GE(numCommitted, 8u);
}

/// Bytes changed, inserted and cut, with checksums put right and without.
TEST(WireTest, ChangedMessagesEndAlike) {
  const WireCase world;
  std::mt19937 random(7);
  uint64_t numStaged = 0, numTaken = 0;
  for (const auto &[name, input] : corpus()) {
    Ends ends(world);
    if (input.at(0) & IsSeeded)
      ends.seed();
    for (int i = 0; i < 30; ++i) {
      Bytes changed = input;
      if (i % 4)
        changed[0] |= Seal;
      for (int j = 0; j < 1 + i % 3; ++j)
        changed[1 + random() % (changed.size() - 1)] ^=
            uint8_t(1u << random() % 8);
      if (i % 5 == 4)
        changed.resize(changed.size() - random() % (changed.size() / 2));
      ends.run(changed, name + ", change " + std::to_string(i));
    }
    numStaged += ends.numStaged;
    numTaken += ends.numTaken;
  }
  // Some of both kinds.
  EXPECT_GT(numTaken, 10u);
  EXPECT_GT(numStaged - numTaken, 50u);
}
