//===- WireFuzz.cpp - Any bytes as messages -------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Stages messages and commits what was taken. A message that is refused must
/// have written nothing, and what is committed stays inside its parameters.
/// With the option `Seal`, magic, run, plan, sizes and checksums are put right,
/// so that the fuzzer gets behind them.
///
//===----------------------------------------------------------------------===//

#include "WireCase.h"

#include <cstring>

using namespace delta::fuzz;
using namespace delta::runtime;

namespace {

/// A receiver that is made anew only when it has moved on.
struct Target {
  std::unique_ptr<RankBytes> memory;
  std::unique_ptr<Receiver> receiver;
  std::vector<uint8_t> contents;

  void make(const WireCase &world, bool seeded) {
    memory = std::make_unique<RankBytes>(
        Side(world.getTables(), DELTA_DESTINATION), 0, 0);
    receiver = world.makeReceiver(*memory);
    for (uint32_t rank = 0; seeded && rank < 2; ++rank) {
      RankBytes source(Side(world.getTables(), DELTA_SOURCE), rank, 1);
      auto sender = world.makeSender(rank, source);
      Collector collector;
      if (sender->seed(1, nullptr).failed() ||
          sender->send(collector.transport()).failed())
        abort();
      for (const auto &message : collector.messages)
        if (receiver->stage({message.data(), message.size()}).failed())
          abort();
    }
    if (seeded && receiver->commit().failed())
      abort();
    contents = memory->contents();
  }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const WireCase world;
  static Target targets[2];
  if (size == 0)
    return 0;
  uint8_t options = *data++;
  --size;
  bool seeded = options & IsSeeded;
  Target &target = targets[seeded];
  if (!target.receiver)
    target.make(world, seeded);
  while (size >= 4) {
    uint32_t length;
    memcpy(&length, data, 4);
    data += 4;
    size -= 4;
    length = uint32_t(std::min<size_t>(length, size));
    std::vector<uint8_t> message(data, data + length);
    message.reserve(1); // an empty message has an address too
    if (options & Seal)
      sealMessage(message, world.getTables());
    (void)target.receiver->stage({message.data(), message.size()});
    data += length;
    size -= length;
  }
  if (target.memory->contents() != target.contents)
    abort(); // written before the commit
  uint64_t mismatches = 0;
  Status first;
  if (options & 128) {
    (void)target.receiver->compare(mismatches, first);
  } else if (!target.receiver->commit().failed()) {
    target.make(world, seeded); // also a full sync to the version it had
    return 0;
  }
  target.receiver->discard();
  if (target.memory->contents() != target.contents)
    abort();
  return 0;
}
