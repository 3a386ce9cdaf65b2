//===- Inproc.cpp - Ranks of one process ----------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Inproc.h"

#include <cstdlib>
#include <cstring>

using namespace delta::runtime;

namespace {

class HostMessages : public MessageMemory {
public:
  Status allocate(uint64_t numBytes, void *&out) override {
    out = malloc(numBytes);
    return out ? Status() : Status::error(DELTA_NO_MEMORY, "out of memory");
  }
  void free(void *pointer) override { ::free(pointer); }
  Status write(void *to, const delta_bytes_t *parts,
               uint32_t numParts) override {
    auto *at = static_cast<uint8_t *>(to);
    for (uint32_t i = 0; i < numParts; at += parts[i++].size)
      if (parts[i].size)
        memcpy(at, parts[i].data, parts[i].size);
    return {};
  }
};

} // namespace

Inproc::Inproc(std::chrono::milliseconds timeout,
               std::shared_ptr<MessageMemory> memory)
    : timeout(timeout),
      memory(memory ? std::move(memory) : std::make_shared<HostMessages>()) {}

Status Inproc::send(uint32_t source, uint32_t destination,
                    const delta_bytes_t *parts, uint32_t numParts) {
  auto failure = [&](const Status &status) {
    return Status::error(status.getCode(), "source %u to destination %u: %s",
                         source, destination, status.getText().c_str());
  };
  uint64_t size = 0;
  for (uint32_t i = 0; i < numParts; ++i)
    size += parts[i].size;
  void *bytes = nullptr;
  Status status = memory->allocate(size + 1, bytes); // also an empty message
  if (status.failed())
    return failure(status);
  Message message = {
      Bytes(bytes, [from = memory.get()](void *old) { from->free(old); }),
      size};
  status = memory->write(bytes, parts, numParts);
  if (status.failed())
    return failure(status);
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
  outMessage = {message.bytes.get(), message.size};
  lent.emplace(outMessage.data, std::move(message));
  return {};
}

void Inproc::release(delta_bytes_t message) {
  std::lock_guard<std::mutex> lock(mutex);
  lent.erase(message.data); // gives it back to its memory
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
