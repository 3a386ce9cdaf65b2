//===- Simt.cpp - Fibers for the threads of a block -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simt.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
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
  /// Copies that have not happened: of groups, the last one not yet ended.
  struct Copy {
    void *to;
    const void *from;
    uint32_t numBytes;
  };
  std::deque<std::vector<Copy>> copies;
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
  /// Waits until a number of another one's changes.
  void yield(const uint64_t &round);
  Fiber &currentFiber() { return fibers[current]; }

private:
  static void enter();
  void start(uint32_t index);
  void resume(uint32_t index);
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

static std::vector<uint64_t> sharedMemory;

void delta::simt::launch(uint32_t numBlocks, uint32_t numThreads,
                         const std::function<void()> &body,
                         uint32_t sharedBytes) {
  sharedMemory.assign((sharedBytes + 15) / 16 * 2, 0xa5a5a5a5a5a5a5a5u);
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

void SharedBarrier::init(uint32_t newCount) {
  phase = 0;
  arrived = 0;
  count = newCount;
}
void SharedBarrier::arrive() {
  if (++arrived < count)
    return;
  arrived = 0;
  ++phase;
}
void SharedBarrier::wait(uint32_t number) {
  while ((phase & 1) == (number & 1))
    running->yield(phase);
}

void delta::simt::copyLater(void *to, const void *from, uint32_t numBytes) {
  auto isOdd = [&](const void *p) {
    return reinterpret_cast<uintptr_t>(p) % numBytes != 0;
  };
  if (isOdd(to) || isOdd(from))
    __builtin_trap();
  auto &copies = running->currentFiber().copies;
  if (copies.empty())
    copies.emplace_back();
  copies.back().push_back({to, from, numBytes});
}
void delta::simt::commitCopies() {
  auto &copies = running->currentFiber().copies;
  if (copies.empty())
    copies.emplace_back();
  copies.emplace_back();
}
void delta::simt::waitForCopies(uint32_t numPending) {
  auto &copies = running->currentFiber().copies;
  while (copies.size() > numPending + 1) {
    for (const auto &copy : copies.front())
      memcpy(copy.to, copy.from, copy.numBytes);
    copies.pop_front();
  }
}

void *delta::simt::dynamicShared() { return sharedMemory.data(); }
uint32_t delta::simt::dynamicSharedBytes() {
  return uint32_t(sharedMemory.size() * sizeof(uint64_t));
}
