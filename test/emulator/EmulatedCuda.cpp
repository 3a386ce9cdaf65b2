//===- EmulatedCuda.cpp - A driver that runs kernels, without a GPU -------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A library to be named in DELTA_CUDA_DRIVER: a driver whose kernels run on
/// the emulator. A plan that was compiled for GPUs runs whole, its own code for
/// the driver included, on a machine that has none; slowly. Kernels are taken
/// by name and run from the text that they were compiled from; boxes and images
/// are read from the plan's cubin. Work is done when it is enqueued.
///
//===----------------------------------------------------------------------===//

#include "EmulatedDevice.h"
#include "runtime/device/CudaSymbols.h"

#include <chrono>
#include <cstring>
#include <elf.h>
#include <mutex>

using namespace delta::runtime;
using namespace delta::runtime::cuda;
using delta::test::EmulatedDevice;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
enum : CudaResult { InvalidValue = 1, NoContext = 201 };

constexpr const char *KernelNames[] = {
#define DELTA_DEVICE_KERNEL(enumerator, name, arguments, body, file, threads,  \
                            blocks, shared)                                    \
  "delta_" #name,
#include "codegen/device/DeviceKernels.def"
};

struct Event {
  std::chrono::steady_clock::time_point time;
};

/// All of it is used under the lock: the emulator has one thread.
struct Driver {
  std::mutex lock;
  delta_tables_t tables = {}; ///< not asked for
  EmulatedDevice device{tables};
  int context = 0;
  static std::vector<void *> &stack() {
    static thread_local std::vector<void *> contexts;
    return contexts;
  }
};
} // namespace

/// Never destroyed: plans are closed at exit.
static Driver &driver() {
  static Driver *const made = new Driver;
  return *made;
}

static CudaResult resultOf(const Status &status) {
  return !status.failed()                      ? CUDA_SUCCESS
         : status.getCode() == DELTA_NO_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY
                                               : InvalidValue;
}

/// Runs `body` of the device, which returns a Status, in a context.
template <typename Body> static CudaResult onDevice(const Body &body) {
  if (Driver::stack().empty())
    return NoContext;
  std::lock_guard<std::mutex> guard(driver().lock);
  return resultOf(body(driver().device));
}

template <typename T> static T *pointerTo(CudaAddress address) {
  return reinterpret_cast<T *>(address);
}

//===----------------------------------------------------------------------===//
// Devices and contexts
//===----------------------------------------------------------------------===//

EXPORT CudaResult cuInit(unsigned) { return CUDA_SUCCESS; }

