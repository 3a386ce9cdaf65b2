//===- Run.cpp - Seed, step, sync, verify ---------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The order of a run. Weights after k steps are version k + 1; the seed is
/// version 1.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/Fault.h"
#include "tools/delta-run/FullCheck.h"
#include "tools/delta-run/Options.h"
#include "tools/delta-run/PlanCheck.h"
#include "tools/delta-run/Summary.h"
#include "tools/delta-run/Weights.h"
#include "tools/reference/PlanFile.h"
#include "tools/reference/Program.h"
#include "tools/reference/Safetensors.h"
#include "tools/reference/TaggedSide.h"

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace delta::run {
namespace {

using reference::Interpreter;
using reference::PlanFile;

/// Elements over all receivers up to which every step is verified.
constexpr int64_t kVerifyEveryStep = 20'000'000;
constexpr uint64_t kRunId = 0x64656c74;

class Runner {
public:
  explicit Runner(const Options &options)
      : options(options), update(options.seed, options.changedPercent / 100),
        progress(options.steps * 3 + 4) {}

  int run();

private:
  bool refuseWhatIsNotBuilt();
  bool open();
  bool compile();
  bool readReference(const std::string &path);
  bool makeRanks();
  bool seed();
  bool step(int64_t number);
  bool finishStep(int64_t number);
  bool verify(int64_t step);
  bool verifyWithPlan(int64_t step);
  bool injectBefore(int64_t number, bool &ended);
  bool injectOrder(int64_t number);
  bool injectAfter(int64_t number);
  bool reportRefusal(const Refusal &refusal, int64_t step);
  bool dump(const char *moment);
  bool dumpRanks(const std::vector<Rank> &ranks, const std::string &prefix,
                 bool plainNames);
  void rememberReceivers();
  int64_t countDelivered();

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
  std::unique_ptr<PlanFile> plan;
  std::unique_ptr<reference::MapSource> map;
  std::optional<reference::Program> program;
  std::optional<Interpreter> source, destination;
  World world;
  std::unique_ptr<Weights> weights;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<FullCheck> fullCheck;
  std::unique_ptr<Session> session;
  std::vector<std::vector<Bytes>> before; ///< receivers, before a commit
  bool verifiesEveryStep = false;
  int64_t verifiedStep = -1;
};

//===--- preparation ------------------------------------------------------===//

bool Runner::refuseWhatIsNotBuilt() {
  if (options.target != "host")
    return fail("target " + options.target + " is not built yet");
  if (options.transport != "inproc")
    return fail("transport " + options.transport + " is not built yet");
  return true;
}

bool Runner::compile() {
  if (directory.path().empty())
    return fail("cannot make a temporary directory");
  for (const bool isPlan : {true, false}) {
    std::vector<std::string> arguments = {
        options.model, "-o",
        directory.path() + (isPlan ? "/plan.so" : "/reference.json")};
    if (isPlan)
      arguments.insert(arguments.end(), {"--target", options.target});
    else
      arguments.push_back("--emit=reference");
    if (!options.family.empty())
      arguments.insert(arguments.end(), {"--family", options.family});
    // The notes of the second call are those of the first.
    if (reference::runCompiler(arguments, /*quiet=*/!isPlan, error) != 0)
      return fail(error.empty() ? "the compiler refused " + options.model
                                : error);
  }
  return true;
}

bool Runner::readReference(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file)
    return fail("cannot read " + path);
  program = reference::parse(text, error);
  if (!program)
    return fail(path + ": " + error);
  const uint64_t *fingerprint = plan->api().fingerprint;
  if (std::memcmp(program->fingerprint, fingerprint, 16) != 0)
    return fail(path + " belongs to another plan");
  source = Interpreter::create(program->source, error);
  if (!source)
    return fail(path + ": source." + error);
  if (!program->destination)
    return true;
  destination = Interpreter::create(*program->destination, error);
  return destination ? true : fail(path + ": destination." + error);
}

bool Runner::open() {
  Stopwatch watch;
  progress.show("compile", 0);
  if (options.plan.empty() && !compile())
    return false;
  summary.seconds.compile = options.plan.empty() ? watch.lap() : 0;
  plan = PlanFile::open(options.plan.empty() ? directory.path() + "/plan.so"
                                             : options.plan,
                        error);
  if (!plan)
    return fail(error);
  map = reference::mapOfPlan(plan->api(), error);
  if (!map)
    return fail(error);
  if (options.plan.empty())
    return readReference(directory.path() + "/reference.json");
  return options.reference.empty() || readReference(options.reference);
}

bool Runner::makeRanks() {
  world = source ? makeWorld(*source, destination ? &*destination : nullptr,
                             program->replicas)
                 : makeWorld(*map);
  scramble(world.receivers);
  if (source)
    for (const auto &tensor : reference::neutralTensors(*source))
      summary.elements +=
          reference::count(source->side().tensors[size_t(tensor.tensor)].shape);
  for (uint32_t p = 0; !source && p < map->numParams(DELTA_HF, 0); ++p) {
    delta_param_info_t info = {};
    map->param(DELTA_HF, 0, p, info);
    summary.elements += info.num_elements;
  }
  int64_t received = 0;
  for (const Rank &rank : world.receivers)
    for (const Held &held : rank.params)
      received += held.numElements;
  verifiesEveryStep = received <= kVerifyEveryStep;
  summary.model = plan->api().name;
  summary.numSources = world.sources.size();
  summary.numReceivers = world.receivers.size();
  summary.steps = options.steps;
  summary.verify = options.verify;
  if (!options.weights.empty()) {
    if (!source)
      return fail("--weights needs the reference program");
    weights = Weights::open(options.weights, *source, error);
    if (!weights)
      return fail(error);
  }
  trainer =
      source ? referenceTrainer(*source, world.sources, update, weights.get())
             : planTrainer(plan->api(), *map, world.sources, update);
  session = std::make_unique<Session>(plan->api(), world, summary.seconds);
  if (options.verify == "full") {
    fullCheck = std::make_unique<FullCheck>(
        *source, destination ? &*destination : nullptr, world, update,
        weights.get());
    if (!fullCheck->prepare(error))
      return fail(error);
  }
  Stopwatch watch;
  trainer->write(0);
  summary.seconds.update += watch.lap();
  return session->create(kRunId, options.threads, error) ? true : fail(error);
}

//===--- syncs ------------------------------------------------------------===//

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
  progress.show("step " + of + ": sync", 1);
  if (!session->diff(uint64_t(number) + 1, error))
    return fail(error);
  bool ended = false;
  if (number == options.steps && !options.inject.empty() &&
      (!injectBefore(number, ended) || ended))
    return false;
  return finishStep(number);
}

