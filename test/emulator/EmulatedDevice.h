//===- EmulatedDevice.h - A device for tests without a GPU ------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Runs the kernels of codegen/device with the emulator (Simt.h), at once and
/// in the order of the calls. Its memory is memory of the host, filled with a
/// pattern when it is allocated, and known by address: what is not allocated
/// here is not memory of the device.
///
/// What is called while a stream is captured is noted, with the bytes that it
/// was given, and done by `replay`: as a CUDA graph does, which knows nothing
/// else of whoever captured it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_EMULATOR_EMULATEDDEVICE_H
#define DELTA_TEST_EMULATOR_EMULATEDDEVICE_H

#include "runtime/device/Device.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace delta::test {

class EmulatedDevice : public runtime::Device {
public:
  /// Borrows the tables.
  explicit EmulatedDevice(const delta_tables_t &tables) : tables(tables) {}
  ~EmulatedDevice() override;

  /// A kernel that was started, with the bytes of its arguments.
  struct Launch {
    runtime::DeviceKernel kernel;
    uint32_t numBlocks;
    std::vector<uint8_t> arguments;
  };
  std::vector<Launch> launches;
  /// The number of calls that allocate, copy, fill or launch so far, and the
  /// one that fails, with "out of memory".
  uint64_t numCalls = 0, failAt = UINT64_MAX;
  uint64_t numAllocations = 0, numWaits = 0;
  using Graph = std::vector<std::function<runtime::Status()>>;
  /// From now on copies, fills and launches are noted; what a driver refuses
  /// then is refused. Streams of all handles count as `stream` or joined to it.
  void beginCapture(runtime::Stream stream);
  Graph endCapture();
  void replay(const Graph &graph);

  /// All of its memory.
  std::vector<uint8_t> getContents() const;
  /// Allocations that are not freed yet.
  size_t getNumBlocks() const { return blocks.size(); }

  uint32_t getNumProcessors() const override { return 1; }
  const delta_box_t *getBoxes() const override { return tables.boxes; }
  const delta_image_t *getImages() const override { return tables.images; }
  runtime::MemoryKind kindOf(const void *pointer) const override;
  runtime::Status allocate(uint64_t numBytes, void *&out) override;
  void free(void *pointer) override;
  runtime::Status allocatePinned(uint64_t numBytes, void *&out) override;
  void freePinned(void *pointer) override;
  runtime::Status copy(void *to, const void *from, uint64_t numBytes,
                       runtime::Stream stream) override;
  runtime::Status fill(void *to, uint8_t value, uint64_t numBytes,
                       runtime::Stream stream) override;
  runtime::Status launch(runtime::DeviceKernel kernel, uint32_t numBlocks,
                         const void *arguments,
                         runtime::Stream stream) override;
  runtime::Status wait(runtime::Stream stream) override;
  runtime::Status createStream(runtime::Stream &out) override;
  void destroyStream(runtime::Stream stream) override;
  runtime::Status createEvent(void *&out) override;
  void destroyEvent(void *event) override;
  runtime::Status record(void *event, runtime::Stream stream) override;
  runtime::Status await(void *event, runtime::Stream stream) override;
  bool isCapturing(runtime::Stream stream) override {
    return captures && stream == captured;
  }

private:
  struct Block {
    uint64_t numBytes;
    bool isPinned;
  };
  runtime::Status count(const char *call);
  runtime::Status refuseInCapture(const char *call) const;
  runtime::Status perform(std::function<runtime::Status()> work);
  runtime::Status start(const Launch &launch);
  runtime::Status allocateBlock(uint64_t numBytes, bool isPinned, void *&out);
  void freeBlock(void *pointer, bool isPinned);

  const delta_tables_t &tables;
  bool captures = false;
  runtime::Stream captured = nullptr;
  Graph graph;
  std::map<const uint8_t *, Block> blocks;
};

} // namespace delta::test

#endif // DELTA_TEST_EMULATOR_EMULATEDDEVICE_H
