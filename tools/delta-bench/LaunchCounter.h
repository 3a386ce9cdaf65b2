//===- LaunchCounter.h - What a process starts on a GPU ------- -*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Counts calls of the CUDA driver as CUPTI reports them: no trust in what a
/// plan says of itself. CUPTI is opened at run time, in
/// $CUDA_HOME/extras/CUPTI/lib64 and where the loader looks. A build that
/// found no cupti.h has no counter (NoCupti.cpp).
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_LAUNCHCOUNTER_H
#define DELTA_TOOLS_DELTA_BENCH_LAUNCHCOUNTER_H

#include <cstdint>
#include <memory>
#include <string>

namespace delta::bench {

struct LaunchCounts {
  uint64_t kernels = 0; ///< launches of kernels
  uint64_t graphs = 0;  ///< launches of graphs, whatever is in them
  uint64_t copies = 0;
  uint64_t fills = 0;
};

class LaunchCounter {
public:
  virtual ~LaunchCounter() = default;
  /// Counts since the last call. All threads of the process are counted.
  virtual LaunchCounts take() = 0;

  /// Starts to count; calls of the driver take longer while it lives. Null,
  /// with a sentence in `why`, where that cannot be.
  static std::unique_ptr<LaunchCounter> open(std::string &why);
};

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_LAUNCHCOUNTER_H