EXPORT CudaResult cuDriverGetVersion(int *out) {
  *out = 13000;
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuGetErrorString(CudaResult error, const char **out) {
  *out = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory"
         : error == NoContext              ? "invalid device context"
                                           : "invalid argument";
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuDeviceGet(CudaOrdinal *out, int ordinal) {
  *out = ordinal;
  return ordinal ? InvalidValue : CUDA_SUCCESS;
}

EXPORT CudaResult cuDeviceGetName(char *out, int size, CudaOrdinal) {
  snprintf(out, size_t(size), "emulated device");
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuDeviceGetAttribute(int *out, int attribute, CudaOrdinal) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *out = 9;
    break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    *out = 0;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    *out = 232448;
    break;
  case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
    *out = 1024;
    break;
  default: // one processor
    *out = 1;
  }
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuDevicePrimaryCtxRetain(CudaContext *out, CudaOrdinal) {
  *out = &driver().context;
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuDevicePrimaryCtxRelease_v2(CudaOrdinal) {
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuCtxGetCurrent(CudaContext *out) {
  *out = Driver::stack().empty() ? nullptr : Driver::stack().back();
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuCtxGetDevice(CudaOrdinal *out) {
  *out = 0;
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuCtxGetId(CudaContext, unsigned long long *out) {
  *out = 1;
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuCtxPushCurrent_v2(CudaContext context) {
  Driver::stack().push_back(context);
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuCtxSetCurrent(CudaContext context) {
  Driver::stack().assign(1, context);
  return CUDA_SUCCESS;
}
EXPORT CudaResult cuCtxSynchronize() { return CUDA_SUCCESS; }

EXPORT CudaResult cuCtxPopCurrent_v2(CudaContext *out) {
  if (Driver::stack().empty())
    return NoContext;
  *out = Driver::stack().back();
  Driver::stack().pop_back();
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Modules: an image is a cubin, which is an ELF file
//===----------------------------------------------------------------------===//

EXPORT CudaResult cuModuleLoadData(CudaModule *out, const void *image) {
  *out = const_cast<void *>(image);
  return memcmp(image, ELFMAG, SELFMAG) == 0 ? CUDA_SUCCESS : InvalidValue;
}

EXPORT CudaResult cuModuleUnload(CudaModule) { return CUDA_SUCCESS; }

/// Where a global variable is in the image, and its size; null: it has none.
static const uint8_t *findGlobal(const uint8_t *image, const char *name,
                                 size_t &outBytes) {
  const auto &header = *reinterpret_cast<const Elf64_Ehdr *>(image);
  auto *sections = reinterpret_cast<const Elf64_Shdr *>(image + header.e_shoff);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB)
      continue;
    auto *symbols =
        reinterpret_cast<const Elf64_Sym *>(image + sections[i].sh_offset);
    const auto *names = reinterpret_cast<const char *>(
        image + sections[sections[i].sh_link].sh_offset);
    for (size_t j = 0; j < sections[i].sh_size / sizeof(Elf64_Sym); ++j) {
      const Elf64_Sym &symbol = symbols[j];
      if (strcmp(names + symbol.st_name, name) != 0 ||
          symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= header.e_shnum)
        continue;
      outBytes = symbol.st_size;
      return image + sections[symbol.st_shndx].sh_offset + symbol.st_value;
    }
  }
  return nullptr;
}

EXPORT CudaResult cuModuleGetFunction(CudaFunction *out, CudaModule module,
                                      const char *name) {
  size_t numBytes = 0;
  for (const char *const &known : KernelNames)
    if (strcmp(known, name) == 0) {
      *out = const_cast<const char **>(&known);
      return findGlobal(static_cast<uint8_t *>(module), name, numBytes)
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_NOT_FOUND;
    }
  return CUDA_ERROR_NOT_FOUND;
}

/// The emulator gives each kernel what it needs.
EXPORT CudaResult cuFuncGetAttribute(int *out, int, CudaFunction) {
  *out = 0;
  return CUDA_SUCCESS;
}
EXPORT CudaResult cuFuncSetAttribute(CudaFunction, int, int) {
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuModuleGetGlobal_v2(CudaAddress *out, size_t *outBytes,
                                       CudaModule module, const char *name) {
  const uint8_t *found =
      findGlobal(static_cast<uint8_t *>(module), name, *outBytes);
  *out = reinterpret_cast<CudaAddress>(found);
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

EXPORT CudaResult cuMemGetInfo_v2(size_t *outFree, size_t *outTotal) {
  *outFree = *outTotal = size_t(1) << 30;
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuMemAlloc_v2(CudaAddress *out, size_t numBytes) {
  void *pointer = nullptr;
  CudaResult result = onDevice(
      [&](Device &device) { return device.allocate(numBytes, pointer); });
  *out = reinterpret_cast<CudaAddress>(pointer);
  return result;
}

EXPORT CudaResult cuMemFree_v2(CudaAddress pointer) {
  return onDevice([&](Device &device) {
    device.free(pointerTo<void>(pointer));
    return Status();
  });
}

EXPORT CudaResult cuMemHostAlloc(void **out, size_t numBytes, unsigned) {
  return onDevice(
      [&](Device &device) { return device.allocatePinned(numBytes, *out); });
}

EXPORT CudaResult cuMemFreeHost(void *pointer) {
  return onDevice([&](Device &device) {
    device.freePinned(pointer);
    return Status();
  });
}

EXPORT CudaResult cuMemHostRegister_v2(void *, size_t, unsigned) {
  return CUDA_SUCCESS;
}
EXPORT CudaResult cuMemHostUnregister(void *) { return CUDA_SUCCESS; }

EXPORT CudaResult cuMemcpyAsync(CudaAddress to, CudaAddress from,
                                size_t numBytes, CudaStream stream) {
  return onDevice([&](Device &device) {
    return device.copy(pointerTo<void>(to), pointerTo<void>(from), numBytes,
                       stream);
  });
}

EXPORT CudaResult cuMemcpyHtoD_v2(CudaAddress to, const void *from,
                                  size_t numBytes) {
  memcpy(pointerTo<void>(to), from, numBytes);
  return CUDA_SUCCESS;
}
EXPORT CudaResult cuMemcpyDtoH_v2(void *to, CudaAddress from, size_t numBytes) {
  memcpy(to, pointerTo<void>(from), numBytes);
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuMemsetD8Async(CudaAddress to, unsigned char value,
                                  size_t numBytes, CudaStream stream) {
  return onDevice([&](Device &device) {
    return device.fill(pointerTo<void>(to), value, numBytes, stream);
  });
}

EXPORT CudaResult cuPointerGetAttributes(unsigned count, int *attributes,
                                         void **outValues,
                                         CudaAddress pointer) {
  return onDevice([&](Device &device) {
    const MemoryKind kind = device.kindOf(pointerTo<void>(pointer));
    for (unsigned i = 0; i < count; ++i)
      *static_cast<int *>(outValues[i]) =
          attributes[i] != CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? 0
          : kind == MemoryKind::Device ? CU_MEMORYTYPE_DEVICE
          : kind == MemoryKind::Pinned ? CU_MEMORYTYPE_HOST
                                       : 0;
    return Status();
  });
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

EXPORT CudaResult cuLaunchKernel(CudaFunction function, unsigned gridX,
                                 unsigned, unsigned, unsigned blockX, unsigned,
                                 unsigned, unsigned, CudaStream stream,
                                 void **parameters, void **) {
  const auto kernel =
      DeviceKernel(static_cast<const char *const *>(function) - KernelNames);
  if (gridX == 0 || blockX != shapeOf(kernel).numThreads)
    return InvalidValue;
  return onDevice([&](EmulatedDevice &device) {
    device.launches.clear();
    return device.launch(kernel, gridX, parameters[0], stream);
  });
}

EXPORT CudaResult cuStreamCreate(CudaStream *out, unsigned) {
  *out = new char;
  return CUDA_SUCCESS;
}
EXPORT CudaResult cuStreamDestroy_v2(CudaStream stream) {
  delete static_cast<char *>(stream);
  return CUDA_SUCCESS;
}
EXPORT CudaResult cuStreamSynchronize(CudaStream) { return CUDA_SUCCESS; }
EXPORT CudaResult cuStreamIsCapturing(CudaStream, int *out) {
  *out = 0;
  return CUDA_SUCCESS;
}
EXPORT CudaResult cuStreamWaitEvent(CudaStream, CudaEvent, unsigned) {
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuEventCreate(CudaEvent *out, unsigned) {
  *out = new Event;
  return CUDA_SUCCESS;
}
EXPORT CudaResult cuEventDestroy_v2(CudaEvent event) {
  delete static_cast<Event *>(event);
  return CUDA_SUCCESS;
}
EXPORT CudaResult cuEventRecord(CudaEvent event, CudaStream) {
  static_cast<Event *>(event)->time = std::chrono::steady_clock::now();
  return CUDA_SUCCESS;
}
EXPORT CudaResult cuEventSynchronize(CudaEvent) { return CUDA_SUCCESS; }
EXPORT CudaResult cuEventElapsedTime(float *outMilliseconds, CudaEvent begin,
                                     CudaEvent end) {
  std::chrono::duration<float, std::milli> passed =
      static_cast<Event *>(end)->time - static_cast<Event *>(begin)->time;
  *outMilliseconds = passed.count();
  return CUDA_SUCCESS;
}
