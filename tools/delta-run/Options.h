//===- Options.h - The command line of delta-run ----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What was asked for.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_RUN_OPTIONS_H
#define DELTA_TOOLS_RUN_OPTIONS_H

#include <cstdint>
#include <string>

namespace delta::run {

struct Options {
  std::string model, plan, reference, family;
  std::string target = "host";
  std::string transport = "inproc";
  std::string weights;
  std::string verify = "full"; ///< fingerprint, replay, full
  std::string dump, json;
  std::string inject; ///< empty, element, replica, drop, order, stale
  int64_t steps = 5;
  double changedPercent = 1;
  uint64_t seed = 1;
  uint64_t capacity = 0; ///< changed elements of a sender; 0: no limit
  uint32_t threads = 0;  ///< of each rank; 0: cores over ranks
};

/// Runs all of it; the exit code.
int run(const Options &options);

} // namespace delta::run

#endif // DELTA_TOOLS_RUN_OPTIONS_H
