//===- ReplicaCheck.h - Do trainer ranks hold the same? ---------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares all that several trainer ranks hold: one of them sends it, and the
/// others must agree. Works with a plan alone.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_RUN_REPLICACHECK_H
#define DELTA_TOOLS_RUN_REPLICACHECK_H

#include "tools/delta-run/Session.h"

namespace delta::run {

/// The plan, its map and the senders of the run.
struct Replicas {
  const delta_plan_api_t &api;
  reference::MapSource &map;
  Session &session;
  const World &world;

  /// False, with `error` set, when two ranks differ; it names the tensor, the
  /// parameters, the ranks and the first element. `outCompared` is the number
  /// of rows (parts of parameters) that have several holders.
  bool compare(uint64_t key, uint64_t &outCompared, std::string &error) const;

  /// Changes one element that its rank holds and does not send; returns its
  /// place in words, empty when there is no such element.
  std::string flipOne(uint64_t seed) const;

private:
  /// The parameter of a trainer rank, numbered as the plan does.
  const Held *find(uint32_t rank, uint32_t param) const;
};

} // namespace delta::run

#endif // DELTA_TOOLS_RUN_REPLICACHECK_H
