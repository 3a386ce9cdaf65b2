//===- Syncs.cpp - The stages of a plan's syncs ---------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Syncs.h"

#include "BenchError.h"

#include <chrono>
#include <utility>

using namespace delta::bench;

static const char *nameOf(delta_snapshot_t snapshot) {
  static const char *const names[] = {"device", "pinned", "pageable", "bitmap"};
  return snapshot < 4 ? names[snapshot] : "unknown";
}

Syncs::Syncs(PlanRanks &ranks, BenchReport &report, const PlanOptions &options)
    : ranks(ranks), api(ranks.api), machine(ranks.machine), report(report),
      options(options),
      snapshot(machine.isDevice() ? nameOf(api.tables->snapshot) : "host"),
      isBitmap(machine.isDevice() &&
               api.tables->snapshot == DELTA_SNAPSHOT_BITMAP),
      comparedBytes(comparedBytesOf(options.rank)) {}

uint64_t Syncs::comparedBytesOf(uint32_t rank) const {
  delta_index_t *made = nullptr;
  must([&](delta_error_t error) { return api.index_create(&made, error); });
  std::unique_ptr<delta_index_t, void (*)(delta_index_t *)> index(
      made, api.index_destroy);
  const std::vector<Layout::Item> &items =
      ranks.world.sources[ranks.world.measured]->getLayout().getItems();
  uint64_t numBytes = 0;
  for (uint64_t i = 0; i < api.tile_count(made, rank); ++i) {
    delta_tile_info_t info = {};
    if (api.tile_info(made, rank, i, &info) == DELTA_OK)
      numBytes += uint64_t(info.num_elements) * items[info.param].elementBytes;
  }
  return numBytes;
}

void Syncs::seed() {
  ranks.seed();
  report.say("# " + snapshot + ": full sync, " + textOf(ranks.verify()));
}

/// A stage, and what it starts where that is counted.
template <typename Body> void Syncs::stage(const char *name, const Body &body) {
  if (counter)
    (void)counter->take();
  Mark begin = machine.mark();
  body();
  spans.push_back({name, begin, machine.mark()});
  if (!counter)
    return;
  machine.wait();
  counted.push_back({name, counter->take()});
}

/// New weights. A plan with a bitmap is told of them.
void Syncs::change(double share) {
  ++numChanges;
  for (auto &source : ranks.world.sources) {
    source->change(share, options.seed + numChanges);
    if (!isBitmap)
      source->upload();
  }
  if (isBitmap)
    castAll();
}

/// Every value, changed or not, as an optimizer does.
void Syncs::castAll() {
  LaunchCounter *const paused = std::exchange(counter, nullptr);
  for (size_t i = 0; i < ranks.senders.size(); ++i)
    ranks.world.sources[i]->castAll(
        [&](uint32_t param, const float *values, int64_t first, int64_t count) {
          auto cast = [&] {
            must([&](delta_error_t error) {
              return api.sender_cast(ranks.senders[i], param, values, first,
                                     count, error);
            });
          };
          if (i == ranks.world.measured)
            stage("cast", cast);
          else
            cast();
        });
  counter = paused;
}

Syncs::Outcome Syncs::sync(double share) {
  spans.clear();
  machine.forgetMarks();
  change(share);
  machine.warmUp(); // new weights came over the link
  machine.wait();
  Outcome outcome;
  ++ranks.version;
  localStage(outcome);
  deliver(outcome);
  finish(outcome);
  machine.wait();
  return outcome;
}

/// Compare, pack, read, seal. Several rounds are packed as they are sent.
void Syncs::localStage(Outcome &outcome) {
  delta_sender_t *const first = ranks.first();
  const auto begin = std::chrono::steady_clock::now();
  stage("compare+pack", [&] {
    must([&](delta_error_t error) { return api.sender_compare(first, error); });
  });
  stage("read", [&] {
    must([&](delta_error_t error) {
      return api.sender_read(first, ranks.version, &outcome.own, error);
    });
  });
  outcome.numRounds = api.sender_rounds(first);
  outcome.changed = outcome.own.changed;
  outcome.messageBytes = outcome.own.message_bytes;
  if (outcome.numRounds == 1)
    stage("seal", [&] {
      must([&](delta_error_t error) { return api.sender_seal(first, error); });
    });
  machine.wait();
  outcome.localSeconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
}

void Syncs::deliver(Outcome &outcome) {
  const delta_transport_t to =
      ranks.hasReceivers() ? ranks.mail : ranks.nowhere();
  if (ranks.hasReceivers() || outcome.numRounds > 1)
    stage("exchange", [&] {
      must([&](delta_error_t error) {
        return api.sender_send(ranks.first(), &to, error);
      });
    });
  for (delta_sender_t *sender : ranks.senders) {
    if (sender == ranks.first())
      continue;
    delta_sync_stats_t stats = {};
    must([&](delta_error_t error) {
      return api.sender_diff(sender, ranks.version, &stats, error);
    });
    must([&](delta_error_t error) {
      return api.sender_send(sender, &to, error);
    });
    outcome.changed += stats.changed;
    outcome.messageBytes += stats.message_bytes;
  }
  machine.wait();
}

void Syncs::finish(const Outcome &outcome) {
  if (ranks.hasReceivers()) {
    stage("receiver stage", [&] {
      for (delta_receiver_t *receiver : ranks.receivers)
        must([&](delta_error_t error) {
          return api.receiver_receive(receiver, &ranks.mail, error);
        });
    });
    stage("receiver commit", [&] {
      for (delta_receiver_t *receiver : ranks.receivers)
        must([&](delta_error_t error) {
          return api.receiver_commit(receiver, error);
        });
    });
  }
  auto acknowledge = [&](delta_sender_t *sender) {
    must([&](delta_error_t error) {
      return api.sender_acknowledge(sender, ranks.version, error);
    });
  };
  stage("advance", [&] { acknowledge(ranks.first()); });
  for (delta_sender_t *sender : ranks.senders)
    if (sender != ranks.first())
      acknowledge(sender);
}
