//===- BenchReport.h - What is printed ------------------------ -*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Lines of a report, on the standard output and in a file. A measured line has
/// a median, its range, the rate and its share of two rates of the same run.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_BENCHREPORT_H
#define DELTA_TOOLS_DELTA_BENCH_BENCHREPORT_H

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace delta::bench {

double medianOf(std::vector<double> seconds);

class BenchReport {
public:
  /// Empty: the standard output alone. Throws where the file cannot be written.
  explicit BenchReport(const std::string &path);
  ~BenchReport();
  BenchReport(const BenchReport &) = delete;

  void say(const std::string &line);

  struct Measured {
    std::string what;
    std::string snapshot; ///< may be empty, as all that follows
    double share = -1;
    std::vector<double> seconds;
    uint64_t numBytes = 0;
    /// Bytes that cross the link between host and device.
    uint64_t linkBytes = 0;
    std::string note;
  };
  void add(const Measured &line);

  /// Bytes a second, read and written; 0: not known.
  double copyRate = 0;
  /// Bytes a second from the host to the device.
  double linkRate = 0;

private:
  FILE *file = nullptr;
};

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_BENCHREPORT_H
