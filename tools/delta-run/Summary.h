//===- Summary.h - What delta-run reports -----------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The table at the end, the JSON file, and the progress bar in between.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_RUN_SUMMARY_H
#define DELTA_TOOLS_RUN_SUMMARY_H

#include "tools/delta-run/Session.h"

namespace delta::run {

struct Summary {
  std::string model;
  size_t numSources = 0, numReceivers = 0;
  int64_t steps = 0;
  int64_t elements = 0; ///< of the checkpoint layout
  int64_t changed = 0;  ///< delivered, over receivers and syncs
  uint64_t wireBytes = 0;
  uint64_t seedBytes = 0;
  int64_t verified = 0; ///< elements, or fingerprints
  std::string verify;
  int64_t mismatches = 0;
  uint64_t launchesPerSync = 0;
  uint32_t rounds = 0;         ///< of a delta, at most
  uint64_t replicatedRows = 0; ///< compared between trainer ranks, each time
  Seconds seconds;
};

/// To standard output.
void printTable(const Summary &summary);

/// False, with `error` set, when the file cannot be written.
bool writeSummary(const std::string &path, const Summary &summary,
                  std::string &error);

/// One line on a terminal's standard error; silent anywhere else.
class Progress {
public:
  explicit Progress(int64_t total);
  ~Progress() { clear(); }
  /// Says what is going on; `done` more units are over.
  void show(const std::string &what, int64_t done);
  void clear();

private:
  bool onTerminal;
  int64_t total;
  int64_t position = 0;
};

} // namespace delta::run

#endif // DELTA_TOOLS_RUN_SUMMARY_H
