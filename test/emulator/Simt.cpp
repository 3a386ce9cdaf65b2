//===- Simt.cpp - Fibers for the threads of a block -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simt.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ucontext.h>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DELTA_FIBERS_UNDER_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define DELTA_FIBERS_UNDER_ASAN 1
#endif
#ifdef DELTA_FIBERS_UNDER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

using namespace delta::simt;

Dim delta::simt::threadIndex, delta::simt::blockIndex, delta::simt::blockSize,
    delta::simt::gridSize;

namespace {

constexpr size_t StackBytes = 256 << 10;
constexpr uint32_t WarpSize = 32;

/// The stack of a thread, kept for the blocks that come later: to map and unmap
/// it each time takes most of the time of a small block.
char *stackOf(uint32_t thread) {
  static thread_local std::vector<std::unique_ptr<char[]>> stacks;
  if (thread >= stacks.size())
    stacks.resize(thread + 1);
  if (!stacks[thread])
    stacks[thread].reset(new char[StackBytes]);
  return stacks[thread].get();
}

struct Fiber {
  ucontext_t context;
  char *stack = nullptr;
  void *fakeStack = nullptr;
  bool isDone = false;
  /// What the fiber waits for: a number that has to change.
  const uint64_t *waitsFor = nullptr;
  uint64_t seen = 0;
};

/// A meeting of threads. Values are kept for two rounds, so that a thread may
/// arrive at the next before all have read those of the last.
struct Meeting {
  uint64_t round = 0;
  uint32_t arrived = 0; ///< bits of lanes, or a count
  uint64_t sum[2] = {0, 0};
  uint64_t values[2][WarpSize] = {};
};

class Block {
public:
  Block(uint32_t numThreads, const std::function<void()> &body)
      : body(body), fibers(numThreads), warps((numThreads + 31) / 32),
        numAlive(numThreads) {}

  void run();
  uint64_t syncBlock(uint64_t value);
  const uint64_t *syncWarp(uint32_t mask, uint64_t value);
  void syncNamed(uint32_t id, uint32_t numThreads);
  /// Returns whether this was the last one.
  bool arriveNamed(uint32_t id, uint32_t numThreads);

private:
  static void enter();
  void start(uint32_t index);
  void resume(uint32_t index);
  void yield(const uint64_t &round);
  void leave();
  void finishBlockRound() {
    meeting.arrived = 0;
    meeting.sum[(meeting.round + 1) % 2] = 0;
    ++meeting.round;
  }
  uint32_t aliveLanes(uint32_t warp) const;
  void tryFinishWarp(uint32_t warp);

  const std::function<void()> &body;
  std::vector<Fiber> fibers;
  std::vector<Meeting> warps;
  std::vector<uint32_t> warpMasks;
  Meeting meeting;
  Meeting named[16];
  uint32_t numAlive;
  uint32_t current = 0;
  ucontext_t scheduler;
  void *schedulerStack = nullptr;
  const void *schedulerBottom = nullptr;
  size_t schedulerSize = 0;
};

Block *running = nullptr;

void beforeSwitch([[maybe_unused]] void **save,
                  [[maybe_unused]] const void *bottom,
                  [[maybe_unused]] size_t size) {
#ifdef DELTA_FIBERS_UNDER_ASAN
  __sanitizer_start_switch_fiber(save, bottom, size);
#endif
}
void afterSwitch([[maybe_unused]] void *saved,
                 [[maybe_unused]] const void **bottom,
                 [[maybe_unused]] size_t *size) {
#ifdef DELTA_FIBERS_UNDER_ASAN
  __sanitizer_finish_switch_fiber(saved, bottom, size);
#endif
}

void Block::enter() {
  Block &block = *running;
  afterSwitch(nullptr, &block.schedulerBottom, &block.schedulerSize);
  block.body();
  block.leave();
}

void Block::start(uint32_t index) {
  Fiber &fiber = fibers[index];
  fiber.stack = stackOf(index);
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = StackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, enter, 0);
}

void Block::resume(uint32_t index) {
  Fiber &fiber = fibers[index];
  current = index;
  threadIndex = {index, 0, 0};
  beforeSwitch(&schedulerStack, fiber.stack, StackBytes);
  swapcontext(&scheduler, &fiber.context);
  afterSwitch(schedulerStack, nullptr, nullptr);
}

void Block::yield(const uint64_t &round) {
  Fiber &fiber = fibers[current];
  uint64_t seen = round;
  fiber.waitsFor = &round;
  fiber.seen = seen;
  beforeSwitch(&fiber.fakeStack, schedulerBottom, schedulerSize);
  swapcontext(&fiber.context, &scheduler);
  afterSwitch(fiber.fakeStack, &schedulerBottom, &schedulerSize);
  fiber.waitsFor = nullptr;
}

