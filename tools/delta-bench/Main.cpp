//===- Main.cpp - delta-bench ---------------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BenchDiff.h"
#include "PlanBench.h"

#include <CLI/CLI.hpp>

using namespace delta::bench;

static void addPlanOptions(CLI::App &app, PlanOptions &options) {
  app.add_option("plans", options.plans,
                 "compiled plans of one model, of a GPU or of the host; they "
                 "may differ in where the snapshot lies")
      ->type_name("PLAN.so");
  app.add_option("--rank", options.rank, "source rank that is measured")
      ->capture_default_str();
  app.add_option("--p", options.shares,
                 "shares of the elements that change before a sync, of 1")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--syncs", options.syncs, "syncs of each median")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--checks", options.checks,
                 "syncs of each median that are verified, the first ones; "
                 "more than there are: all")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the weights")
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "threads of each handle: of plans of the host, and of "
                 "pageable snapshots")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--workers", options.workers,
                 "threads that make weights and changes; 0: one for each core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--copy-bytes", options.copyBytes,
                 "bytes of the copy that rates are shares of; 0: 4 GiB on a "
                 "GPU, 256 MiB on the host")
      ->capture_default_str();
  app.add_flag("--launches,!--no-launches", options.countsLaunches,
               "count launches by CUPTI after all else; on by default");
  app.add_option("--out", options.out, "a file for what is printed")
      ->type_name("FILE");
}

static CLI::App *addDiff(CLI::App &app, DiffOptions &diff) {
  CLI::App *command = app.add_subcommand(
      "diff", "Compare, pack and commit on the host, beside memcmp");
  command->add_option("--bytes", diff.numBytes, "size of the shard")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--threads", diff.numThreads, "threads of each handle")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--changed", diff.changed, "changed elements, percent")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--rounds", diff.rounds, "rounds of each measurement")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seed", diff.seed, "seed of the weights")
      ->capture_default_str();
  return command;
}

int main(int argc, char **argv) {
  CLI::App app("Measures the stages of the syncs of plans on this machine, and "
               "verifies every sync");
  app.footer("Each line: median, range and number of times; GB/s of what the "
             "stage moves at least; its share of a copy in the same run.\n"
             "Exit codes: 0 done, 1 refused or mismatch, 2 usage.");
  PlanOptions options;
  DiffOptions diff;
  addPlanOptions(app, options);
  CLI::App *command = addDiff(app, diff);
  try {
    app.parse(argc, argv);
    if (!*command && options.plans.empty())
      throw CLI::RequiredError("A plan or a subcommand");
    if (*command && !options.plans.empty())
      throw CLI::ExcludesError("diff", "plans");
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (int i = 0; i < argc; ++i)
    options.command += (i ? " " : "") + std::string(argv[i]);
  diff.changed /= 100;
  return *command ? benchDiff(diff) : benchPlans(options);
}
