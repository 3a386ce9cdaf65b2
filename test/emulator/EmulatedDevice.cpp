//===- EmulatedDevice.cpp - A device for tests without a GPU --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simt.h"

#include "EmulatedDevice.h"
#include "codegen/device/AdvanceKernel.cuh"
#include "codegen/device/CastKernel.cuh"
#include "codegen/device/CompareKernel.cuh"
#include "codegen/device/DiffKernel.cuh"
#include "codegen/device/FingerprintKernel.cuh"
#include "codegen/device/FrameKernel.cuh"
#include "codegen/device/MarkKernel.cuh"
#include "codegen/device/ScatterKernel.cuh"
#include "codegen/device/SealKernel.cuh"
#include "codegen/device/StageKernel.cuh"

#include <cstdio>
#include <cstdlib>

using namespace delta::test;
using namespace delta::runtime;
namespace device = delta::device;

static_assert(shapeOf(DeviceKernel::Diff).numThreads == device::DiffThreads &&
                  shapeOf(DeviceKernel::Diff).sharedBytes > device::RingBytes,
              "threads for all roles of the diff, and room for lists");

/// Memory of the device begins at multiples of as much.
static constexpr size_t BlockAlignment = 256;

EmulatedDevice::~EmulatedDevice() {
  for (auto &[pointer, block] : blocks)
    std::free(const_cast<uint8_t *>(pointer));
}

