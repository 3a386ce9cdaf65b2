//===- Syncs.h - The stages of a plan's syncs ----------------- -*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Syncs of one plan, each stage between two marks:
///
///   change | compare+pack, read, seal | exchange | stage, commit | advance
///
/// The measured rank sends to nobody first, so that its seal is seen alone.
/// The others sync beside it, not timed. With a bitmap, `change` is the
/// optimizer's cast of all values.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_SYNCS_H
#define DELTA_TOOLS_DELTA_BENCH_SYNCS_H

#include "BenchReport.h"
#include "LaunchCounter.h"
#include "PlanBench.h"
#include "PlanRanks.h"

#include <map>

namespace delta::bench {

class Syncs {
public:
  Syncs(PlanRanks &ranks, BenchReport &report, const PlanOptions &options);

  /// The first full sync.
  void seed();
  /// Medians of steady syncs, after one that is not counted.
  void measure(double share);
  /// The gather of all elements into the order of a full sync, with its seal.
  void measureFullSync();
  void measureFingerprints();
  /// One sync of each share, counted by CUPTI.
  void countLaunches();

  /// "device", "pinned", "pageable", "bitmap"; "host" for a plan of the host.
  const std::string &getSnapshot() const { return snapshot; }
  /// Bytes of the weights that the measured rank compares.
  uint64_t getComparedBytes() const { return comparedBytes; }

private:
  /// Of all source ranks; `own` is the measured one's.
  struct Outcome {
    delta_sync_stats_t own = {};
    uint64_t changed = 0;
    uint64_t messageBytes = 0;
    uint32_t numRounds = 0;
    double localSeconds = 0; ///< compare, read and seal, on the host's clock
  };
  struct Span {
    std::string stage;
    Mark begin, end;
  };
  using Samples = std::map<std::string, std::vector<double>>;

  template <typename Body> void stage(const char *name, const Body &body);
  void change(double share);
  void castAll();
  Outcome sync(double share);
  void localStage(Outcome &outcome);
  void deliver(Outcome &outcome);
  void finish(const Outcome &outcome);
  void collect(Samples &samples);
  PlanRanks::Verified verify(double share, uint32_t number);
  static std::string textOf(const PlanRanks::Verified &verified);
  BenchReport::Measured lineOf(const char *stage, double share,
                               const Samples &samples) const;
  void reportLocal(double share, const Samples &samples,
                   const Outcome &outcome);
  void reportOthers(double share, const Samples &samples,
                    const Outcome &outcome,
                    const PlanRanks::Verified &verified);
  void countLaunches(double share, LaunchCounter &launches);
  std::vector<double> fingerprintSeconds(bool ofReceivers);
  void compareFingerprints();
  uint64_t comparedBytesOf(uint32_t rank) const;

  PlanRanks &ranks;
  const delta_plan_api_t &api;
  Machine &machine;
  BenchReport &report;
  const PlanOptions &options;
  std::string snapshot;
  bool isBitmap;
  uint64_t comparedBytes;
  uint64_t numChanges = 0; ///< calls of `change`: the seed of the next
  std::vector<Span> spans;
  LaunchCounter *counter = nullptr;
  std::vector<std::pair<std::string, LaunchCounts>> counted;
};

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_SYNCS_H
