//===- Inject.cpp - Runs that must end badly ------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Where in a run each fault is planted, and what must come of it.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/Runner.h"

namespace delta::run {

/// Ends a run whose messages were tampered with: they must have been refused,
/// and the receivers must still hold the weights after `step` steps.
bool Runner::reportRefusal(const Refusal &refusal, int64_t step) {
  if (!refusal.refused)
    return fail("inject " + options.inject +
                ": not noticed: " + refusal.message);
  fail("inject " + options.inject + ": refused: " + refusal.message);
  return verify(step);
}

/// Faults of the last delta before it is delivered. `ended`: there is nothing
/// left to do.
bool Runner::injectBefore(int64_t number, bool &ended) {
  if (options.inject == "element" || options.inject == "replica")
    return true;
  session->post().hold();
  if (!session->send(error))
    return fail(error);
  const Post::Messages messages = session->post().takeHeld();
  session->post().takeBytes();
  ended = true;
  if (options.inject == "drop")
    return reportRefusal(
        commitWithoutOne(plan->api(), *session, messages, options.seed),
        number - 1);
  if (options.inject == "order")
    return injectOrder(number);
  // stale: the delta is delivered as it should be, then once more.
  if (!finishStep(number, &messages))
    return false;
  return reportRefusal(deliverWrongly(plan->api(), *session, messages), number);
}

/// The coordinator takes version v for delivered; v + 1 arrives first.
bool Runner::injectOrder(int64_t number) {
  if (!session->acknowledge(uint64_t(number) + 1, error))
    return fail(error);
  trainer->write(number + 1);
  if (!session->diff(uint64_t(number) + 2, error))
    return fail(error);
  session->post().hold();
  if (!session->send(error))
    return fail(error);
  const Post::Messages next = session->post().takeHeld();
  return reportRefusal(deliverWrongly(plan->api(), *session, next), number - 1);
}

/// Changes an element after the last commit; verification must find it.
bool Runner::injectAfter(int64_t number) {
  const std::string place = flipElement(*map, world, options.seed);
  if (place.empty())
    return fail("inject element: the plan delivers nothing");
  if (verify(number))
    return fail("inject element: not noticed at " + place);
  return false;
}

} // namespace delta::run
