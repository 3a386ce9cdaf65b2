//===- Fault.h - Faults planted on purpose ----------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What `--inject` does. Messages of a sync are lost, come too early or come
/// again: the receivers must refuse. Or one element of a receiver is changed:
/// verification must find it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_RUN_FAULT_H
#define DELTA_TOOLS_RUN_FAULT_H

#include "tools/delta-run/Session.h"

namespace delta::run {

/// How an attempt with a fault ended.
struct Refusal {
  bool refused = false;
  std::string message; ///< of the plan
};

/// Delivers the messages of a packed sync but one, and tries to commit. Rounds
/// after the one that was lost may be refused, others must be taken. Drops the
/// sync afterwards.
Refusal commitWithoutOne(const delta_plan_api_t &api, Session &session,
                         const Post::Messages &messages, uint64_t seed);

/// Delivers messages to receivers that must not take them, and tries to commit.
Refusal deliverWrongly(const delta_plan_api_t &api, Session &session,
                       const Post::Messages &messages);

/// Changes one delivered element of one receiver; returns its place in words,
/// empty when the plan delivers nothing.
std::string flipElement(reference::MapSource &map, World &world, uint64_t seed);

} // namespace delta::run

#endif // DELTA_TOOLS_RUN_FAULT_H
