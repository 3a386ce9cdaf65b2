//===- FakeCuda.cpp - A driver without a GPU ------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include "runtime/device/CudaSymbols.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>

using namespace delta::runtime;
using namespace delta::runtime::cuda;
using delta::test::FakeCuda;

#define EXPORT extern "C" __attribute__((visibility("default")))

[[noreturn]] static void stop(const char *why) {
  fprintf(stderr, "fake driver: %s\n", why);
  abort();
}

namespace {
struct Context {
  unsigned long long id;
};

struct Driver final : FakeCuda {
  std::mutex lock;
  Context contexts[3] = {{1}, {2}, {3}};
  unsigned long long nextId = 4;
  std::map<uintptr_t, size_t> blocks, pinned;
  std::set<void *> modules, streams, events;
  /// Names that kernels were found by; their addresses are the functions.
  std::set<std::string> names;

  static std::vector<void *> &stack() {
    static thread_local std::vector<void *> contexts;
    return contexts;
  }
  void *context(int number) override { return &contexts[number]; }
  void *getCurrent() override {
    return stack().empty() ? nullptr : stack().back();
  }
  void setCurrent(void *current) override {
    stack().clear();
    if (current)
      stack().push_back(current);
  }
  void renew(int number) override { contexts[number].id = nextId++; }

  bool fails(const char *name) {
    if (failing != name)
      return false;
    failing.clear();
    return true;
  }
};
} // namespace

static Driver driver;
EXPORT FakeCuda *delta_fake_cuda() { return &driver; }

