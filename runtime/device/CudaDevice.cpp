//===- CudaDevice.cpp - A GPU through the CUDA driver ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/CudaDevice.h"

#include <algorithm>
#include <iterator>

using namespace delta::runtime;
using namespace delta::runtime::cuda;

static constexpr const char *kernelNames[] = {
#define DELTA_DEVICE_KERNEL(enumerator, name, arguments, body, file, threads,  \
                            blocks, shared)                                    \
  "delta_" #name,
#include "codegen/device/DeviceKernels.def"
};
static_assert(std::size(kernelNames) == NumDeviceKernels, "one name each");

static CudaAddress addressOf(const void *pointer) {
  return reinterpret_cast<CudaAddress>(pointer);
}

template <typename Body> Status CudaDevice::inContext(const Body &body) const {
  CudaContext current = nullptr;
  Status status = DELTA_CUDA_CALL(symbols, contextGetCurrent, (&current));
  if (status.failed())
    return status;
  if (current == context)
    return body();
  status = DELTA_CUDA_CALL(symbols, contextPush, (context));
  if (status.failed())
    return status;
  status = body();
  Status popped = DELTA_CUDA_CALL(symbols, contextPop, (&current));
  return status.failed() ? status : popped;
}

//===----------------------------------------------------------------------===//
// The plan's code
//===----------------------------------------------------------------------===//

/// A table of the plan in device memory; null: the plan has none.
template <typename Row>
Status CudaDevice::findTable(const char *name, const Row *&out) const {
  CudaAddress address = 0;
  size_t numBytes = 0;
  CudaResult result =
      symbols.moduleGetGlobal(&address, &numBytes, module, name);
  out = nullptr;
  if (result == CUDA_ERROR_NOT_FOUND)
    return {};
  out = reinterpret_cast<const Row *>(address);
  return symbols.check(CudaNames::moduleGetGlobal, result);
}

Status CudaDevice::findKernel(uint32_t kernel) {
  Status status =
      DELTA_CUDA_CALL(symbols, moduleGetFunction,
                      (&kernels[kernel], module, kernelNames[kernel]));
  return status.failed() || !LaunchShapes[kernel].sharedBytes
             ? status
             : shareMemory(kernel);
}

