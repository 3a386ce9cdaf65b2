//===- Run.cpp - Seed, step, sync, verify ---------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/delta-run/Runner.h"

#include "tools/delta-run/PlanCheck.h"
#include "tools/delta-run/ReplicaCheck.h"

#include <atomic>
#include <cstring>

namespace delta::run {

bool Runner::seed() {
  progress.show("seed", 2);
  if (!session->seed(1, error))
    return fail(error);
  summary.seedBytes = session->post().takeBytes();
  return true;
}

void Runner::rememberReceivers() {
  for (const Rank &rank : world.receivers) {
    before.emplace_back();
    for (const Held &held : rank.params)
      before.back().push_back(allocate(held.numElements * held.width));
  }
  parallelFor(int64_t(before.size()), numCores(), [&](int64_t r) {
    const Rank &rank = world.receivers[size_t(r)];
    for (size_t p = 0; p < rank.params.size(); ++p)
      std::memcpy(before[size_t(r)][p].get(), rank.params[p].data.get(),
                  size_t(rank.params[p].numElements * rank.params[p].width));
  });
}

/// Elements of receivers that the last commit changed. Frees what was
/// remembered.
int64_t Runner::countDelivered() {
  std::atomic<int64_t> total(0);
  parallelFor(int64_t(before.size()), numCores(), [&](int64_t r) {
    const Rank &rank = world.receivers[size_t(r)];
    for (size_t p = 0; p < rank.params.size(); ++p)
      withWidth(rank.params[p].width, [&](auto element) {
        using T = decltype(element);
        const T *now = reinterpret_cast<T *>(rank.params[p].data.get());
        const T *then = reinterpret_cast<T *>(before[size_t(r)][p].get());
        int64_t changed = 0;
        for (int64_t e = 0; e < rank.params[p].numElements; ++e)
          changed += now[e] != then[e];
        total += changed;
      });
  });
  before.clear();
  return total;
}

bool Runner::step(int64_t number) {
  const std::string of =
      std::to_string(number) + " of " + std::to_string(options.steps);
  progress.show("step " + of + ": update", 0);
  Stopwatch watch;
  trainer->write(number);
  summary.seconds.update += watch.lap();
  if (fullCheck && !compareReplicas(number))
    return false;
  progress.show("step " + of + ": sync", 1);
  if (!session->diff(uint64_t(number) + 1, error))
    return fail(error);
  bool ended = false;
  if (number == options.steps && !options.inject.empty() &&
      (!injectBefore(number, ended) || ended))
    return false;
  return finishStep(number);
}

bool Runner::finishStep(int64_t number, const Post::Messages *held) {
  rememberReceivers();
  if (!(held ? session->forward(*held, error) : session->send(error)) ||
      !session->receive(error) || !session->commit(error) ||
      !session->acknowledge(uint64_t(number) + 1, error))
    return fail(error);
  summary.wireBytes += session->post().takeBytes();
  summary.changed += countDelivered();
  progress.show("step " + std::to_string(number), 1);
  if (verifiesEveryStep && number != options.steps && !verify(number))
    return false;
  progress.show("step " + std::to_string(number), 1);
  return true;
}

//===--- verification -----------------------------------------------------===//

bool Runner::verifyWithPlan(int64_t step) {
  PlanFindings findings;
  const delta_plan_api_t &api = plan->api();
  const auto version = uint64_t(step) + 1;
  if (options.verify == "fingerprint") {
    if (!compareFingerprints(api, *session, options.seed, findings, error))
      return fail(error);
    // A row is not an element: a replay names the first of those.
    PlanFindings named;
    if (findings.mismatches && !replay(api, *session, version, named, error))
      return fail(error);
    if (named.mismatches)
      findings.first += "; " + named.first;
  } else if (!replay(api, *session, version, findings, error)) {
    return fail(error);
  }
  session->post().takeBytes();
  summary.verified += findings.compared;
  summary.mismatches += findings.mismatches;
  if (findings.compared == 0)
    return fail("verification compared nothing");
  return findings.mismatches == 0 ? true
                                  : fail("verification: " + findings.first);
}

/// Compares what several trainer ranks hold. A fault is planted before the last
/// comparison.
bool Runner::compareReplicas(int64_t step) {
  Stopwatch watch;
  const Replicas replicas = {plan->api(), *map, *session, world};
  std::string place;
  if (options.inject == "replica" && step == (fullCheck ? options.steps : 0)) {
    place = replicas.flipOne(options.seed);
    if (place.empty())
      return fail("inject replica: no two ranks hold an element");
  }
  const bool good =
      replicas.compare(options.seed, summary.replicatedRows, error);
  summary.seconds.verify += watch.lap();
  if (!good)
    return fail(error);
  return place.empty() ? true : fail("inject replica: not noticed at " + place);
}

/// Compares all receivers with the weights after `step` steps.
bool Runner::verify(int64_t step) {
  progress.show("verify", 0);
  Stopwatch watch;
  const Seconds others = summary.seconds;
  bool good = true;
  if (fullCheck) {
    const reference::Report report = fullCheck->check(step);
    summary.verified += report.elements;
    summary.mismatches += report.mismatches;
    if (report.mismatches)
      good = fail("verification: " + toText(*report.first));
    else if (report.elements == 0)
      good = fail("verification compared nothing");
  } else {
    good = verifyWithPlan(step);
  }
  summary.seconds = others;
  summary.seconds.verify += watch.lap();
  verifiedStep = step;
  return good;
}

//===--- the whole --------------------------------------------------------===//

int Runner::run() {
  if (!refuseWhatIsNotBuilt() || !open() || !makeRanks() ||
      !compareReplicas(0) || !seed() || !dump("before") || !verify(0))
    return 1;
  bool good = true;
  for (int64_t number = 1; good && number <= options.steps; ++number)
    good = step(number);
  if (good)
    good = dump("after");
  if (good && options.inject == "element")
    good = injectAfter(options.steps);
  else if (good && verifiedStep != options.steps)
    good = verify(options.steps);
  progress.clear();
  summary.launchesPerSync = session->maxLaunches();
  summary.rounds = session->maxRounds();
  if (good || summary.mismatches)
    printTable(summary);
  if (!options.json.empty() && !writeSummary(options.json, summary, error))
    good = fail(error);
  return good ? 0 : 1;
}

int run(const Options &options) { return Runner(options).run(); }

} // namespace delta::run
