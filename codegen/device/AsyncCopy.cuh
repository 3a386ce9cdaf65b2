//===- AsyncCopy.cuh - Copies into shared memory ----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Copies of 16 bytes from global to shared memory that run while the thread
/// goes on (cp.async, from sm_80). A thread sees what it copied itself once it
/// has waited, and what its warp copied after a __syncwarp().
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_ASYNCCOPY_CUH
#define DELTA_CODEGEN_DEVICE_ASYNCCOPY_CUH

#include "codegen/device/Threads.cuh"

namespace delta::device {

/// An address in the dynamic shared memory of the block, in bytes: of 32 bits,
/// so that what is near to it is reached by an offset in the instruction.
struct SharedAddress {
  uint32_t bytes;

  __device__ SharedAddress operator+(uint32_t more) const {
    return {bytes + more};
  }
};

#ifdef DELTA_DEVICE_TEXT

__device__ inline SharedAddress dynamicAddress() { return {0}; }
__device__ inline uint8_t *emulated(SharedAddress at) {
  return reinterpret_cast<uint8_t *>(dynamicShared()) + at.bytes;
}
__device__ inline uint4 loadVector(SharedAddress from) {
  return *reinterpret_cast<const uint4 *>(emulated(from));
}
template <typename Bits> __device__ inline Bits loadShared(SharedAddress from) {
  return *reinterpret_cast<const Bits *>(emulated(from));
}
__device__ inline void storeShared(SharedAddress to, uint32_t value) {
  *reinterpret_cast<uint32_t *>(emulated(to)) = value;
}
__device__ inline void copyAsync(SharedAddress to, const void *from) {
  delta::simt::copyLater(emulated(to), from, 16);
}
__device__ inline void copyAsync(SharedAddress to, const void *from, uint64_t) {
  copyAsync(to, from);
}
__device__ inline void commitCopies() { delta::simt::commitCopies(); }
template <uint32_t NumPending> __device__ inline void waitForCopies() {
  delta::simt::waitForCopies(NumPending);
}
__device__ inline uint64_t evictFirst() { return 0; }

#else

__device__ inline SharedAddress dynamicAddress() {
  return {uint32_t(__cvta_generic_to_shared(dynamicShared()))};
}
__device__ inline uint4 loadVector(SharedAddress from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from.bytes));
  return v;
}
template <typename Bits> __device__ inline Bits loadShared(SharedAddress from) {
  return *static_cast<const Bits *>(__cvta_shared_to_generic(from.bytes));
}
__device__ inline void storeShared(SharedAddress to, uint32_t value) {
  *static_cast<uint32_t *>(__cvta_shared_to_generic(to.bytes)) = value;
}
/// Copies 16 bytes, both ends multiples of 16.
__device__ inline void copyAsync(SharedAddress to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to.bytes),
               "l"(from)
               : "memory");
}
/// The same, with the `policy` of evictFirst().
__device__ inline void copyAsync(SharedAddress to, const void *from,
                                 uint64_t policy) {
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
          to.bytes),
      "l"(from), "l"(policy)
      : "memory");
}
/// Ends a group: the copies since the last one.
__device__ inline void commitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Until all groups but the last `NumPending` have come.
template <uint32_t NumPending> __device__ inline void waitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(NumPending) : "memory");
}
/// What is read is not read again: it is the first to leave the L2 cache.
__device__ inline uint64_t evictFirst() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

#endif

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_ASYNCCOPY_CUH
