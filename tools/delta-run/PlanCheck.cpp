//===- PlanCheck.cpp - Checks that need no reference program --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Fingerprints tell that a row differs, not which element; a caller that finds
/// one goes on with a replay.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/PlanCheck.h"

namespace delta::run {

/// One list of fingerprints, asked for its length first.
template <class Ask>
static bool fetch(const Ask &ask, std::vector<uint64_t> &out,
                  std::string &error) {
  uint64_t count = 0;
  const auto call = [&](size_t, delta_error_t text) {
    return ask(out.empty() ? nullptr : out.data(), out.size(), &count, text);
  };
  out.clear();
  if (!Session::eachRank(1, call, error))
    return false;
  out.resize(count);
  return out.empty() || Session::eachRank(1, call, error);
}

bool compareFingerprints(const delta_plan_api_t &api, Session &session,
                         uint64_t key, PlanFindings &findings,
                         std::string &error) {
  std::vector<uint64_t> sent, received;
  for (size_t s = 0; s < session.numSenders(); ++s)
    for (size_t r = 0; r < session.numReceivers(); ++r) {
      const auto ofSender = [&](uint64_t *out, uint64_t capacity,
                                uint64_t *count, delta_error_t text) {
        return api.sender_fingerprints(session.sender(s), uint32_t(r), key, out,
                                       capacity, count, text);
      };
      const auto ofReceiver = [&](uint64_t *out, uint64_t capacity,
                                  uint64_t *count, delta_error_t text) {
        return api.receiver_fingerprints(session.receiver(r), uint32_t(s), key,
                                         out, capacity, count, text);
      };
      if (!fetch(ofSender, sent, error) || !fetch(ofReceiver, received, error))
        return false;
      const std::string pair =
          "rank " + std::to_string(s) + " and receiver " + std::to_string(r);
      if (sent.size() != received.size()) {
        error = pair + " count " + std::to_string(sent.size()) + " and " +
                std::to_string(received.size()) + " fingerprints";
        return false;
      }
      findings.compared += int64_t(sent.size());
      for (size_t row = 0; row < sent.size(); ++row) {
        if (sent[row] == received[row])
          continue;
        if (findings.mismatches++ == 0)
          findings.first = "fingerprints of row " + std::to_string(row) +
                           " of " + pair + " differ";
      }
    }
  return true;
}

bool replay(const delta_plan_api_t &api, Session &session, uint64_t version,
            PlanFindings &findings, std::string &error) {
  if (!session.stageAll(version, error))
    return false;
  std::vector<uint64_t> mismatches(session.numReceivers(), 0);
  std::vector<std::string> firsts(session.numReceivers());
  const bool good = Session::eachRank(
      session.numReceivers(),
      [&](size_t rank, delta_error_t text) {
        const delta_status_t status = api.receiver_compare(
            session.receiver(rank), &mismatches[rank], text);
        if (status == DELTA_OK)
          firsts[rank] = text.text;
        return status;
      },
      error);
  session.abandon();
  if (!good)
    return false;
  for (size_t rank = 0; rank < mismatches.size(); ++rank) {
    ++findings.compared;
    if (mismatches[rank] && findings.mismatches == 0)
      findings.first = firsts[rank];
    findings.mismatches += int64_t(mismatches[rank]);
  }
  return true;
}

} // namespace delta::run
