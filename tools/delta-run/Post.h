//===- Post.h - A transport that counts and can fail ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Stands between the ranks and the in-process transport of the plan: counts
/// the bytes of every message and the time spent in transport calls, and can
/// hold messages back for the faults that delta-run plants.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_RUN_POST_H
#define DELTA_TOOLS_RUN_POST_H

#include "runtime/delta_abi.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace delta::run {

class Post {
public:
  /// Source and destination rank.
  using Pair = std::pair<uint32_t, uint32_t>;
  using Message = std::vector<unsigned char>;
  /// One message for each round of a sync, in order.
  using Messages = std::map<Pair, std::vector<Message>>;

  void setInner(delta_transport_t transport) { inner = transport; }
  /// Calls it makes come back here, so it must stay where it is.
  delta_transport_t transport();

  /// Bytes sent since the last call.
  uint64_t takeBytes();
  /// Longest time that one receiver spent receiving, since the last call.
  double takeReceiveSeconds();

  /// From now on messages are kept instead of delivered.
  void hold() { holding = true; }
  /// Stops keeping, and gives what was kept.
  Messages takeHeld();

private:
  static delta_status_t send(void *context, uint32_t source,
                             uint32_t destination, const delta_bytes_t *parts,
                             uint32_t numParts, delta_error_t error);
  static delta_status_t receive(void *context, uint32_t source,
                                uint32_t destination, delta_bytes_t *message,
                                delta_error_t error);
  static void release(void *context, uint32_t source, uint32_t destination,
                      delta_bytes_t message);

  delta_transport_t inner = {};
  std::mutex mutex;
  uint64_t numBytes = 0;
  std::map<uint32_t, double> receiveSeconds; ///< by destination
  bool holding = false;
  Messages held;
};

} // namespace delta::run

#endif // DELTA_TOOLS_RUN_POST_H
