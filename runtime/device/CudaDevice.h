//===- CudaDevice.h - A GPU through the CUDA driver -------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The device of one context of the driver, with the code of one plan. The
/// context is the one that was current when the device was opened: that of the
/// CUDA run time, and so of torch. Calls may come from any thread; each makes
/// the context current for its own length where it is not.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_CUDADEVICE_H
#define DELTA_RUNTIME_DEVICE_CUDADEVICE_H

#include "codegen/device/Kernels.h"
#include "runtime/device/CudaSymbols.h"
#include "runtime/device/Device.h"

namespace delta::runtime {

class CudaDevice final : public Device {
public:
  /// Borrows the context, or releases the primary one at the end. OpenDevice.h
  /// is the way to get one.
  CudaDevice(const CudaSymbols &symbols, CudaOrdinal ordinal,
             CudaContext context, bool ownsContext)
      : symbols(symbols), ordinal(ordinal), context(context),
        ownsContext(ownsContext) {}
  ~CudaDevice() override;

  /// Takes the plan's kernels and tables from its code for this device. Called
  /// once, before all else.
  Status load(const delta_cubin_t &cubin);

  uint32_t getNumProcessors() const override { return numProcessors; }
  const delta_box_t *getBoxes() const override { return boxes; }
  const delta_image_t *getImages() const override { return images; }
  MemoryKind kindOf(const void *pointer) const override;

  Status allocate(uint64_t numBytes, void *&out) override;
  void free(void *pointer) override;
  Status allocatePinned(uint64_t numBytes, void *&out) override;
  void freePinned(void *pointer) override;

  Status copy(void *to, const void *from, uint64_t numBytes,
              Stream stream) override;
  Status fill(void *to, uint8_t value, uint64_t numBytes,
              Stream stream) override;
  Status launch(DeviceKernel kernel, uint32_t numBlocks, const void *arguments,
                Stream stream) override;
  Status wait(Stream stream) override;

  Status createStream(Stream &out) override;
  void destroyStream(Stream stream) override;
  Status createEvent(void *&out) override;
  void destroyEvent(void *event) override;
  Status record(void *event, Stream stream) override;
  Status await(void *event, Stream stream) override;
  bool isCapturing(Stream stream) override;

private:
  Status findKernel(uint32_t kernel);
  Status shareMemory(uint32_t kernel);
  template <typename Row>
  Status findTable(const char *name, const Row *&out) const;
  /// Runs `body`, which returns a Status, with the context current.
  template <typename Body> Status inContext(const Body &body) const;

  const CudaSymbols &symbols;
  const CudaOrdinal ordinal;
  const CudaContext context;
  /// Whether the primary context was retained for this device.
  const bool ownsContext;
  CudaModule module = nullptr;
  CudaFunction kernels[NumDeviceKernels] = {};
  /// Dynamic shared memory of a block of each, in bytes.
  uint32_t sharedBytes[NumDeviceKernels] = {};
  const delta_box_t *boxes = nullptr;
  const delta_image_t *images = nullptr;
  uint32_t numProcessors = 0;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_CUDADEVICE_H
