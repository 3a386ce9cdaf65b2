//===- SyncReport.cpp - Lines of steady syncs -----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The part of Syncs that repeats, verifies and says how many bytes each stage
/// has to move. Rates count those: what a stage reads and writes at least.
///
//===----------------------------------------------------------------------===//

#include "Syncs.h"

#include "BenchError.h"

using namespace delta::bench;

/// Sums what a stage took in one sync, and adds that as a sample.
void Syncs::collect(Samples &samples) {
  std::map<std::string, double> sums;
  for (const Span &span : spans)
    sums[span.stage] += machine.secondsBetween(span.begin, span.end);
  for (const auto &[stage, seconds] : sums)
    samples[stage].push_back(seconds);
}

std::string Syncs::textOf(const PlanRanks::Verified &verified) {
  if (verified.numCompared == 0)
    return "not verified";
  return std::to_string(verified.numCompared) + " elements verified, " +
         std::to_string(verified.numReadBack) + " read back";
}

PlanRanks::Verified Syncs::verify(double share, uint32_t number) {
  try {
    return ranks.verify();
  } catch (const BenchError &error) {
    char where[64];
    snprintf(where, sizeof(where), "p = %g, sync %u: ", share, number);
    throw BenchError(where + std::string(error.what()));
  }
}

void Syncs::measure(double share) {
  Samples samples;
  Outcome last;
  PlanRanks::Verified sum;
  for (uint32_t i = 0; i <= options.syncs; ++i) {
    last = sync(share);
    if (i) {
      collect(samples);
      samples["local"].push_back(last.localSeconds);
    }
    if (i < options.checks) {
      PlanRanks::Verified verified = verify(share, i);
      sum.numCompared += verified.numCompared;
      sum.numReadBack += verified.numReadBack;
    }
  }
  reportLocal(share, samples, last);
  reportOthers(share, samples, last, sum);
}

BenchReport::Measured Syncs::lineOf(const char *stage, double share,
                                    const Samples &samples) const {
  BenchReport::Measured line;
  line.what = stage;
  line.snapshot = snapshot;
  line.share = share;
  if (auto found = samples.find(stage); found != samples.end())
    line.seconds = found->second;
  return line;
}

void Syncs::reportLocal(double share, const Samples &samples,
                        const Outcome &outcome) {
  const delta_sync_stats_t &own = outcome.own;
  const bool isOfLink = snapshot == "pinned" || snapshot == "pageable";
  if (isBitmap) {
    BenchReport::Measured cast = lineOf("cast", share, samples);
    const uint64_t numElements =
        ranks.world.sources[ranks.world.measured]->getLayout().getNumBytes() /
        2;
    cast.numBytes = 6 * numElements; // fp32 and what is held, read
    cast.note = std::to_string(numElements) + " elements";
    report.add(cast);
  }
  BenchReport::Measured compare = lineOf("compare+pack", share, samples);
  // Weights and snapshot, or marks and what they point at; the packed delta.
  compare.numBytes =
      isBitmap ? comparedBytes / 16 + 2 * own.changed : 2 * comparedBytes;
  compare.linkBytes = isOfLink ? comparedBytes : 0;
  compare.note = "changed " + std::to_string(own.changed) + " tiles " +
                 std::to_string(own.tiles) + " dense " +
                 std::to_string(own.dense_tiles) + " message bytes " +
                 std::to_string(own.message_bytes) + " rounds " +
                 std::to_string(outcome.numRounds);
  report.add(compare);
  BenchReport::Measured local = compare;
  local.what = "local stage, host";
  local.seconds = samples.at("local");
  local.note =
      samples.count("seal") ? "compare+pack, read, seal" : "compare+pack, read";
  report.add(local);
  if (samples.count("seal")) {
    BenchReport::Measured seal = lineOf("seal", share, samples);
    seal.numBytes = own.message_bytes;
    report.add(seal);
  }
}

void Syncs::reportOthers(double share, const Samples &samples,
                         const Outcome &outcome,
                         const PlanRanks::Verified &verified) {
  const uint64_t own = outcome.own.message_bytes;
  auto add = [&](const char *stage, uint64_t numBytes, std::string note = "") {
    BenchReport::Measured line = lineOf(stage, share, samples);
    if (line.seconds.empty())
      return;
    line.numBytes = numBytes;
    line.note = std::move(note);
    report.add(line);
  };
  add("exchange", 2 * own, outcome.numRounds > 1 ? "packing included" : "");
  add("receiver stage", outcome.messageBytes);
  add("receiver commit", outcome.messageBytes + 2 * outcome.changed,
      "changed " + std::to_string(outcome.changed) + ", " + textOf(verified));
  // A bitmap has no values to advance.
  add("advance", isBitmap ? 0 : own + 2 * outcome.own.changed);
}
