//===- BenchDiff.h - delta-bench diff ---------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The host sync, stage by stage, beside memcmp over the same two buffers with
/// the same threads in the same run.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_BENCHDIFF_H
#define DELTA_TOOLS_DELTA_BENCH_BENCHDIFF_H

#include <cstdint>

namespace delta::bench {

struct DiffOptions {
  uint64_t numBytes = uint64_t(1) << 30;
  uint32_t numThreads = 1;
  double changed = 0; ///< share of the elements
  uint32_t rounds = 9;
  uint64_t seed = 1;
};

/// Measures, checks every element of the receiver, prints. Returns the exit
/// code.
int benchDiff(const DiffOptions &options);

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_BENCHDIFF_H
