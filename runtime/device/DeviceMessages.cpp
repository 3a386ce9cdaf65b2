//===- DeviceMessages.cpp - Mailboxes in memory of a GPU ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/DeviceMessages.h"

#include <algorithm>

using namespace delta::runtime;

/// Messages of a few elements more or less take the same memory.
static constexpr uint64_t LeastBytes = 65536;

Status DeviceMessages::create(std::shared_ptr<Device> device,
                              std::shared_ptr<MessageMemory> &out) {
  std::shared_ptr<DeviceMessages> made(new DeviceMessages(std::move(device)));
  Status status = made->device->createStream(made->stream);
  if (status.failed())
    made->stream = nullptr;
  else
    out = std::move(made);
  return status;
}

DeviceMessages::~DeviceMessages() {
  if (stream)
    device->destroyStream(stream);
}

/// The smallest that is large enough, else a new one, for which the largest of
/// those that are not goes.
Status DeviceMessages::allocate(uint64_t numBytes, void *&out) {
  std::lock_guard<std::mutex> lock(mutex);
  auto bySize = [](const DeviceBuffer &a, const DeviceBuffer &b) {
    return a.getNumBytes() < b.getNumBytes();
  };
  std::sort(unused.begin(), unused.end(), bySize);
  auto found = std::find_if(unused.begin(), unused.end(),
                            [&](const DeviceBuffer &buffer) {
                              return buffer.getNumBytes() >= numBytes;
                            });
  DeviceBuffer buffer;
  if (found != unused.end()) {
    buffer = std::move(*found);
    unused.erase(found);
  } else {
    if (!unused.empty())
      unused.pop_back();
    Status status =
        buffer.allocate(device, std::max(numBytes + numBytes / 4, LeastBytes));
    if (status.failed())
      return status;
  }
  out = buffer.as();
  used[out] = std::move(buffer);
  return {};
}

void DeviceMessages::free(void *pointer) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = used.find(pointer);
  unused.push_back(std::move(found->second));
  used.erase(found);
}

Status DeviceMessages::write(void *to, const delta_bytes_t *parts,
                             uint32_t numParts) {
  auto *at = static_cast<uint8_t *>(to);
  Status status;
  for (uint32_t i = 0; i < numParts && !status.failed(); at += parts[i++].size)
    if (parts[i].size)
      status = device->copy(at, parts[i].data, parts[i].size, stream);
  return status.failed() ? status : device->wait(stream);
}
