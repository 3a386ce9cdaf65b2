//===- DeviceMessages.h - Mailboxes in memory of a GPU ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The messages of in-process ranks of a CUDA plan. Memory that comes back is
/// kept for later messages: a sync like the one before allocates nothing.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_DEVICEMESSAGES_H
#define DELTA_RUNTIME_DEVICE_DEVICEMESSAGES_H

#include "runtime/Inproc.h"
#include "runtime/device/Device.h"

#include <vector>

namespace delta::runtime {

class DeviceMessages : public MessageMemory {
public:
  static Status create(std::shared_ptr<Device> device,
                       std::shared_ptr<MessageMemory> &out);
  ~DeviceMessages() override;

  Status allocate(uint64_t numBytes, void *&out) override;
  void free(void *pointer) override;
  /// Parts may lie in any memory; they are complete. Waits for the copies.
  Status write(void *to, const delta_bytes_t *parts,
               uint32_t numParts) override;

private:
  explicit DeviceMessages(std::shared_ptr<Device> device)
      : device(std::move(device)) {}

  std::shared_ptr<Device> device;
  Stream stream = nullptr; ///< our own
  std::mutex mutex;
  std::vector<DeviceBuffer> unused;
  std::map<const void *, DeviceBuffer> used;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_DEVICEMESSAGES_H
