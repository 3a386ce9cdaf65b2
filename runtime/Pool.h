//===- Pool.h - The threads of a handle -------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A fixed number of threads, created with the handle that owns them and idle
/// between its calls. The calling thread is one of them: a pool of one thread
/// starts none.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_POOL_H
#define DELTA_RUNTIME_POOL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace delta::runtime {

class Pool {
public:
  /// Starts numThreads - 1 threads; 0 counts as 1.
  explicit Pool(uint32_t numThreads);
  ~Pool();

  uint32_t getNumThreads() const { return uint32_t(threads.size()) + 1; }

  /// Calls body(begin, end, thread) for pieces of at most `grain` of
  /// [0, count), which the threads take from a counter. Returns when all are
  /// done; throws what a body threw. Allocates nothing.
  template <typename Body>
  void run(int64_t count, int64_t grain, const Body &body) {
    runTask(count, grain,
            {&body, [](const void *erased, int64_t begin, int64_t end,
                       uint32_t thread) {
               (*static_cast<const Body *>(erased))(begin, end, thread);
             }});
  }

private:
  /// A body without its type; lives as long as the call of `run`.
  struct Task {
    const void *body;
    void (*call)(const void *body, int64_t begin, int64_t end, uint32_t thread);
  };
  void runTask(int64_t count, int64_t grain, Task task);
  void work(uint32_t thread);
  void loop(uint32_t thread);

  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable started, finished;
  uint64_t round = 0;
  uint32_t numBusy = 0;
  bool stopping = false;

  std::atomic<int64_t> next{0};
  int64_t count = 0, grain = 1;
  Task task = {nullptr, nullptr};
  std::exception_ptr failure;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_POOL_H
