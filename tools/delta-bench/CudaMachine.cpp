//===- CudaMachine.cpp - Memory and clock of a GPU ------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BenchError.h"
#include "Machine.h"

#include "runtime/device/CudaDevice.h"

#include <chrono>
#include <cstdio>
#include <fstream>

using namespace delta::bench;
using namespace delta::runtime;

/// The first GPU; CUDA_VISIBLE_DEVICES chooses another.
static constexpr CudaOrdinal Ordinal = 0;

namespace {
/// Entry points that no plan needs, with the types that cuda.h gives them.
struct Extras {
  CudaResult (*deviceGetName)(char *out, int size, CudaOrdinal device);
  CudaResult (*driverGetVersion)(int *out);
  CudaResult (*memGetInfo)(size_t *outFree, size_t *outTotal);
  CudaResult (*hostRegister)(void *memory, size_t numBytes, unsigned flags);
  CudaResult (*hostUnregister)(void *memory);
  CudaResult (*eventSynchronize)(CudaEvent event);
  CudaResult (*eventElapsed)(float *outMilliseconds, CudaEvent begin,
                             CudaEvent end);

  Extras() {
    find("cuDeviceGetName", deviceGetName);
    find("cuDriverGetVersion", driverGetVersion);
    find("cuMemGetInfo_v2", memGetInfo);
    find("cuMemHostRegister_v2", hostRegister);
    find("cuMemHostUnregister", hostUnregister);
    find("cuEventSynchronize", eventSynchronize);
    find("cuEventElapsedTime", eventElapsed);
  }

private:
  template <typename Function>
  static void find(const char *symbol, Function *&out) {
    out = reinterpret_cast<Function *>(CudaSymbols::find(symbol));
    if (!out)
      throw BenchError(std::string("no usable NVIDIA driver: it has no ") +
                       symbol);
  }
};

class CudaMachine final : public Machine {
public:
  explicit CudaMachine(const CudaSymbols &symbols);
  ~CudaMachine() override;

  std::vector<std::string> describe() const override;
  bool isDevice() const override { return true; }
  void *getStream() const override { return stream; }
  uint64_t getFreeBytes() const override { return getMemory().first; }

  void *allocate(uint64_t numBytes) override;
  void free(void *memory) override { device->free(memory); }
  void *allocatePinned(uint64_t numBytes) override;
  void freePinned(void *memory) override { device->freePinned(memory); }
  bool pin(void *memory, uint64_t numBytes) override {
    return extras.hostRegister(memory, numBytes, /*flags=*/0) ==
           cuda::CUDA_SUCCESS;
  }
  void unpin(void *memory) override { (void)extras.hostUnregister(memory); }

  void copy(void *to, const void *from, uint64_t numBytes) override {
    must(device->copy(to, from, numBytes, stream));
  }
  void fill(void *to, uint8_t value, uint64_t numBytes) override {
    must(device->fill(to, value, numBytes, stream));
  }
  void wait() override { must(device->wait(stream)); }
  void warmUp() override;

  Mark mark() override;
  double secondsBetween(Mark begin, Mark end) override;
  void forgetMarks() override { numMarks = 0; }

private:
  /// Free bytes and all bytes.
  std::pair<uint64_t, uint64_t> getMemory() const;
  int getAttribute(int attribute) const;
  void check(const char *call, CudaResult result) const {
    must(symbols.check(call, result));
  }

  const CudaSymbols &symbols;
  Extras extras;
  std::unique_ptr<CudaDevice> device;
  Stream stream = nullptr;
  std::vector<CudaEvent> events; ///< the first numMarks are in use
  size_t numMarks = 0;
  void *scratch = nullptr; ///< of warmUp
};
} // namespace

