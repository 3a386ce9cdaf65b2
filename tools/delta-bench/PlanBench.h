//===- PlanBench.h - delta-bench PLAN... ---------------------- -*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The stages of the syncs of compiled plans, on the machine that they are for.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_PLANBENCH_H
#define DELTA_TOOLS_DELTA_BENCH_PLANBENCH_H

#include <cstdint>
#include <string>
#include <vector>

namespace delta::bench {

class BenchReport;
class Machine;

struct PlanOptions {
  std::vector<std::string> plans; ///< of one model; they differ in options
  uint32_t rank = 0;              ///< of the source; the one that is measured
  std::vector<double> shares = {0, 0.0003, 0.01, 0.03};
  uint32_t syncs = 9;     ///< of each median
  uint64_t checks = 1000; ///< of them, how many are verified
  uint64_t seed = 1;
  uint32_t threads = 1; ///< of each handle
  uint32_t workers = 0; ///< that make values; 0: one for each core
  uint64_t copyBytes = 0;
  bool countsLaunches = true;
  std::string out;
  std::string command; ///< as it was given
};

/// Measures, verifies, prints. Returns the exit code.
int benchPlans(const PlanOptions &options);

/// Measures and prints the rates that all others are shares of, and keeps them
/// in the report.
void measureRates(Machine &machine, const PlanOptions &options,
                  BenchReport &report);

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_PLANBENCH_H
