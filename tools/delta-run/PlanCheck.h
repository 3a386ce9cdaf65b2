//===- PlanCheck.h - Checks that need no reference program ------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Two checks of the plan's own: fingerprints, computed at both ends, and the
/// replay sweep, a full sync that must find nothing to write.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_RUN_PLANCHECK_H
#define DELTA_TOOLS_RUN_PLANCHECK_H

#include "tools/delta-run/Session.h"

namespace delta::run {

/// Counts of a check and a sentence on what it found first.
struct PlanFindings {
  int64_t compared = 0;
  int64_t mismatches = 0;
  std::string first;
};

/// Compares the fingerprints of every pair of ranks.
bool compareFingerprints(const delta_plan_api_t &api, Session &session,
                         uint64_t key, PlanFindings &findings,
                         std::string &error);

/// Sends all state once more as `version`, the current one, and compares it at
/// the receivers instead of writing it.
bool replay(const delta_plan_api_t &api, Session &session, uint64_t version,
            PlanFindings &findings, std::string &error);

} // namespace delta::run

#endif // DELTA_TOOLS_RUN_PLANCHECK_H