Status EmulatedDevice::count(const char *call) {
  if (numCalls++ != failAt)
    return {};
  return Status::error(DELTA_NO_MEMORY, "%s: out of memory", call);
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

void EmulatedDevice::beginCapture(Stream stream) {
  captures = true;
  captured = stream;
  graph.clear();
}

EmulatedDevice::Graph EmulatedDevice::endCapture() {
  captures = false;
  return std::move(graph);
}

void EmulatedDevice::replay(const Graph &of) {
  for (const std::function<Status()> &work : of)
    if (work().failed())
      abort();
}

Status EmulatedDevice::refuseInCapture(const char *call) const {
  if (!captures)
    return {};
  return Status::error(DELTA_INTERNAL,
                       "%s: operation not permitted when stream is capturing",
                       call);
}

/// At once, or when what is captured is replayed.
Status EmulatedDevice::perform(std::function<Status()> work) {
  if (!captures)
    return work();
  graph.push_back(std::move(work));
  return {};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

MemoryKind EmulatedDevice::kindOf(const void *pointer) const {
  auto *bytes = static_cast<const uint8_t *>(pointer);
  auto after = blocks.upper_bound(bytes);
  if (after == blocks.begin())
    return MemoryKind::Host;
  auto [begin, block] = *std::prev(after);
  if (bytes >= begin + block.numBytes)
    return MemoryKind::Host;
  return block.isPinned ? MemoryKind::Pinned : MemoryKind::Device;
}

std::vector<uint8_t> EmulatedDevice::getContents() const {
  std::vector<uint8_t> out;
  for (auto &[begin, block] : blocks)
    out.insert(out.end(), begin, begin + block.numBytes);
  return out;
}

Status EmulatedDevice::allocateBlock(uint64_t numBytes, bool isPinned,
                                     void *&out) {
  ++numAllocations;
  uint64_t rounded = (numBytes + BlockAlignment - 1) & ~(BlockAlignment - 1);
  out = std::aligned_alloc(BlockAlignment, rounded);
  memset(out, 0xa5, rounded);
  blocks[static_cast<uint8_t *>(out)] = {numBytes, isPinned};
  return {};
}

void EmulatedDevice::freeBlock(void *pointer, bool isPinned) {
  auto found = blocks.find(static_cast<uint8_t *>(pointer));
  if (found == blocks.end() || found->second.isPinned != isPinned) {
    fprintf(stderr, "emulator: freed what was not allocated\n");
    abort();
  }
  std::free(pointer);
  blocks.erase(found);
}

Status EmulatedDevice::allocate(uint64_t numBytes, void *&out) {
  Status status = refuseInCapture("cuMemAlloc");
  if (!status.failed())
    status = count("cuMemAlloc");
  return status.failed() ? status
                         : allocateBlock(numBytes, /*isPinned=*/false, out);
}
void EmulatedDevice::free(void *pointer) { freeBlock(pointer, false); }

Status EmulatedDevice::allocatePinned(uint64_t numBytes, void *&out) {
  Status status = refuseInCapture("cuMemHostAlloc");
  if (!status.failed())
    status = count("cuMemHostAlloc");
  return status.failed() ? status
                         : allocateBlock(numBytes, /*isPinned=*/true, out);
}
void EmulatedDevice::freePinned(void *pointer) { freeBlock(pointer, true); }

Status EmulatedDevice::copy(void *to, const void *from, uint64_t numBytes,
                            Stream) {
  Status status = count("cuMemcpyAsync");
  if (status.failed() || !numBytes)
    return status;
  return perform([=] {
    memcpy(to, from, numBytes);
    return Status();
  });
}

Status EmulatedDevice::fill(void *to, uint8_t value, uint64_t numBytes,
                            Stream) {
  Status status = count("cuMemsetD8Async");
  if (status.failed() || !numBytes)
    return status;
  return perform([=] {
    memset(to, value, numBytes);
    return Status();
  });
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

/// Calls the body of a kernel for all element types.
template <typename Arguments, typename Body>
static void run(uint32_t numBlocks, uint32_t numThreads, uint32_t sharedBytes,
                const void *arguments, const Body &body) {
  Arguments copied = *static_cast<const Arguments *>(arguments);
  delta::simt::launch(
      numBlocks, numThreads, [&] { body(copied); }, sharedBytes);
}

Status EmulatedDevice::launch(DeviceKernel kernel, uint32_t numBlocks,
                              const void *arguments, Stream) {
  Status status = count("cuLaunchKernel");
  if (status.failed())
    return status;
  ++numLaunches;
  auto *bytes = static_cast<const uint8_t *>(arguments);
  Launch launch = {kernel, numBlocks, {}};
  switch (kernel) {
#define DELTA_DEVICE_KERNEL(enumerator, name, Arguments, body, file, threads,  \
                            blocks, shared)                                    \
  case DeviceKernel::enumerator:                                               \
    launch.arguments.assign(bytes, bytes + sizeof(device::Arguments));         \
    break;
#include "codegen/device/DeviceKernels.def"
  }
  launches.push_back(launch);
  return perform([this, launch] { return start(launch); });
}

/// Runs a kernel, from the bytes of its arguments.
Status EmulatedDevice::start(const Launch &launch) {
  switch (launch.kernel) {
#define DELTA_DEVICE_KERNEL(enumerator, name, Arguments, body, file, threads,  \
                            blocks, shared)                                    \
  case DeviceKernel::enumerator:                                               \
    run<device::Arguments>(launch.numBlocks, threads, shared,                  \
                           launch.arguments.data(),                            \
                           [](const device::Arguments &copied) {               \
                             device::body<device::AllElements>(copied);        \
                           });                                                 \
    break;
#include "codegen/device/DeviceKernels.def"
  }
  return {};
}

Status EmulatedDevice::wait(Stream) {
  ++numWaits;
  return refuseInCapture("cuStreamSynchronize");
}

Status EmulatedDevice::createStream(Stream &out) {
  out = new char;
  return {};
}
void EmulatedDevice::destroyStream(Stream stream) {
  delete static_cast<char *>(stream);
}
Status EmulatedDevice::createEvent(void *&out) {
  out = new char;
  return {};
}
void EmulatedDevice::destroyEvent(void *event) {
  delete static_cast<char *>(event);
}
Status EmulatedDevice::record(void *, Stream) { return {}; }
Status EmulatedDevice::await(void *, Stream) { return {}; }
