//===- SharedBarrier.cuh - Hand-overs between warps -------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A barrier in shared memory at which some threads of a block arrive and
/// others wait (mbarrier, from sm_80).
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_SHAREDBARRIER_CUH
#define DELTA_CODEGEN_DEVICE_SHAREDBARRIER_CUH

#include "codegen/device/Threads.cuh"

namespace delta::device {

#ifdef DELTA_DEVICE_TEXT

using SharedBarrier = delta::simt::SharedBarrier;

#else

/// Phases 0, 1, 2, ...: each ends with as many arrivals as the barrier counts.
class SharedBarrier {
public:
  /// By one thread, before a __syncthreads().
  __device__ void init(uint32_t count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address()),
                 "r"(count)
                 : "memory");
  }
  /// What the thread wrote before is seen by whoever has waited for the phase.
  __device__ void arrive() {
    asm volatile("{\n\t.reg .b64 state;\n\t"
                 "mbarrier.arrive.shared.b64 state, [%0];\n\t}" ::"r"(address())
                 : "memory");
  }
  /// Until phase number `phase` has ended; it is the present one or the last.
  __device__ void wait(uint32_t phase) {
    while (!hasEnded(phase % 2)) {
    }
  }

private:
  __device__ bool hasEnded(uint32_t parity) {
    uint32_t ended;
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(ended)
                 : "r"(address()), "r"(parity)
                 : "memory");
#else
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(ended)
                 : "r"(address()), "r"(parity)
                 : "memory");
    if (!ended)
      __nanosleep(64);
#endif
    return ended;
  }
  __device__ uint32_t address() const {
    return uint32_t(__cvta_generic_to_shared(&state));
  }

  uint64_t state;
};

#endif

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_SHAREDBARRIER_CUH
