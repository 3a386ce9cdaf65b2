//===- Rates.cpp - What this machine can reach ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BenchReport.h"
#include "Machine.h"
#include "PlanBench.h"

#include <algorithm>

using namespace delta::bench;

/// Pieces in which the link is measured: what is pinned at a time.
static constexpr uint64_t LinkPieceBytes = 1 << 28;

/// The rates that all others are shares of.
void delta::bench::measureRates(Machine &machine, const PlanOptions &options,
                                BenchReport &report) {
  uint64_t numBytes = options.copyBytes;
  if (numBytes == 0)
    numBytes = machine.isDevice() ? uint64_t(4) << 30 : uint64_t(1) << 28;
  auto times = [&](const auto &body) {
    std::vector<double> seconds;
    machine.warmUp();
    for (uint32_t i = 0; i <= options.syncs; ++i) {
      machine.forgetMarks();
      Mark begin = machine.mark();
      body();
      Mark end = machine.mark();
      if (double passed = machine.secondsBetween(begin, end); i)
        seconds.push_back(passed);
    }
    return seconds;
  };
  Block from(machine, numBytes), to(machine, numBytes);
  machine.fill(from.as(), 1, numBytes);
  machine.fill(to.as(), 2, numBytes);
  BenchReport::Measured copy;
  copy.what = machine.isDevice() ? "copy on the device" : "copy on the host";
  copy.seconds = times([&] { machine.copy(to.as(), from.as(), numBytes); });
  copy.numBytes = 2 * numBytes;
  report.copyRate = double(copy.numBytes) / medianOf(copy.seconds);
  copy.note = "read + written";
  report.add(copy);
  if (!machine.isDevice())
    return;
  const uint64_t piece = std::min(numBytes, LinkPieceBytes);
  Block pinned(machine, piece, /*isPinned=*/true);
  machine.copy(pinned.as(), from.as(), piece); // no fresh zeros
  BenchReport::Measured link;
  link.what = "pinned link, up";
  link.seconds = times([&] {
    for (uint64_t at = 0; at + piece <= numBytes; at += piece)
      machine.copy(to.as() + at, pinned.as(), piece);
  });
  link.numBytes = numBytes / piece * piece;
  report.linkRate = double(link.numBytes) / medianOf(link.seconds);
  report.add(link);
}
