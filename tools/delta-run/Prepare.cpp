//===- Prepare.cpp - A plan, a reference and all ranks --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What happens before the first value moves.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/Runner.h"

#include "tools/reference/TaggedSide.h"

#include <cstring>
#include <fstream>

namespace delta::run {

using reference::Interpreter;
using reference::PlanFile;

/// Elements over all receivers up to which every step is verified.
static constexpr int64_t kVerifyEveryStep = 20'000'000;
static constexpr uint64_t kRunId = 0x64656c74;

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
                 : makeWorld(*map, plan->api().tables->engine != nullptr);
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
  return session->create(kRunId, options.threads, options.capacity, error)
             ? true
             : fail(error);
}

} // namespace delta::run
