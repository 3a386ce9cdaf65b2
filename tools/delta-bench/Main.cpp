//===- Main.cpp - delta-bench ---------------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BenchDiff.h"

#include <CLI/CLI.hpp>

int main(int argc, char **argv) {
  CLI::App app("Measures the stages of a sync on this machine");
  app.require_subcommand(1);
  delta::bench::DiffOptions diff;
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  diff.changed /= 100;
  return delta::bench::benchDiff(diff);
}
