//===- Main.cpp - delta-run -----------------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The command line. Exit codes: 0 all receivers are right, 1 refused or a
/// mismatch, 2 usage.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/Options.h"

#include <CLI/CLI.hpp>

/// Rules between options that the parser does not know.
static void checkTogether(const delta::run::Options &options) {
  if (options.model.empty() == options.plan.empty())
    throw CLI::ValidationError("model.json or --plan", "give one of the two");
  if (!options.reference.empty() && options.plan.empty())
    throw CLI::ValidationError("--reference", "goes with --plan");
  if (!options.plan.empty() && !options.family.empty())
    throw CLI::ValidationError("--family", "goes with model.json");
  if (!options.plan.empty() && options.reference.empty() &&
      options.verify == "full")
    throw CLI::ValidationError(
        "--verify full", "needs --reference: a plan alone cannot be its own "
                         "witness");
  const bool ofMessages = options.inject == "drop" ||
                          options.inject == "order" ||
                          options.inject == "stale";
  if (ofMessages && options.steps < 1)
    throw CLI::ValidationError("--inject " + options.inject,
                               "needs one step or more");
}

/// Parses the command line and runs; the exit code.
static int runTool(int argc, char **argv) {
  CLI::App app("Starts every trainer rank and receiver of a plan in this "
               "process: seeds, steps, syncs and verifies all elements");
  app.name("delta-run");
  delta::run::Options options;
  app.add_option("model", options.model, "model.json to compile");
  app.add_option("--plan", options.plan, "compiled plan, instead of a model");
  app.add_option("--reference", options.reference,
                 "reference program of --plan (--emit=reference)");
  app.add_option("--family", options.family,
                 "mapping description to compile with");
  app.add_option("--target", options.target, "where kernels run")
      ->check(CLI::IsMember({"host", "cuda"}))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "training steps after the seed")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--changed", options.changedPercent,
                 "percentage of the elements that a step changes")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--transport", options.transport, "how messages travel")
      ->check(CLI::IsMember({"inproc", "gloo", "nccl", "files"}))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of weights and updates")
      ->capture_default_str();
  app.add_option("--weights", options.weights,
                 "safetensors checkpoint to start from");
  app.add_option("--verify", options.verify,
                 "full: every element against the reference program")
      ->check(CLI::IsMember({"fingerprint", "replay", "full"}))
      ->capture_default_str();
  app.add_option("--dump", options.dump,
                 "write all ranks here, before and after");
  app.add_option("--inject", options.inject, "plant a fault")
      ->check(CLI::IsMember({"element", "replica", "drop", "order", "stale"}));
  app.add_option("--threads", options.threads,
                 "threads of each rank (0: cores over ranks)")
      ->capture_default_str();
  app.add_option("--capacity", options.capacity,
                 "changed elements that a trainer rank packs at once (0: all); "
                 "more go in rounds")
      ->capture_default_str();
  app.add_option("--json", options.json, "write the counts to this file");
  try {
    app.parse(argc, argv);
    checkTogether(options);
  } catch (const CLI::CallForHelp &help) {
    return app.exit(help);
  } catch (const CLI::ParseError &error) {
    app.exit(error);
    return 2;
  }
  return delta::run::run(options);
}

int main(int argc, char **argv) {
  try {
    return runTool(argc, argv);
  } catch (const std::exception &exception) {
    std::fputs("delta-run: ", stderr);
    std::fputs(exception.what(), stderr);
    std::fputs("\n", stderr);
  }
  return 1;
}