/// Begins every entry point but those that need no context.
#define BEGIN(name)                                                            \
  std::lock_guard<std::mutex> guard(driver.lock);                              \
  if (driver.fails(#name))                                                     \
  return driver.result
#define BEGIN_IN_CONTEXT(name)                                                 \
  BEGIN(name);                                                                 \
  if (!driver.getCurrent())                                                    \
  stop(#name " without a current context")

//===----------------------------------------------------------------------===//
// Devices and contexts
//===----------------------------------------------------------------------===//

EXPORT CudaResult cuInit(unsigned flags) {
  BEGIN(cuInit);
  return flags ? 1 : CUDA_SUCCESS;
}

EXPORT CudaResult cuGetErrorString(CudaResult error, const char **out) {
  *out = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory"
         : error == 700 ? "an illegal memory access was encountered"
         : error == CUDA_ERROR_NOT_FOUND ? "named symbol not found"
                                         : nullptr;
  return *out ? CUDA_SUCCESS : 1;
}

EXPORT CudaResult cuDeviceGet(CudaOrdinal *out, int ordinal) {
  BEGIN(cuDeviceGet);
  *out = ordinal;
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuDeviceGetAttribute(int *out, int attribute,
                                       CudaOrdinal device) {
  BEGIN(cuDeviceGetAttribute);
  const std::map<int, int> values = {
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, driver.major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, driver.minor},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
       driver.sharedOfProcessor},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
       driver.sharedOfBlock},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024}};
  auto found = values.find(attribute);
  if (device != 0 || found == values.end())
    return 101;
  *out = found->second;
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuDevicePrimaryCtxRetain(CudaContext *out,
                                           CudaOrdinal device) {
  BEGIN(cuDevicePrimaryCtxRetain);
  ++driver.numPrimary;
  *out = driver.context(0);
  return device == 0 ? CUDA_SUCCESS : 101;
}

EXPORT CudaResult cuDevicePrimaryCtxRelease_v2(CudaOrdinal device) {
  BEGIN(cuDevicePrimaryCtxRelease);
  if (driver.numPrimary-- == 0)
    stop("released what was not retained");
  return device == 0 ? CUDA_SUCCESS : 101;
}

EXPORT CudaResult cuCtxGetCurrent(CudaContext *out) {
  BEGIN(cuCtxGetCurrent);
  *out = driver.getCurrent();
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuCtxGetDevice(CudaOrdinal *out) {
  BEGIN_IN_CONTEXT(cuCtxGetDevice);
  *out = 0;
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuCtxGetId(CudaContext context, unsigned long long *out) {
  BEGIN(cuCtxGetId);
  *out = static_cast<Context *>(context)->id;
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuCtxPushCurrent_v2(CudaContext context) {
  BEGIN(cuCtxPushCurrent);
  Driver::stack().push_back(context);
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuCtxPopCurrent_v2(CudaContext *out) {
  BEGIN_IN_CONTEXT(cuCtxPopCurrent);
  *out = driver.getCurrent();
  Driver::stack().pop_back();
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Modules: an image is a text, and has what is named in it
//===----------------------------------------------------------------------===//

EXPORT CudaResult cuModuleLoadData(CudaModule *out, const void *image) {
  BEGIN_IN_CONTEXT(cuModuleLoadData);
  ++driver.numModules;
  *out = new std::string(static_cast<const char *>(image));
  driver.modules.insert(*out);
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuModuleUnload(CudaModule module) {
  BEGIN_IN_CONTEXT(cuModuleUnload);
  if (!driver.modules.erase(module))
    stop("unloaded what was not loaded");
  --driver.numModules;
  delete static_cast<std::string *>(module);
  return CUDA_SUCCESS;
}

static bool hasName(CudaModule module, const char *name) {
  const std::string &image = *static_cast<std::string *>(module);
  return (" " + image + " ").find(" " + std::string(name) + " ") !=
         std::string::npos;
}

EXPORT CudaResult cuModuleGetFunction(CudaFunction *out, CudaModule module,
                                      const char *name) {
  BEGIN_IN_CONTEXT(cuModuleGetFunction);
  if (!hasName(module, name))
    return CUDA_ERROR_NOT_FOUND;
  *out = const_cast<std::string *>(&*driver.names.insert(name).first);
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuFuncGetAttribute(int *out, int attribute, CudaFunction) {
  BEGIN_IN_CONTEXT(cuFuncGetAttribute);
  *out = 8192;
  return attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? CUDA_SUCCESS : 1;
}

EXPORT CudaResult cuFuncSetAttribute(CudaFunction function, int attribute,
                                     int value) {
  BEGIN_IN_CONTEXT(cuFuncSetAttribute);
  driver.dynamicShared[*static_cast<std::string *>(function)] = value;
  return attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
             ? CUDA_SUCCESS
             : 1;
}

EXPORT CudaResult cuModuleGetGlobal_v2(CudaAddress *out, size_t *outBytes,
                                       CudaModule module, const char *name) {
  BEGIN_IN_CONTEXT(cuModuleGetGlobal);
  if (!hasName(module, name))
    return CUDA_ERROR_NOT_FOUND;
  // Some address of the module's own.
  *out = reinterpret_cast<CudaAddress>(module) + strlen(name);
  *outBytes = 1;
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static uintptr_t take(std::map<uintptr_t, size_t> &blocks, size_t numBytes) {
  uintptr_t address = reinterpret_cast<uintptr_t>(std::malloc(numBytes));
  blocks[address] = numBytes;
  return address;
}

static void giveBack(std::map<uintptr_t, size_t> &blocks, uintptr_t address) {
  if (!blocks.erase(address))
    stop("freed what was not allocated");
  std::free(reinterpret_cast<void *>(address));
}

static bool isIn(const std::map<uintptr_t, size_t> &blocks, uintptr_t address) {
  auto after = blocks.upper_bound(address);
  return after != blocks.begin() &&
         address < std::prev(after)->first + std::prev(after)->second;
}

EXPORT CudaResult cuMemAlloc_v2(CudaAddress *out, size_t numBytes) {
  BEGIN_IN_CONTEXT(cuMemAlloc);
  ++driver.numBlocks;
  *out = take(driver.blocks, numBytes);
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuMemFree_v2(CudaAddress pointer) {
  BEGIN_IN_CONTEXT(cuMemFree);
  --driver.numBlocks;
  giveBack(driver.blocks, pointer);
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuMemHostAlloc(void **out, size_t numBytes, unsigned flags) {
  BEGIN_IN_CONTEXT(cuMemHostAlloc);
  if (flags != (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP))
    return 1;
  ++driver.numPinnedBlocks;
  *out = reinterpret_cast<void *>(take(driver.pinned, numBytes));
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuMemFreeHost(void *pointer) {
  BEGIN_IN_CONTEXT(cuMemFreeHost);
  --driver.numPinnedBlocks;
  giveBack(driver.pinned, reinterpret_cast<uintptr_t>(pointer));
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuMemcpyAsync(CudaAddress to, CudaAddress from,
                                size_t numBytes, CudaStream stream) {
  BEGIN_IN_CONTEXT(cuMemcpyAsync);
  driver.calls.push_back({"cuMemcpyAsync", stream});
  memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from),
         numBytes);
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuMemsetD8Async(CudaAddress to, unsigned char value,
                                  size_t numBytes, CudaStream stream) {
  BEGIN_IN_CONTEXT(cuMemsetD8Async);
  driver.calls.push_back({"cuMemsetD8Async", stream});
  memset(reinterpret_cast<void *>(to), value, numBytes);
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuPointerGetAttributes(unsigned count, int *attributes,
                                         void **outValues,
                                         CudaAddress pointer) {
  BEGIN_IN_CONTEXT(cuPointerGetAttributes);
  bool isOther =
      reinterpret_cast<const void *>(pointer) == driver.ofOtherDevice;
  bool isDevice = isOther || isIn(driver.blocks, pointer);
  bool isPinned = isIn(driver.pinned, pointer);
  for (unsigned i = 0; i < count; ++i)
    switch (attributes[i]) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned *>(outValues[i]) = isDevice   ? CU_MEMORYTYPE_DEVICE
                                               : isPinned ? CU_MEMORYTYPE_HOST
                                                          : 0;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int *>(outValues[i]) = isOther ? 1 : isDevice ? 0 : -2;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned *>(outValues[i]) = 0;
      break;
    default:
      return 1;
    }
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

EXPORT CudaResult cuLaunchKernel(CudaFunction function, unsigned gridX,
                                 unsigned gridY, unsigned gridZ,
                                 unsigned blockX, unsigned blockY,
                                 unsigned blockZ, unsigned sharedBytes,
                                 CudaStream stream, void **parameters,
                                 void **extra) {
  BEGIN_IN_CONTEXT(cuLaunchKernel);
  if (gridY != 1 || gridZ != 1 || blockY != 1 || blockZ != 1 || extra ||
      gridX == 0)
    return 1;
  auto *bytes = static_cast<const uint8_t *>(parameters[0]);
  driver.launches.push_back({*static_cast<std::string *>(function),
                             gridX,
                             blockX,
                             sharedBytes,
                             stream,
                             {bytes, bytes + driver.argumentBytes}});
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuStreamCreate(CudaStream *out, unsigned flags) {
  BEGIN_IN_CONTEXT(cuStreamCreate);
  ++driver.numStreams;
  driver.streams.insert(*out = new char);
  return flags == CU_STREAM_NON_BLOCKING ? CUDA_SUCCESS : 1;
}

EXPORT CudaResult cuStreamDestroy_v2(CudaStream stream) {
  BEGIN_IN_CONTEXT(cuStreamDestroy);
  --driver.numStreams;
  if (!driver.streams.erase(stream))
    stop("destroyed no stream");
  delete static_cast<char *>(stream);
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuStreamSynchronize(CudaStream stream) {
  BEGIN_IN_CONTEXT(cuStreamSynchronize);
  driver.calls.push_back({"cuStreamSynchronize", stream});
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuStreamWaitEvent(CudaStream stream, CudaEvent event,
                                    unsigned flags) {
  BEGIN_IN_CONTEXT(cuStreamWaitEvent);
  driver.calls.push_back({"cuStreamWaitEvent", stream});
  return driver.events.count(event) && !flags ? CUDA_SUCCESS : 1;
}

EXPORT CudaResult cuStreamIsCapturing(CudaStream stream, int *outStatus) {
  BEGIN_IN_CONTEXT(cuStreamIsCapturing);
  *outStatus = stream == driver.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : 0;
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuEventCreate(CudaEvent *out, unsigned flags) {
  BEGIN_IN_CONTEXT(cuEventCreate);
  ++driver.numEvents;
  driver.events.insert(*out = new char);
  return flags == CU_EVENT_DISABLE_TIMING ? CUDA_SUCCESS : 1;
}

EXPORT CudaResult cuEventDestroy_v2(CudaEvent event) {
  BEGIN_IN_CONTEXT(cuEventDestroy);
  --driver.numEvents;
  if (!driver.events.erase(event))
    stop("destroyed no event");
  delete static_cast<char *>(event);
  return CUDA_SUCCESS;
}

EXPORT CudaResult cuEventRecord(CudaEvent event, CudaStream stream) {
  BEGIN_IN_CONTEXT(cuEventRecord);
  driver.calls.push_back({"cuEventRecord", stream});
  return driver.events.count(event) ? CUDA_SUCCESS : 1;
}
