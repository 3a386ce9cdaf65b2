//===- Device.h - Memory, kernels and streams of a GPU ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What handles of a CUDA plan need of the device, and nothing else, so that
/// tests can stand in for it (test/emulator). The real one is CudaDevice.h.
///
/// Failures are texts that begin with the failing call ("cuMemAlloc: out of
/// memory"); callers put rank and call of their own before it. Work is
/// enqueued on the stream that is given, which is the caller's, and waits for
/// nothing unless the name says so.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_DEVICE_H
#define DELTA_RUNTIME_DEVICE_DEVICE_H

#include "runtime/Status.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace delta::runtime {

/// A stream of the caller (CUstream, cudaStream_t); null: the default one.
using Stream = void *;

enum class DeviceKernel : uint32_t {
#define DELTA_DEVICE_KERNEL(enumerator, name, arguments, body, file, threads,  \
                            blocks, shared)                                    \
  enumerator,
#include "codegen/device/DeviceKernels.def"
};
constexpr uint32_t NumDeviceKernels = 0
#define DELTA_DEVICE_KERNEL(enumerator, name, arguments, body, file, threads,  \
                            blocks, shared)                                    \
  +1
#include "codegen/device/DeviceKernels.def"
    ;

/// How a kernel is launched: threads of a block, blocks that fit on a
/// multiprocessor, and bytes of dynamic shared memory of a block at least. More
/// blocks than fit are right, too.
struct LaunchShape {
  uint32_t numThreads;
  uint32_t blocksOfProcessor;
  uint32_t sharedBytes;
};
constexpr LaunchShape LaunchShapes[] = {
#define DELTA_DEVICE_KERNEL(enumerator, name, arguments, body, file, threads,  \
                            blocks, shared)                                    \
  {threads, blocks, shared},
#include "codegen/device/DeviceKernels.def"
};
constexpr LaunchShape shapeOf(DeviceKernel kernel) {
  return LaunchShapes[uint32_t(kernel)];
}

/// Where a pointer leads.
enum class MemoryKind { Unknown, Host, Pinned, Device };

class Device {
public:
  virtual ~Device() = default;

  virtual uint32_t getNumProcessors() const = 0;
  /// Boxes and images of the plan in memory that kernels can read.
  virtual const delta_box_t *getBoxes() const = 0;
  virtual const delta_image_t *getImages() const = 0;
  virtual MemoryKind kindOf(const void *pointer) const = 0;

  /// Memory of the device; may wait for the device.
  virtual Status allocate(uint64_t numBytes, void *&out) = 0;
  virtual void free(void *pointer) = 0;
  /// Host memory that the device reads and writes at the same address.
  virtual Status allocatePinned(uint64_t numBytes, void *&out) = 0;
  virtual void freePinned(void *pointer) = 0;

  /// In any direction, also within one memory.
  virtual Status copy(void *to, const void *from, uint64_t numBytes,
                      Stream stream) = 0;
  virtual Status fill(void *to, uint8_t value, uint64_t numBytes,
                      Stream stream) = 0;
  /// Starts a kernel with `numBlocks` blocks; `arguments` is copied.
  virtual Status launch(DeviceKernel kernel, uint32_t numBlocks,
                        const void *arguments, Stream stream) = 0;
  /// Waits until all that was enqueued before is done.
  virtual Status wait(Stream stream) = 0;

  /// A stream and events of our own, for uploads beside the caller's stream.
  virtual Status createStream(Stream &out) = 0;
  virtual void destroyStream(Stream stream) = 0;
  virtual Status createEvent(void *&out) = 0;
  virtual void destroyEvent(void *event) = 0;
  virtual Status record(void *event, Stream stream) = 0;
  /// Work enqueued on `stream` later waits for the event.
  virtual Status await(void *event, Stream stream) = 0;
  /// Whether what is enqueued there goes into a graph instead of being done.
  virtual bool isCapturing(Stream stream) = 0;

  /// Kernels started so far, by all handles.
  uint64_t getNumLaunches() const { return numLaunches; }

protected:
  std::atomic<uint64_t> numLaunches = {0};
};

/// Owned memory of a device, or pinned memory of the host.
class DeviceBuffer {
public:
  DeviceBuffer() = default;
  ~DeviceBuffer() { release(); }
  DeviceBuffer(DeviceBuffer &&other) noexcept { *this = std::move(other); }
  DeviceBuffer &operator=(DeviceBuffer &&other) noexcept {
    std::swap(device, other.device);
    std::swap(pointer, other.pointer);
    std::swap(numBytes, other.numBytes);
    std::swap(isPinned, other.isPinned);
    return *this;
  }

  /// Replaces what it held; at least one byte. Keeps the device alive.
  Status allocate(std::shared_ptr<Device> on, uint64_t size,
                  bool pinned = false) {
    release();
    Status status = pinned ? on->allocatePinned(size ? size : 1, pointer)
                           : on->allocate(size ? size : 1, pointer);
    if (status.failed()) {
      pointer = nullptr;
      return status;
    }
    device = std::move(on);
    numBytes = size;
    isPinned = pinned;
    return status;
  }
  void release() {
    if (pointer)
      isPinned ? device->freePinned(pointer) : device->free(pointer);
    pointer = nullptr;
    numBytes = 0;
    device.reset();
  }

  template <typename T = uint8_t> T *as(uint64_t byteOffset = 0) const {
    return reinterpret_cast<T *>(static_cast<uint8_t *>(pointer) + byteOffset);
  }
  uint64_t getNumBytes() const { return numBytes; }

private:
  std::shared_ptr<Device> device;
  void *pointer = nullptr;
  uint64_t numBytes = 0;
  bool isPinned = false;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_DEVICE_H
