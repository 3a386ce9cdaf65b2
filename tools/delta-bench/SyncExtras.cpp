//===- SyncExtras.cpp - What is measured beside steady syncs --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The part of Syncs for full syncs, fingerprints and launches.
///
//===----------------------------------------------------------------------===//

#include "Syncs.h"

#include "BenchError.h"

#include <chrono>

using namespace delta::bench;

/// Of fingerprints; any number will do.
static constexpr uint64_t Key = 0x9e3779b97f4a7c15u;

void Syncs::measureFullSync() {
  delta_sender_t *const first = ranks.first();
  const delta_transport_t nowhere = ranks.nowhere();
  auto setCapacity = [&](uint64_t elements) {
    must([&](delta_error_t error) {
      return api.sender_set_capacity(first, elements, error);
    });
  };
  BenchReport::Measured line;
  line.what = "full sync: gather, seal";
  line.snapshot = snapshot;
  line.numBytes = 2 * comparedBytes;
  try {
    // In one round.
    if (machine.isDevice())
      setCapacity(UINT64_MAX);
  } catch (const BenchError &error) {
    report.say(line.what + ": not measured: " + error.what());
    return;
  }
  machine.warmUp();
  for (uint32_t i = 0; i <= options.syncs; ++i) {
    machine.forgetMarks();
    machine.wait();
    delta_sync_stats_t stats = {};
    Mark begin = machine.mark();
    must([&](delta_error_t error) {
      return api.sender_seed(first, ranks.version, &stats, error);
    });
    must([&](delta_error_t error) {
      return api.sender_send(first, &nowhere, error);
    });
    Mark end = machine.mark();
    machine.wait();
    line.note = std::to_string(stats.elements) + " elements, " +
                std::to_string(api.sender_rounds(first)) + " round(s)";
    api.sender_abort(first);
    if (i)
      line.seconds.push_back(machine.secondsBetween(begin, end));
  }
  report.add(line);
  setCapacity(0);
}

//===----------------------------------------------------------------------===//
// Fingerprints
//===----------------------------------------------------------------------===//

/// One list, asked for its length first.
template <typename Ask> static std::vector<uint64_t> listOf(const Ask &ask) {
  uint64_t count = 0;
  must([&](delta_error_t error) { return ask(nullptr, 0, &count, error); });
  std::vector<uint64_t> list(count);
  if (count)
    must([&](delta_error_t error) {
      return ask(list.data(), count, &count, error);
    });
  return list;
}

std::vector<double> Syncs::fingerprintSeconds(bool ofReceivers) {
  const uint32_t numDestinations = api.num_ranks(DELTA_DESTINATION);
  std::vector<uint64_t> room(1);
  std::vector<double> seconds;
  auto ask = [&](uint32_t destination, uint64_t *out, uint64_t *count) {
    must([&](delta_error_t error) {
      return ofReceivers
                 ? api.receiver_fingerprints(ranks.receivers[destination],
                                             options.rank, Key, out,
                                             room.size(), count, error)
                 : api.sender_fingerprints(ranks.first(), destination, Key, out,
                                           room.size(), count, error);
    });
  };
  uint64_t count = 0;
  for (uint32_t i = 0; i < numDestinations; ++i) {
    ask(i, nullptr, &count);
    room.resize(std::max<uint64_t>(room.size(), count));
  }
  machine.warmUp();
  for (uint32_t round = 0; round <= options.syncs; ++round) {
    machine.wait();
    const auto begin = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < numDestinations; ++i)
      ask(i, room.data(), &count);
    machine.wait();
    std::chrono::duration<double> passed =
        std::chrono::steady_clock::now() - begin;
    if (round)
      seconds.push_back(passed.count());
  }
  return seconds;
}

void Syncs::measureFingerprints() {
  for (bool ofReceivers : {false, true}) {
    if (ofReceivers && !ranks.hasReceivers())
      return;
    BenchReport::Measured line;
    line.what = ofReceivers ? "fingerprints, receiver" : "fingerprints, sender";
    line.snapshot = snapshot;
    line.seconds = fingerprintSeconds(ofReceivers);
    line.numBytes = comparedBytes;
    line.note = "host's clock";
    report.add(line);
  }
  compareFingerprints();
}

void Syncs::compareFingerprints() {
  uint64_t numEqual = 0;
  for (size_t i = 0; i < ranks.senders.size(); ++i)
    for (uint32_t to = 0; to < ranks.receivers.size(); ++to) {
      const uint32_t from = ranks.world.sources[i]->getLayout().getRank();
      auto sent = listOf([&](uint64_t *out, uint64_t capacity, uint64_t *count,
                             delta_error_t error) {
        return api.sender_fingerprints(ranks.senders[i], to, Key, out, capacity,
                                       count, error);
      });
      auto held = listOf([&](uint64_t *out, uint64_t capacity, uint64_t *count,
                             delta_error_t error) {
        return api.receiver_fingerprints(ranks.receivers[to], from, Key, out,
                                         capacity, count, error);
      });
      if (sent != held)
        throw BenchError("fingerprints of source rank " + std::to_string(from) +
                         " and receiver " + std::to_string(to) + " differ");
      numEqual += sent.size();
    }
  report.say("fingerprints: " + std::to_string(numEqual) +
             " of all ranks here, equal on both sides");
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

static std::string countsText(const LaunchCounts &counts) {
  std::string text = std::to_string(counts.kernels) + " kernels " +
                     std::to_string(counts.copies) + " copies " +
                     std::to_string(counts.fills) + " fills";
  return counts.graphs ? text + " " + std::to_string(counts.graphs) + " graphs"
                       : text;
}

void Syncs::countLaunches(double share, LaunchCounter &launches) {
  counted.clear();
  counter = &launches;
  const Outcome outcome = sync(share);
  counter = nullptr;
  char head[96];
  snprintf(head, sizeof(head), "launches by CUPTI, %s %g, ", snapshot.c_str(),
           share);
  uint64_t ofSender = 0, ofReceivers = 0;
  for (const auto &[stage, counts] : counted) {
    report.say(head + stage + ": " + countsText(counts));
    (stage.rfind("receiver", 0) == 0 ? ofReceivers : ofSender) +=
        counts.kernels;
  }
  report.say(head + std::string("together: ") + std::to_string(ofSender) +
             " kernels of source rank " + std::to_string(options.rank) + ", " +
             std::to_string(ofReceivers) + " of " +
             std::to_string(ranks.receivers.size()) + " receiver(s); " +
             std::to_string(outcome.own.launches) +
             " before `send` by the plan's own count");
}

void Syncs::countLaunches() {
  std::string why;
  std::unique_ptr<LaunchCounter> launches = LaunchCounter::open(why);
  if (!launches) {
    report.say("launches: no CUPTI (" + why + ")");
    return;
  }
  for (double share : options.shares)
    countLaunches(share, *launches);
}
