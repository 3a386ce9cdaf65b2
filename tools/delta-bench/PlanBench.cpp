//===- PlanBench.cpp - delta-bench PLAN... --------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBench.h"

#include "BenchError.h"
#include "Syncs.h"

#include "tools/reference/PlanFile.h"

#include <ctime>
#include <thread>

using namespace delta::bench;
using delta::reference::PlanFile;

namespace {
/// A plan and the file it came from.
struct OpenPlan {
  std::string path;
  std::unique_ptr<PlanFile> file;
  delta_target_t target = DELTA_TARGET_HOST;

  const delta_plan_api_t &api() const { return file->api(); }
};

class PlanBench {
public:
  explicit PlanBench(const PlanOptions &options);
  void run();

private:
  void open();
  void checkTogether(const OpenPlan &plan) const;
  void makeMachine();
  void sayHead();
  void measure(const OpenPlan &plan, World &world);

  const PlanOptions &options;
  std::vector<OpenPlan> plans;
  std::unique_ptr<delta::runtime::Pool> pool;
  std::unique_ptr<Machine> machine;
  std::unique_ptr<BenchReport> report;
};
} // namespace

PlanBench::PlanBench(const PlanOptions &options) : options(options) {}

static std::string fingerprintOf(const delta_plan_api_t &api) {
  char text[40];
  snprintf(text, sizeof(text), "%016llx%016llx",
           static_cast<unsigned long long>(api.fingerprint[0]),
           static_cast<unsigned long long>(api.fingerprint[1]));
  return text;
}

/// All plans, each usable here, of one model and one kind of machine.
void PlanBench::open() {
  for (const std::string &path : options.plans) {
    std::string error;
    OpenPlan plan{path, PlanFile::open(path, error)};
    if (!plan.file)
      throw BenchError(error);
    try {
      must([&](delta_error_t text) {
        return plan.api().check_device(&plan.target, text);
      });
    } catch (const BenchError &failure) {
      throw BenchError(path + ": " + failure.what());
    }
    checkTogether(plan);
    plans.push_back(std::move(plan));
  }
}

void PlanBench::checkTogether(const OpenPlan &plan) const {
  const uint32_t numRanks = plan.api().num_ranks(DELTA_SOURCE);
  if (options.rank >= numRanks)
    throw BenchError("--rank: " + std::to_string(options.rank) + ", " +
                     plan.path + " has source ranks 0 to " +
                     std::to_string(numRanks - 1));
  if (plans.empty())
    return;
  const OpenPlan &first = plans.front();
  if (plan.target != first.target)
    throw BenchError(plan.path + ": of another target than " + first.path +
                     ", required is one kind of machine");
  const std::string both = plan.path + ": of another model than " + first.path +
                           ": \"" + plan.api().name + "\" and \"" +
                           first.api().name + "\"";
  if (std::string(plan.api().name) != first.api().name)
    throw BenchError(both);
  for (delta_side_id_t side : {DELTA_SOURCE, DELTA_DESTINATION}) {
    const uint32_t rank = side == DELTA_SOURCE ? options.rank : 0;
    const std::string other =
        Layout(plan.api(), side, rank)
            .differenceFrom(Layout(first.api(), side, rank));
    if (!other.empty())
      throw BenchError(both + ": " + other);
  }
}

void PlanBench::makeMachine() {
  uint32_t workers = options.workers;
  if (workers == 0)
    workers = std::max(1u, std::thread::hardware_concurrency());
  pool = std::make_unique<delta::runtime::Pool>(workers);
  machine = plans.front().target == DELTA_TARGET_CUDA ? makeCudaMachine()
                                                      : makeHostMachine(*pool);
}

void PlanBench::sayHead() {
  char date[32] = "";
  std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof(date), "%Y-%m-%d %H:%M", std::localtime(&now));
  report->say("# command: " + options.command);
  report->say(std::string("# date: ") + date);
  report->say(std::string("# model: ") + plans.front().api().name);
  for (const std::string &line : machine->describe())
    report->say("# " + line);
  for (const OpenPlan &plan : plans)
    report->say("# plan: " + plan.path + ", fingerprint " +
                fingerprintOf(plan.api()));
}

void PlanBench::measure(const OpenPlan &plan, World &world) {
  const uint64_t before = machine->getFreeBytes();
  PlanRanks ranks(plan.api(), world, *machine, options.threads);
  Syncs syncs(ranks, *report, options);
  report->say("# " + syncs.getSnapshot() + ": " + plan.path + ", fingerprint " +
              fingerprintOf(plan.api()));
  std::string head = "# " + syncs.getSnapshot() + ": source rank " +
                     std::to_string(options.rank) + " compares " +
                     std::to_string(syncs.getComparedBytes()) + " bytes";
  if (machine->isDevice())
    head += "; handles of all ranks here take " +
            std::to_string(before - machine->getFreeBytes()) +
            " bytes of the device";
  report->say(head);
  syncs.seed();
  for (double share : options.shares)
    syncs.measure(share);
  syncs.measureFullSync();
  syncs.measureFingerprints();
  if (machine->isDevice() && options.countsLaunches)
    syncs.countLaunches();
}

void PlanBench::run() {
  open();
  makeMachine();
  report = std::make_unique<BenchReport>(options.out);
  sayHead();
  measureRates(*machine, options, *report);
  // As much memory as the plan that needs most of it.
  bool keepsSnapshot = false;
  for (const OpenPlan &plan : plans)
    keepsSnapshot |= plan.target == DELTA_TARGET_HOST ||
                     plan.api().tables->snapshot == DELTA_SNAPSHOT_DEVICE;
  World world(plans.front().api(), *machine, *pool, options.rank,
              keepsSnapshot);
  report->say("# here: " + world.describe());
  world.fill(options.seed);
  for (const OpenPlan &plan : plans)
    measure(plan, world);
}

int delta::bench::benchPlans(const PlanOptions &options) {
  try {
    PlanBench(options).run();
    return 0;
  } catch (const std::exception &error) {
    fprintf(stderr, "delta-bench: %s\n", error.what());
    return 1;
  }
}
