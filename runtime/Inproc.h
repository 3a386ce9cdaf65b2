//===- Inproc.h - Ranks of one process --------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A transport between threads: a mailbox for each pair of a source and a
/// destination rank. Sending copies and never blocks; receiving waits. Messages
/// lie in memory of the host, or in that of a GPU (device/DeviceMessages.h).
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_INPROC_H
#define DELTA_RUNTIME_INPROC_H

#include "runtime/Status.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace delta::runtime {

/// Memory of messages. For use by several threads at once.
class MessageMemory {
public:
  virtual ~MessageMemory() = default;
  /// At least one byte, at a multiple of 16.
  virtual Status allocate(uint64_t numBytes, void *&out) = 0;
  virtual void free(void *pointer) = 0;
  /// Copies the parts one behind the other; they may go when it returns.
  virtual Status write(void *to, const delta_bytes_t *parts,
                       uint32_t numParts) = 0;
};

class Inproc {
public:
  /// Without `memory`: that of the host.
  explicit Inproc(std::chrono::milliseconds timeout,
                  std::shared_ptr<MessageMemory> memory = nullptr);

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
  /// A message that its memory takes back.
  using Bytes = std::unique_ptr<void, std::function<void(void *)>>;
  struct Message {
    Bytes bytes;
    uint64_t size;
  };
  using Pair = std::pair<uint32_t, uint32_t>;

  std::chrono::milliseconds timeout;
  std::shared_ptr<MessageMemory> memory; ///< outlives all messages
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<Pair, std::deque<Message>> boxes;
  std::map<const void *, Message> lent;
  bool closed = false;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_INPROC_H
