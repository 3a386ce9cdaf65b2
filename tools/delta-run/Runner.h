//===- Runner.h - One run, from a model to its summary ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The order of a run. Weights after k steps are version k + 1; the seed is
/// version 1. A function that returns false has said why.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_RUN_RUNNER_H
#define DELTA_TOOLS_RUN_RUNNER_H

#include "tools/delta-run/Fault.h"
#include "tools/delta-run/FullCheck.h"
#include "tools/delta-run/Options.h"
#include "tools/delta-run/Summary.h"
#include "tools/delta-run/Weights.h"
#include "tools/reference/PlanFile.h"
#include "tools/reference/Program.h"

namespace delta::run {

class Runner {
public:
  explicit Runner(const Options &options)
      : options(options), update(options.seed, options.changedPercent / 100),
        progress(options.steps * 3 + 4) {}

  int run();

private:
  // Prepare.cpp
  bool refuseWhatIsNotBuilt();
  bool open();
  bool compile();
  bool readReference(const std::string &path);
  bool makeRanks();

  // Run.cpp
  bool seed();
  bool step(int64_t number);
  /// From a packed delta to an advanced snapshot; `held`: it was sent already,
  /// and this is what was kept.
  bool finishStep(int64_t number, const Post::Messages *held = nullptr);
  void rememberReceivers();
  int64_t countDelivered();
  bool verify(int64_t step);
  bool verifyWithPlan(int64_t step);
  bool compareReplicas(int64_t step);

  // Inject.cpp
  bool injectBefore(int64_t number, bool &ended);
  bool injectOrder(int64_t number);
  bool injectAfter(int64_t number);
  bool reportRefusal(const Refusal &refusal, int64_t step);

  // Dump.cpp
  bool dump(const char *moment);
  bool dumpRanks(const std::vector<Rank> &ranks, const std::string &prefix,
                 bool plainNames);

  bool fail(const std::string &message) {
    progress.clear();
    std::fprintf(stderr, "delta-run: %s\n", message.c_str());
    return false;
  }

  const Options &options;
  const reference::Update update;
  Progress progress;
  Summary summary;
  std::string error;

  reference::TemporaryDirectory directory;
  std::unique_ptr<reference::PlanFile> plan;
  std::unique_ptr<reference::MapSource> map;
  std::optional<reference::Program> program;
  std::optional<reference::Interpreter> source, destination;
  World world;
  std::unique_ptr<Weights> weights;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<FullCheck> fullCheck;
  std::unique_ptr<Session> session;
  std::vector<std::vector<Bytes>> before; ///< receivers, before a commit
  bool verifiesEveryStep = false;
  int64_t verifiedStep = -1;
};

} // namespace delta::run

#endif // DELTA_TOOLS_RUN_RUNNER_H
