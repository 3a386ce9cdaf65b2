//===- Inproc.cpp - Ranks of one process ----------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Inproc.h"

#include <cstring>

using namespace delta::runtime;

Status Inproc::send(uint32_t source, uint32_t destination,
                    const delta_bytes_t *parts, uint32_t numParts) {
  Message message = {{}, 0};
  uint64_t size = 0;
  for (uint32_t i = 0; i < numParts; ++i)
    size += parts[i].size;
  message.bytes.grow(size + 1); // an empty message has an address too
  for (uint32_t i = 0; i < numParts; ++i) {
    if (parts[i].size)
      memcpy(message.bytes.data() + message.size, parts[i].data, parts[i].size);
    message.size += parts[i].size;
  }
  std::lock_guard<std::mutex> lock(mutex);
  if (closed)
    return Status::error(DELTA_REFUSED,
                         "source %u to destination %u: transport is closed",
                         source, destination);
  boxes[Pair(source, destination)].push_back(std::move(message));
  arrived.notify_all();
  return {};
}

Status Inproc::receive(uint32_t source, uint32_t destination,
                       delta_bytes_t &outMessage) {
  std::unique_lock<std::mutex> lock(mutex);
  std::deque<Message> &box = boxes[Pair(source, destination)];
  bool ready =
      arrived.wait_for(lock, timeout, [&] { return closed || !box.empty(); });
  if (closed)
    return Status::error(DELTA_REFUSED,
                         "source %u to destination %u: transport is closed",
                         source, destination);
  if (!ready)
    return Status::error(
        DELTA_REFUSED, "source %u to destination %u: no message in %lld ms",
        source, destination, static_cast<long long>(timeout.count()));
  Message message = std::move(box.front());
  box.pop_front();
  outMessage = {message.bytes.data(), message.size};
  lent.emplace(outMessage.data, std::move(message));
  return {};
}

void Inproc::release(delta_bytes_t message) {
  std::lock_guard<std::mutex> lock(mutex);
  lent.erase(message.data);
}

void Inproc::close() {
  std::lock_guard<std::mutex> lock(mutex);
  closed = true;
  arrived.notify_all();
}

delta_transport_t Inproc::transport() {
  delta_transport_t out = {};
  out.context = this;
  out.send = [](void *context, uint32_t source, uint32_t destination,
                const delta_bytes_t *parts, uint32_t numParts,
                delta_error_t error) {
    return guarded(error, [&] {
      return static_cast<Inproc *>(context)->send(source, destination, parts,
                                                  numParts);
    });
  };
  out.receive = [](void *context, uint32_t source, uint32_t destination,
                   delta_bytes_t *outMessage, delta_error_t error) {
    return guarded(error, [&] {
      return static_cast<Inproc *>(context)->receive(source, destination,
                                                     *outMessage);
    });
  };
  out.release = [](void *context, uint32_t, uint32_t, delta_bytes_t message) {
    static_cast<Inproc *>(context)->release(message);
  };
  return out;
}