/// A thread that has ended counts as arrived everywhere.
void Block::leave() {
  Fiber &fiber = fibers[current];
  fiber.isDone = true;
  --numAlive;
  if (numAlive && meeting.arrived == numAlive)
    finishBlockRound();
  tryFinishWarp(current / WarpSize);
  beforeSwitch(nullptr, schedulerBottom, schedulerSize);
  swapcontext(&fiber.context, &scheduler);
}

uint32_t Block::aliveLanes(uint32_t warp) const {
  uint32_t alive = 0;
  for (uint32_t lane = 0; lane < WarpSize; ++lane) {
    uint32_t index = warp * WarpSize + lane;
    if (index < fibers.size() && !fibers[index].isDone)
      alive |= 1u << lane;
  }
  return alive;
}

/// Closes the round of a warp when all lanes that it waits for are there.
void Block::tryFinishWarp(uint32_t warp) {
  Meeting &own = warps[warp];
  uint32_t wanted = warpMasks[warp] & aliveLanes(warp);
  if (!own.arrived || own.arrived != wanted)
    return;
  own.arrived = 0;
  memset(own.values[(own.round + 1) % 2], 0, sizeof(own.values[0]));
  ++own.round;
}

uint64_t Block::syncBlock(uint64_t value) {
  uint64_t round = meeting.round;
  meeting.sum[round % 2] += value;
  if (++meeting.arrived == numAlive)
    finishBlockRound();
  else
    yield(meeting.round);
  return meeting.sum[round % 2];
}

bool Block::arriveNamed(uint32_t id, uint32_t numThreads) {
  Meeting &own = named[id];
  if (++own.arrived < numThreads)
    return false;
  own.arrived = 0;
  ++own.round;
  return true;
}

void Block::syncNamed(uint32_t id, uint32_t numThreads) {
  if (!arriveNamed(id, numThreads))
    yield(named[id].round);
}

const uint64_t *Block::syncWarp(uint32_t mask, uint64_t value) {
  uint32_t warp = current / WarpSize, lane = current % WarpSize;
  Meeting &own = warps[warp];
  if (own.arrived && warpMasks[warp] != mask) {
    fprintf(stderr, "emulator: thread %u: lanes 0x%08x meet lanes 0x%08x\n",
            current, mask, warpMasks[warp]);
    abort();
  }
  if (!(mask >> lane & 1)) {
    fprintf(stderr, "emulator: thread %u is not in its own mask 0x%08x\n",
            current, mask);
    abort();
  }
  warpMasks[warp] = mask;
  uint64_t round = own.round;
  own.values[round % 2][lane] = value;
  own.arrived |= 1u << lane;
  tryFinishWarp(warp);
  if (own.round == round)
    yield(own.round);
  return own.values[round % 2];
}

void Block::run() {
  running = this;
  warpMasks.assign(warps.size(), 0);
  for (uint32_t i = 0; i < fibers.size(); ++i)
    start(i);
  while (numAlive) {
    bool moved = false;
    for (uint32_t i = 0; i < fibers.size(); ++i) {
      Fiber &fiber = fibers[i];
      if (fiber.isDone || (fiber.waitsFor && *fiber.waitsFor == fiber.seen))
        continue;
      moved = true;
      resume(i);
    }
    if (!moved) {
      fprintf(stderr,
              "emulator: block %u: %u threads wait for a barrier that "
              "others do not reach\n",
              blockIndex.x, numAlive);
      abort();
    }
  }
  running = nullptr;
}

} // namespace

void delta::simt::launch(uint32_t numBlocks, uint32_t numThreads,
                         const std::function<void()> &body) {
  blockSize = {numThreads, 1, 1};
  gridSize = {numBlocks, 1, 1};
  for (uint32_t block = 0; block < numBlocks; ++block) {
    blockIndex = {block, 0, 0};
    Block(numThreads, body).run();
  }
}

uint64_t delta::simt::syncBlock(uint64_t value) {
  return running->syncBlock(value);
}
const uint64_t *delta::simt::syncWarp(uint32_t mask, uint64_t value) {
  return running->syncWarp(mask, value);
}
void delta::simt::syncNamed(uint32_t id, uint32_t numThreads) {
  running->syncNamed(id, numThreads);
}
void delta::simt::arriveNamed(uint32_t id, uint32_t numThreads) {
  running->arriveNamed(id, numThreads);
}