/// Gives each block of a kernel as much dynamic shared memory as those that
/// shall fit on a multiprocessor can have.
Status CudaDevice::shareMemory(uint32_t kernel) {
  const LaunchShape &shape = LaunchShapes[kernel];
  int ofProcessor = 0, ofBlock = 0, reserved = 0, fixed = 0;
  Status status;
  auto ask = [&](int &out, int attribute) {
    if (!status.failed())
      status = DELTA_CUDA_CALL(symbols, deviceGetAttribute,
                               (&out, attribute, ordinal));
  };
  ask(ofProcessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  ask(ofBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  ask(reserved, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  if (!status.failed())
    status = DELTA_CUDA_CALL(
        symbols, functionGetAttribute,
        (&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernels[kernel]));
  if (status.failed())
    return status;
  const int own = ofProcessor / int(shape.blocksOfProcessor) - reserved;
  const int most = (std::min(own, ofBlock) - fixed) & ~15;
  if (most < int(shape.sharedBytes))
    return Status::error(DELTA_NO_DEVICE,
                         "the device has %d bytes of shared memory for a "
                         "block, required: %d",
                         std::max(most, 0) + fixed,
                         int(shape.sharedBytes) + fixed);
  sharedBytes[kernel] = uint32_t(most);
  return DELTA_CUDA_CALL(
      symbols, functionSetAttribute,
      (kernels[kernel], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
}

Status CudaDevice::load(const delta_cubin_t &cubin) {
  return inContext([&] {
    int processors = 0;
    Status status = DELTA_CUDA_CALL(
        symbols, deviceGetAttribute,
        (&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal));
    numProcessors = uint32_t(processors);
    if (!status.failed())
      status = DELTA_CUDA_CALL(symbols, moduleLoad, (&module, cubin.image));
    for (uint32_t i = 0; !status.failed() && i < NumDeviceKernels; ++i) {
      status = findKernel(i);
      if (status.failed())
        return Status::error(status.getCode(), "%s: %s", kernelNames[i],
                             status.getText().c_str());
    }
    if (!status.failed())
      status = findTable("delta_boxes", boxes);
    if (!status.failed())
      status = findTable("delta_images", images);
    return status;
  });
}

CudaDevice::~CudaDevice() {
  // The caller may have destroyed the context, and the driver itself may be
  // gone at the end of the process: nothing is left to free then.
  if (module)
    (void)inContext(
        [&] { return DELTA_CUDA_CALL(symbols, moduleUnload, (module)); });
  if (ownsContext)
    (void)symbols.primaryRelease(ordinal);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

MemoryKind CudaDevice::kindOf(const void *pointer) const {
  if (!pointer)
    return MemoryKind::Unknown;
  int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                      CU_POINTER_ATTRIBUTE_IS_MANAGED};
  unsigned type = 0, isManaged = 0;
  CudaOrdinal where = -1;
  void *values[] = {&type, &where, &isManaged};
  Status status = inContext([&] {
    return DELTA_CUDA_CALL(symbols, pointerGetAttributes,
                           (unsigned(std::size(attributes)), attributes, values,
                            addressOf(pointer)));
  });
  if (status.failed())
    return MemoryKind::Unknown;
  if (isManaged)
    return MemoryKind::Device;
  if (type == CU_MEMORYTYPE_DEVICE)
    return where == ordinal ? MemoryKind::Device : MemoryKind::Unknown;
  // The driver has not heard of ordinary memory of the host.
  return type == CU_MEMORYTYPE_HOST ? MemoryKind::Pinned : MemoryKind::Host;
}

Status CudaDevice::allocate(uint64_t numBytes, void *&out) {
  return inContext([&] {
    CudaAddress address = 0;
    Status status = DELTA_CUDA_CALL(symbols, memAlloc, (&address, numBytes));
    if (!status.failed())
      out = reinterpret_cast<void *>(address);
    return status;
  });
}

void CudaDevice::free(void *pointer) {
  (void)inContext(
      [&] { return DELTA_CUDA_CALL(symbols, memFree, (addressOf(pointer))); });
}

Status CudaDevice::allocatePinned(uint64_t numBytes, void *&out) {
  return inContext([&] {
    void *pointer = nullptr;
    Status status =
        DELTA_CUDA_CALL(symbols, memHostAlloc,
                        (&pointer, numBytes,
                         CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    if (!status.failed())
      out = pointer;
    return status;
  });
}

void CudaDevice::freePinned(void *pointer) {
  (void)inContext(
      [&] { return DELTA_CUDA_CALL(symbols, memFreeHost, (pointer)); });
}

Status CudaDevice::copy(void *to, const void *from, uint64_t numBytes,
                        Stream stream) {
  if (numBytes == 0)
    return {};
  return inContext([&] {
    return DELTA_CUDA_CALL(symbols, memcpyAsync,
                           (addressOf(to), addressOf(from), numBytes, stream));
  });
}

Status CudaDevice::fill(void *to, uint8_t value, uint64_t numBytes,
                        Stream stream) {
  if (numBytes == 0)
    return {};
  return inContext([&] {
    return DELTA_CUDA_CALL(symbols, memsetAsync,
                           (addressOf(to), value, numBytes, stream));
  });
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

Status CudaDevice::launch(DeviceKernel kernel, uint32_t numBlocks,
                          const void *arguments, Stream stream) {
  // The driver knows the size of the argument and copies it.
  void *parameters[] = {const_cast<void *>(arguments)};
  ++numLaunches;
  return inContext([&] {
    return DELTA_CUDA_CALL(symbols, launchKernel,
                           (kernels[uint32_t(kernel)], numBlocks, 1, 1,
                            shapeOf(kernel).numThreads, 1, 1,
                            sharedBytes[uint32_t(kernel)], stream, parameters,
                            /*extra=*/nullptr));
  });
}

Status CudaDevice::wait(Stream stream) {
  return inContext(
      [&] { return DELTA_CUDA_CALL(symbols, streamSynchronize, (stream)); });
}

Status CudaDevice::createStream(Stream &out) {
  // Not ordered with the default stream, which may be the caller's.
  return inContext([&] {
    return DELTA_CUDA_CALL(symbols, streamCreate,
                           (&out, CU_STREAM_NON_BLOCKING));
  });
}

void CudaDevice::destroyStream(Stream stream) {
  (void)inContext(
      [&] { return DELTA_CUDA_CALL(symbols, streamDestroy, (stream)); });
}

Status CudaDevice::createEvent(void *&out) {
  return inContext([&] {
    return DELTA_CUDA_CALL(symbols, eventCreate,
                           (&out, CU_EVENT_DISABLE_TIMING));
  });
}

void CudaDevice::destroyEvent(void *event) {
  (void)inContext(
      [&] { return DELTA_CUDA_CALL(symbols, eventDestroy, (event)); });
}

Status CudaDevice::record(void *event, Stream stream) {
  return inContext(
      [&] { return DELTA_CUDA_CALL(symbols, eventRecord, (event, stream)); });
}

Status CudaDevice::await(void *event, Stream stream) {
  return inContext([&] {
    return DELTA_CUDA_CALL(symbols, streamWaitEvent,
                           (stream, event, /*flags=*/0));
  });
}

/// The default stream cannot be captured.
bool CudaDevice::isCapturing(Stream stream) {
  int found = 0;
  if (!stream)
    return false;
  Status status = inContext([&] {
    return DELTA_CUDA_CALL(symbols, streamIsCapturing, (stream, &found));
  });
  return !status.failed() && found == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}