/// From a packed delta to an advanced snapshot.
bool Runner::finishStep(int64_t number) {
  rememberReceivers();
  if (!session->send(error) || !session->receive(error) ||
      !session->commit(error) ||
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

//===--- faults -----------------------------------------------------------===//

/// Ends a run whose messages were tampered with: they must have been refused,
/// and the receivers must still hold the weights after `step` steps.
bool Runner::reportRefusal(const Refusal &refusal, int64_t step) {
  if (!refusal.refused)
    return fail("inject " + options.inject +
                ": not noticed: " + refusal.message);
  fail("inject " + options.inject + ": refused: " + refusal.message);
  return verify(step);
}

/// Faults of the last delta before it is delivered. `ended`: there is nothing
/// left to do.
bool Runner::injectBefore(int64_t number, bool &ended) {
  if (options.inject == "element")
    return true;
  session->post().hold();
  if (!session->send(error))
    return fail(error);
  const Post::Messages messages = session->post().takeHeld();
  session->post().takeBytes();
  ended = true;
  if (options.inject == "drop")
    return reportRefusal(
        commitWithoutOne(plan->api(), *session, messages, options.seed),
        number - 1);
  if (options.inject == "order")
    return injectOrder(number);
  // stale: the delta is delivered as it should be, then once more.
  if (!finishStep(number))
    return false;
  return reportRefusal(deliverWrongly(plan->api(), *session, messages), number);
}

/// The coordinator takes version v for delivered; v + 1 arrives first.
bool Runner::injectOrder(int64_t number) {
  if (!session->acknowledge(uint64_t(number) + 1, error))
    return fail(error);
  trainer->write(number + 1);
  if (!session->diff(uint64_t(number) + 2, error))
    return fail(error);
  session->post().hold();
  if (!session->send(error))
    return fail(error);
  const Post::Messages next = session->post().takeHeld();
  return reportRefusal(deliverWrongly(plan->api(), *session, next), number - 1);
}

/// Changes an element after the last commit; verification must find it.
bool Runner::injectAfter(int64_t number) {
  const std::string place = flipElement(*map, world, options.seed);
  if (place.empty())
    return fail("inject element: the plan delivers nothing");
  if (verify(number))
    return fail("inject element: not noticed at " + place);
  return false;
}

//===--- dump -------------------------------------------------------------===//

bool Runner::dumpRanks(const std::vector<Rank> &ranks,
                       const std::string &prefix, bool plainNames) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    std::vector<reference::TensorData> tensors;
    for (const Held &held : ranks[r].params)
      tensors.push_back(
          {plainNames ? held.name
                      : "chunk" + std::to_string(held.chunk) + "." + held.name,
           held.dtype, held.shape, held.data.get()});
    if (!reference::writeSafetensors(
            prefix + std::to_string(r) + ".safetensors", tensors, error))
      return fail(error);
  }
  return true;
}

bool Runner::dump(const char *moment) {
  if (options.dump.empty())
    return true;
  const std::string folder = options.dump + "/" + moment;
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code)
    return fail("cannot make " + folder + ": " + code.message());
  return dumpRanks(world.sources, folder + "/source-", false) &&
         dumpRanks(world.receivers, folder + "/destination-", world.neutral);
}

//===--- the whole --------------------------------------------------------===//

int Runner::run() {
  if (!refuseWhatIsNotBuilt() || !open() || !makeRanks() || !seed() ||
      !dump("before") || !verify(0))
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
  if (good || summary.mismatches)
    printTable(summary);
  if (!options.json.empty() && !writeSummary(options.json, summary, error))
    good = fail(error);
  return good ? 0 : 1;
}

} // namespace

int run(const Options &options) { return Runner(options).run(); }

} // namespace delta::run
