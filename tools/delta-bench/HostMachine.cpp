//===- HostMachine.cpp - Memory and clock of the host ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BenchError.h"
#include "Machine.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unistd.h>

using namespace delta::bench;

static constexpr uint64_t Alignment = 256;
/// Bytes that a thread copies at a time.
static constexpr int64_t CopyGrain = 1 << 22;

namespace {
class HostMachine final : public Machine {
public:
  explicit HostMachine(delta::runtime::Pool &pool) : pool(pool) {}

  std::vector<std::string> describe() const override;
  bool isDevice() const override { return false; }
  void *getStream() const override { return nullptr; }
  uint64_t getFreeBytes() const override { return freeHostBytes(); }

  void *allocate(uint64_t numBytes) override;
  void free(void *memory) override { std::free(memory); }
  void *allocatePinned(uint64_t numBytes) override {
    return allocate(numBytes);
  }
  void freePinned(void *memory) override { std::free(memory); }
  bool pin(void *, uint64_t) override { return true; }
  void unpin(void *) override {}

  void copy(void *to, const void *from, uint64_t numBytes) override;
  void fill(void *to, uint8_t value, uint64_t numBytes) override;
  void wait() override {}

  Mark mark() override {
    marks.push_back(std::chrono::steady_clock::now());
    return marks.size() - 1;
  }
  double secondsBetween(Mark begin, Mark end) override {
    return std::chrono::duration<double>(marks[end] - marks[begin]).count();
  }
  void forgetMarks() override { marks.clear(); }

private:
  delta::runtime::Pool &pool;
  std::vector<std::chrono::steady_clock::time_point> marks;
};
} // namespace

/// What follows the colon of the first line of `path` that begins with `key`.
static std::string valueOf(const char *path, const std::string &key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.compare(0, key.size(), key) == 0) {
      size_t colon = line.find(':');
      size_t begin = line.find_first_not_of(" \t", colon + 1);
      return begin == std::string::npos ? "" : line.substr(begin);
    }
  return "";
}

std::vector<std::string> HostMachine::describe() const {
  std::string model = valueOf("/proc/cpuinfo", "model name");
  return {"device: host, " + (model.empty() ? "unknown" : model) + ", " +
          std::to_string(pool.getNumThreads()) + " thread(s)"};
}

uint64_t delta::bench::freeHostBytes() {
  // In kilobytes. Where it is not known, a run out of memory says so.
  uint64_t kilobytes =
      strtoull(valueOf("/proc/meminfo", "MemAvailable").c_str(), nullptr, 10);
  return kilobytes ? kilobytes << 10 : UINT64_MAX;
}

void *HostMachine::allocate(uint64_t numBytes) {
  uint64_t rounded = (numBytes + Alignment - 1) & ~(Alignment - 1);
  void *memory = std::aligned_alloc(Alignment, rounded ? rounded : Alignment);
  if (!memory)
    throw BenchError("out of memory of the host: " + std::to_string(numBytes) +
                     " bytes are required");
  return memory;
}

void HostMachine::copy(void *to, const void *from, uint64_t numBytes) {
  pool.run(
      int64_t(numBytes), CopyGrain, [&](int64_t begin, int64_t end, uint32_t) {
        memcpy(static_cast<uint8_t *>(to) + begin,
               static_cast<const uint8_t *>(from) + begin, size_t(end - begin));
      });
}

void HostMachine::fill(void *to, uint8_t value, uint64_t numBytes) {
  pool.run(
      int64_t(numBytes), CopyGrain, [&](int64_t begin, int64_t end, uint32_t) {
        memset(static_cast<uint8_t *>(to) + begin, value, size_t(end - begin));
      });
}

std::unique_ptr<Machine>
delta::bench::makeHostMachine(delta::runtime::Pool &pool) {
  return std::make_unique<HostMachine>(pool);
}