CudaMachine::CudaMachine(const CudaSymbols &symbols) : symbols(symbols) {
  CudaContext context = nullptr;
  must(DELTA_CUDA_CALL(symbols, primaryRetain, (&context, Ordinal)));
  device = std::make_unique<CudaDevice>(symbols, Ordinal, context,
                                        /*ownsContext=*/true);
  // Plans take the context that is current where they are asked first.
  must(DELTA_CUDA_CALL(symbols, contextPush, (context)));
  must(device->createStream(stream));
}

CudaMachine::~CudaMachine() {
  if (scratch)
    device->free(scratch);
  for (CudaEvent event : events)
    device->destroyEvent(event);
  if (stream)
    device->destroyStream(stream);
  CudaContext popped = nullptr;
  (void)symbols.contextPop(&popped);
}

int CudaMachine::getAttribute(int attribute) const {
  int value = 0;
  must(DELTA_CUDA_CALL(symbols, deviceGetAttribute,
                       (&value, attribute, Ordinal)));
  return value;
}

std::pair<uint64_t, uint64_t> CudaMachine::getMemory() const {
  size_t free = 0, total = 0;
  check("cuMemGetInfo", extras.memGetInfo(&free, &total));
  return {free, total};
}

std::vector<std::string> CudaMachine::describe() const {
  char name[256] = "", text[512] = "";
  int version = 0;
  check("cuDeviceGetName", extras.deviceGetName(name, sizeof(name), Ordinal));
  check("cuDriverGetVersion", extras.driverGetVersion(&version));
  snprintf(text, sizeof(text), "device: %s, %d multiprocessors, %llu MiB", name,
           getAttribute(cuda::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
           static_cast<unsigned long long>(getMemory().second >> 20));
  std::vector<std::string> lines = {text};
  snprintf(text, sizeof(text), "driver: for CUDA %d.%d", version / 1000,
           version % 1000 / 10);
  lines.push_back(text);
  std::ifstream file("/proc/driver/nvidia/version");
  if (std::string line; std::getline(file, line))
    lines.back() += ", " + line;
  return lines;
}

void *CudaMachine::allocate(uint64_t numBytes) {
  void *memory = nullptr;
  Status status = device->allocate(numBytes ? numBytes : 1, memory);
  if (status.failed())
    throw BenchError(status.getText() + ": " + std::to_string(numBytes) +
                     " bytes are required, " + std::to_string(getFreeBytes()) +
                     " are free");
  return memory;
}

void *CudaMachine::allocatePinned(uint64_t numBytes) {
  void *memory = nullptr;
  must(device->allocatePinned(numBytes ? numBytes : 1, memory));
  return memory;
}

/// An H200 that was idle has all its clocks after some 30 ms of work: before
/// that a kernel that computes takes up to a third longer. What the copies
/// leave in the caches is not what is measured either.
void CudaMachine::warmUp() {
  constexpr uint64_t NumBytes = 1 << 26;
  if (!scratch)
    scratch = allocate(2 * NumBytes);
  auto *const bytes = static_cast<uint8_t *>(scratch);
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 8; ++i)
      copy(bytes, bytes + NumBytes, NumBytes);
    wait();
  }
}

Mark CudaMachine::mark() {
  if (numMarks == events.size()) {
    CudaEvent event = nullptr;
    must(DELTA_CUDA_CALL(symbols, eventCreate, (&event, /*flags=*/0)));
    events.push_back(event);
  }
  must(device->record(events[numMarks], stream));
  return numMarks++;
}

double CudaMachine::secondsBetween(Mark begin, Mark end) {
  float milliseconds = 0;
  check("cuEventSynchronize", extras.eventSynchronize(events[end]));
  check("cuEventElapsedTime",
        extras.eventElapsed(&milliseconds, events[begin], events[end]));
  return double(milliseconds) * 1e-3;
}

std::unique_ptr<Machine> delta::bench::makeCudaMachine() {
  const CudaSymbols *symbols = nullptr;
  must(CudaSymbols::get(symbols));
  return std::make_unique<CudaMachine>(*symbols);
}
