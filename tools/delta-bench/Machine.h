//===- Machine.h - Memory and clock of what runs a plan ------- -*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What `delta-bench` asks of the host or of a GPU, so that the stages of a
/// sync are written once. Failures are thrown (BenchError.h). Work is enqueued
/// on one stream, in order, and awaited by `wait`.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_MACHINE_H
#define DELTA_TOOLS_DELTA_BENCH_MACHINE_H

#include "runtime/Pool.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace delta::bench {

/// A point in time on the stream; valid until `forgetMarks`.
using Mark = size_t;

class Machine {
public:
  virtual ~Machine() = default;

  /// Lines for the head of a report.
  virtual std::vector<std::string> describe() const = 0;
  virtual bool isDevice() const = 0;
  /// For set_stream of senders and receivers; null on the host.
  virtual void *getStream() const = 0;
  virtual uint64_t getFreeBytes() const = 0;

  /// Memory that plans are bound to. 256 bytes aligned.
  virtual void *allocate(uint64_t numBytes) = 0;
  virtual void free(void *memory) = 0;
  /// Memory of the host that a device copies from at the rate of the link.
  virtual void *allocatePinned(uint64_t numBytes) = 0;
  virtual void freePinned(void *memory) = 0;
  /// Tries the same for memory that is there; false: copies are slower.
  virtual bool pin(void *memory, uint64_t numBytes) = 0;
  virtual void unpin(void *memory) = 0;

  /// Between any two memories.
  virtual void copy(void *to, const void *from, uint64_t numBytes) = 0;
  virtual void fill(void *to, uint8_t value, uint64_t numBytes) = 0;
  virtual void wait() = 0;
  /// Works until the clocks are up; nothing on the host.
  virtual void warmUp() {}

  virtual Mark mark() = 0;
  /// Seconds; waits until both have passed.
  virtual double secondsBetween(Mark begin, Mark end) = 0;
  virtual void forgetMarks() = 0;
};

/// Copies with the threads of the pool, which it borrows.
std::unique_ptr<Machine> makeHostMachine(runtime::Pool &pool);
/// Memory that the host has left.
uint64_t freeHostBytes();
/// The first GPU, its primary context current in this thread.
std::unique_ptr<Machine> makeCudaMachine();

/// Owned memory of a machine, which outlives it.
class Block {
public:
  Block() = default;
  Block(Machine &machine, uint64_t numBytes, bool isPinned = false)
      : machine(&machine), isPinned(isPinned),
        memory(isPinned ? machine.allocatePinned(numBytes)
                        : machine.allocate(numBytes)) {}
  Block(Block &&other) noexcept { *this = std::move(other); }
  Block &operator=(Block &&other) noexcept {
    std::swap(machine, other.machine);
    std::swap(isPinned, other.isPinned);
    std::swap(memory, other.memory);
    return *this;
  }
  ~Block() {
    if (memory)
      isPinned ? machine->freePinned(memory) : machine->free(memory);
  }
  template <typename T = uint8_t> T *as() const {
    return static_cast<T *>(memory);
  }

private:
  Machine *machine = nullptr;
  bool isPinned = false;
  void *memory = nullptr;
};

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_MACHINE_H
