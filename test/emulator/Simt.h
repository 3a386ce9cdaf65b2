//===- Simt.h - Device kernels on a CPU -------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compiles the text of codegen/device/*.cuh for the host and runs it: each
/// thread of a block is a fiber, a barrier or a warp operation switches to the
/// next one. So the very text that nvcc compiles is tested where there is no
/// GPU, under sanitizers too. Include it before any .cuh file.
///
/// What it shows: results, addresses, and barriers that not all threads reach
/// (the program ends with a message). What it cannot show: races, speed,
/// anything that needs two blocks at once: blocks run one after the other, each
/// to its end, on one thread of the host.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_EMULATOR_SIMT_H
#define DELTA_TEST_EMULATOR_SIMT_H

#ifdef __CUDACC__
#error "for the host compiler"
#endif

#include <cstdint>
#include <cstring>
#include <functional>

// The words of the device, for the host.
#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
/// Of codegen/device: the text is compiled as for the device.
#define DELTA_DEVICE_TEXT 1

struct uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  return {x, y, z, w};
}

namespace delta::simt {

struct Dim {
  uint32_t x = 1, y = 1, z = 1;
};
extern Dim threadIndex, blockIndex, blockSize, gridSize;

/// Runs `body` for each thread of each block, with `sharedBytes` of dynamic
/// shared memory; returns when all are done.
void launch(uint32_t numBlocks, uint32_t numThreads,
            const std::function<void()> &body, uint32_t sharedBytes = 0);

/// All threads of the block arrive; returns the sum of `value` over them.
uint64_t syncBlock(uint64_t value);

/// A barrier in shared memory; codegen/device/SharedBarrier.cuh.
class SharedBarrier {
public:
  void init(uint32_t newCount);
  void arrive();
  void wait(uint32_t number);

private:
  uint64_t phase = 0;
  uint32_t count = 0, arrived = 0;
};

/// Copies that run beside the thread: `numBytes` from `from`, in groups. They
/// happen as late as they may: when the thread waits for their group.
void copyLater(void *to, const void *from, uint32_t numBytes);
void commitCopies();
/// Until all groups of this thread but the last `numPending` are there.
void waitForCopies(uint32_t numPending);

/// Dynamic shared memory of a block, of the size that launch() was told.
void *dynamicShared();
uint32_t dynamicSharedBytes();

/// The lanes of `mask` that have not ended arrive, each with a value; returns
/// those of all 32, zero where a lane is not in it. Valid until the lane's next
/// call.
const uint64_t *syncWarp(uint32_t mask, uint64_t value);

inline uint32_t lane() { return threadIndex.x % 32; }

template <typename T> uint64_t bitsOf(T value) {
  static_assert(sizeof(T) <= 8, "a value of at most 64 bits");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <typename T> T ofBits(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof(T));
  return value;
}
/// The value of another lane, or its own where there is none.
template <typename T> T shuffle(uint32_t mask, T value, uint32_t from) {
  const uint64_t *all = syncWarp(mask, bitsOf(value));
  return from < 32 && (mask >> from & 1) ? ofBits<T>(all[from]) : value;
}

} // namespace delta::simt

#define threadIdx (delta::simt::threadIndex)
#define blockIdx (delta::simt::blockIndex)
#define blockDim (delta::simt::blockSize)
#define gridDim (delta::simt::gridSize)

inline void __syncthreads() { delta::simt::syncBlock(0); }
inline int __syncthreads_count(int value) {
  return int(delta::simt::syncBlock(value != 0));
}
inline int __syncthreads_or(int value) {
  return __syncthreads_count(value) != 0;
}
inline int __syncthreads_and(int value) {
  return __syncthreads_count(!value) == 0;
}
inline void __syncwarp(uint32_t mask = 0xffffffffu) {
  delta::simt::syncWarp(mask, 0);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {}

template <typename T> T __shfl_sync(uint32_t mask, T value, int from) {
  return delta::simt::shuffle(mask, value, uint32_t(from) % 32);
}
template <typename T> T __shfl_up_sync(uint32_t mask, T value, uint32_t step) {
  return delta::simt::shuffle(mask, value, delta::simt::lane() - step);
}
template <typename T>
T __shfl_down_sync(uint32_t mask, T value, uint32_t step) {
  return delta::simt::shuffle(mask, value, delta::simt::lane() + step);
}
template <typename T> T __shfl_xor_sync(uint32_t mask, T value, int bits) {
  return delta::simt::shuffle(mask, value,
                              delta::simt::lane() ^ uint32_t(bits));
}
inline uint32_t __ballot_sync(uint32_t mask, int value) {
  const uint64_t *all = delta::simt::syncWarp(mask, value != 0);
  uint32_t ballot = 0;
  for (uint32_t i = 0; i < 32; ++i)
    ballot |= uint32_t(all[i]) << i;
  return ballot;
}
inline int __any_sync(uint32_t mask, int value) {
  return __ballot_sync(mask, value) != 0;
}
inline int __all_sync(uint32_t mask, int value) {
  return __ballot_sync(mask, !value) == 0;
}
inline uint32_t __reduce_add_sync(uint32_t mask, uint32_t value) {
  const uint64_t *all = delta::simt::syncWarp(mask, value);
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 32; ++i)
    sum += uint32_t(all[i]);
  return sum;
}

