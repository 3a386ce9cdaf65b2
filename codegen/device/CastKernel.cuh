//===- CastKernel.cuh - The optimizer's cast, and its bits ------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Rounds fp32 values to a parameter of 16 bits, writes those that change, and
/// marks them: the compare that a snapshot needs, where both values are at hand
/// anyway. A thread owns 8 elements and so a whole byte of bits; no two threads
/// touch the same one.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_CASTKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_CASTKERNEL_CUH

#include "codegen/device/BitmapArguments.h"
#include "codegen/device/Threads.cuh"
#include "codegen/device/ValueOps.h"

namespace delta::device {

__device__ inline uint16_t castOne(delta_dtype_t dtype, float value) {
  uint32_t bits = bitsOfFloat(value);
  return dtype == DELTA_BF16 ? Bf16::ofFp32(bits) : Fp16::ofFp32(bits);
}

/// Some of the 8 elements of a unit, or all where they are not aligned;
/// returns which changed.
DELTA_DEVICE_COLD uint32_t castElements(const CastArguments &arguments,
                                        int64_t unit) {
  int64_t begin = unit * 8, end = begin + 8;
  const int64_t last = arguments.first + arguments.count;
  uint32_t mask = 0;
  for (int64_t i = begin < arguments.first ? arguments.first : begin;
       i < end && i < last; ++i) {
    uint16_t now =
        castOne(arguments.dtype, arguments.values[i - arguments.first]);
    if (arguments.parameter[i] == now)
      continue;
    arguments.parameter[i] = now;
    mask |= 1u << (i - begin);
  }
  return mask;
}

/// All 8 elements of a unit, read 16 bytes at a time.
__device__ inline uint32_t castUnit(const CastArguments &arguments,
                                    int64_t unit) {
  union {
    uint4 vectors[2];
    float elements[8];
  } values;
  union {
    uint4 vector;
    uint16_t elements[8];
  } old, now;
  const uint4 *from = reinterpret_cast<const uint4 *>(
      arguments.values + (unit * 8 - arguments.first));
  uint4 *to = reinterpret_cast<uint4 *>(arguments.parameter + unit * 8);
  values.vectors[0] = __ldcs(from);
  values.vectors[1] = __ldcs(from + 1);
  old.vector = *to;
  uint32_t mask = 0;
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) {
    now.elements[i] = castOne(arguments.dtype, values.elements[i]);
    mask |= uint32_t(now.elements[i] != old.elements[i]) << i;
  }
  if (mask)
    *to = now.vector;
  return mask;
}

/// Body of the kernel; any number of blocks.
template <typename Elements>
__device__ inline void castValues(const CastArguments &arguments) {
  const int64_t last = arguments.first + arguments.count;
  const int64_t endUnit = (last + 7) / 8;
  const bool isAligned = (reinterpret_cast<uintptr_t>(arguments.parameter) |
                          (reinterpret_cast<uintptr_t>(arguments.values) -
                           uintptr_t(arguments.first) * sizeof(float))) %
                             16 ==
                         0;
  for (int64_t unit = arguments.first / 8 + int64_t(blockIdx.x) * BlockThreads +
                      threadIdx.x;
       unit < endUnit; unit += int64_t(gridDim.x) * BlockThreads) {
    bool isFull = unit * 8 >= arguments.first && unit * 8 + 8 <= last;
    uint32_t mask = isAligned && isFull ? castUnit(arguments, unit)
                                        : castElements(arguments, unit);
    if (mask)
      arguments.written[unit] = uint8_t(arguments.written[unit] | mask);
  }
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_CASTKERNEL_CUH
