//===- Pool.cpp - The threads of a handle ---------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Pool.h"

#include <algorithm>

using namespace delta::runtime;

Pool::Pool(uint32_t numThreads) {
  try {
    for (uint32_t thread = 1; thread < numThreads; ++thread)
      threads.emplace_back([this, thread] { loop(thread); });
  } catch (...) {
    // The system has no more threads: work with those that started.
  }
}

Pool::~Pool() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  started.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void Pool::runTask(int64_t newCount, int64_t newGrain, Task newTask) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    count = newCount;
    grain = newGrain;
    task = newTask;
    failure = nullptr;
    next.store(0, std::memory_order_relaxed);
    numBusy = uint32_t(threads.size());
    ++round;
  }
  started.notify_all();
  work(/*thread=*/0);
  std::unique_lock<std::mutex> lock(mutex);
  finished.wait(lock, [this] { return numBusy == 0; });
  if (failure)
    std::rethrow_exception(failure);
}

void Pool::work(uint32_t thread) {
  try {
    for (;;) {
      int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count)
        return;
      task.call(task.body, begin, std::min(begin + grain, count), thread);
    }
  } catch (...) {
    next.store(count, std::memory_order_relaxed);
    std::lock_guard<std::mutex> lock(mutex);
    failure = std::current_exception();
  }
}

void Pool::loop(uint32_t thread) {
  uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex);
      started.wait(lock, [&] { return stopping || round != seen; });
      if (stopping)
        return;
      seen = round;
    }
    work(thread);
    std::lock_guard<std::mutex> lock(mutex);
    if (--numBusy == 0)
      finished.notify_one();
  }
}