/// The matrix instruction m16n8k32 of bytes without sign: lane l holds bytes
/// 4 x (l % 4) and on of lines l / 4 and l / 4 + 8 (words 0 and 1 of `lines`),
/// and those 16 behind them (2 and 3); the same bytes of column l / 4; and the
/// sums of these lines for columns 2 x (l % 4) and the next.
namespace delta::simt {
inline void multiplyBytes(uint32_t (&sums)[4], const uint32_t (&lines)[4],
                          const uint32_t (&columns)[2]) {
  uint64_t all[3][32];
  for (uint32_t pair = 0; pair < 3; ++pair) {
    const uint32_t *words = pair < 2 ? lines + 2 * pair : columns;
    memcpy(
        all[pair],
        delta::simt::syncWarp(0xffffffffu, words[0] | uint64_t(words[1]) << 32),
        sizeof(all[pair]));
  }
  auto byteOf = [](uint64_t words, uint32_t half, uint32_t index) {
    return uint32_t(words >> (32 * half + 8 * index) & 255);
  };
  const uint32_t own = delta::simt::lane();
  for (uint32_t i = 0; i < 4; ++i)
    for (uint32_t k = 0; k < 32; ++k)
      sums[i] +=
          byteOf(all[k / 16][own / 4 * 4 + k % 16 / 4], i / 2, k % 4) *
          byteOf(all[2][(own % 4 * 2 + i % 2) * 4 + k % 16 / 4], k / 16, k % 4);
}
} // namespace delta::simt

inline int __popc(uint32_t value) { return __builtin_popcount(value); }
inline int __popcll(unsigned long long value) {
  return __builtin_popcountll(value);
}
inline int __ffs(int value) { return __builtin_ffs(value); }
inline int __ffsll(long long value) { return __builtin_ffsll(value); }
inline int __clz(int value) {
  return value ? __builtin_clz(unsigned(value)) : 32;
}
inline int __clzll(long long value) {
  return value ? __builtin_clzll((unsigned long long)(value)) : 64;
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8)
    c += int(int8_t(a >> i)) * int(int8_t(b >> i));
  return c;
}
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  return uint64_t((unsigned __int128)(a)*b >> 64);
}
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return uint32_t(uint64_t(a) * b >> 32);
}

/// Loads and stores with a hint. What they are told is checked here.
template <typename T> T __ldcs(const T *from) {
  if (reinterpret_cast<uintptr_t>(from) % alignof(T) != 0)
    __builtin_trap();
  return *from;
}
template <typename T> T __ldcg(const T *from) { return __ldcs(from); }
template <typename T> T __ldg(const T *from) { return __ldcs(from); }
template <typename T> void __stcs(T *to, T value) {
  if (reinterpret_cast<uintptr_t>(to) % alignof(T) != 0)
    __builtin_trap();
  *to = value;
}
template <typename T> void __stcg(T *to, T value) { __stcs(to, value); }

template <typename T, typename V> T atomicAdd(T *to, V value) {
  T old = *to;
  *to = T(old + T(value));
  return old;
}
template <typename T, typename V> T atomicAnd(T *to, V value) {
  T old = *to;
  *to = T(old & T(value));
  return old;
}
template <typename T, typename V> T atomicOr(T *to, V value) {
  T old = *to;
  *to = T(old | T(value));
  return old;
}
template <typename T, typename V> T atomicXor(T *to, V value) {
  T old = *to;
  *to = T(old ^ T(value));
  return old;
}
template <typename T, typename V> T atomicMin(T *to, V value) {
  T old = *to;
  *to = T(value) < old ? T(value) : old;
  return old;
}
template <typename T, typename V> T atomicMax(T *to, V value) {
  T old = *to;
  *to = T(value) > old ? T(value) : old;
  return old;
}
template <typename T, typename V> T atomicExch(T *to, V value) {
  T old = *to;
  *to = T(value);
  return old;
}
template <typename T, typename V, typename W>
T atomicCAS(T *to, V expected, W value) {
  T old = *to;
  if (old == T(expected))
    *to = T(value);
  return old;
}

#endif // DELTA_TEST_EMULATOR_SIMT_H
