//===- Inproc.h - Ranks of one process --------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A transport between threads: a mailbox for each pair of a source and a
/// destination rank. Sending copies and never blocks; receiving waits.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_INPROC_H
#define DELTA_RUNTIME_INPROC_H

#include "runtime/Buffer.h"
#include "runtime/Status.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

namespace delta::runtime {

class Inproc {
public:
  explicit Inproc(std::chrono::milliseconds timeout) : timeout(timeout) {}

  Status send(uint32_t source, uint32_t destination, const delta_bytes_t *parts,
              uint32_t numParts);
  /// Waits for a message until the time-out or until the transport is closed.
  Status receive(uint32_t source, uint32_t destination,
                 delta_bytes_t &outMessage);
  void release(delta_bytes_t message);
  /// Wakes all that wait; nothing is sent or received any more.
  void close();

  /// The functions of the ABI, over this object.
  delta_transport_t transport();

private:
  struct Message {
    Buffer bytes;
    uint64_t size;
  };
  using Pair = std::pair<uint32_t, uint32_t>;

  std::chrono::milliseconds timeout;
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<Pair, std::deque<Message>> boxes;
  std::map<const void *, Message> lent;
  bool closed = false;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_INPROC_H
