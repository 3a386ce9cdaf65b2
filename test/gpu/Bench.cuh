//===- Bench.cuh - What programs that time kernels share --------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Errors, memory, and weights to work on.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_GPU_BENCH_CUH
#define DELTA_TEST_GPU_BENCH_CUH

#include "codegen/device/IndexFunctions.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

/// Ends the program where a call of the run time fails.
#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t error = (call);                                                \
    if (error != cudaSuccess) {                                                \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));           \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

/// Memory of the device, until the program ends.
template <typename T> T *allocate(size_t count) {
  void *out;
  CHECK(cudaMalloc(&out, count * sizeof(T)));
  return static_cast<T *>(out);
}

/// A copy of a list in memory of the device.
template <typename T> T *uploaded(const std::vector<T> &from) {
  T *to = allocate<T>(from.size());
  CHECK(cudaMemcpy(to, from.data(), from.size() * sizeof(T),
                   cudaMemcpyHostToDevice));
  return to;
}

/// Weights as after training: bf16 around 0.02, of either sign.
__global__ void fillWeights(uint16_t *to, int64_t count, uint64_t seed) {
  int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride)
    to[i] = uint16_t(0x3c00 | (delta::device::weight(seed, i) >> 20 & 0x81ff));
}

#endif // DELTA_TEST_GPU_BENCH_CUH
