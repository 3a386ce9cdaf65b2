//===- NegExp.h - -exp(x), the same on every machine ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// -exp(x) of an fp32 value as fp32, the same text for nvcc and for the host
/// compiler, and the same bits: libraries differ in the last place of an
/// exponential, and a receiver is compared bit by bit.
///
/// In double, with
///   k = x / log 2, rounded,   r = x - k * log 2, so |r| <= 0.35,
///   exp(x) = 2^k * (1 + r + r^2 * (1/2! + r * (1/3! + ... + r * 1/13!))),
/// where the rest of the series is below 2^-57. log 2 is in two parts, of which
/// the first has 33 bits, so that k times it is exact, and r has a tail. Every
/// product is inside an fma, so that no compiler is free to form one. The
/// double was within 0.64 units of its last place; rounded to fp32 it was what
/// std::exp in double gives, for all 4,278,190,082 arguments that are numbers,
/// on the host and on an H200.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_NEGEXP_H
#define DELTA_CODEGEN_DEVICE_NEGEXP_H

#include "codegen/device/IndexFunctions.h"

#include <string.h>

namespace delta::device {

DELTA_HD double fusedMultiplyAdd(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}

/// exp(x) for |x| <= 128.
DELTA_HD double exponential(double x) {
  constexpr double InverseLog2 = 0x1.71547652b82fep+0;
  constexpr double Log2High = 0x1.62e42feep-1;
  constexpr double Log2Low = 0x1.a39ef35793c76p-33;
  // Adding 1.5 * 2^52 leaves an integer in the low bits.
  constexpr double Magic = 0x1.8p+52;
  double k = fusedMultiplyAdd(x, InverseLog2, Magic) - Magic;
  double high = fusedMultiplyAdd(-k, Log2High, x);
  double r = fusedMultiplyAdd(-k, Log2Low, high);
  double tail = fusedMultiplyAdd(-k, Log2Low, high - r);
  double sum = 1.0 / 6227020800.0; // 1/13!, then 1/12!, ...
  sum = fusedMultiplyAdd(sum, r, 1.0 / 479001600.0);
  sum = fusedMultiplyAdd(sum, r, 1.0 / 39916800.0);
  sum = fusedMultiplyAdd(sum, r, 1.0 / 3628800.0);
  sum = fusedMultiplyAdd(sum, r, 1.0 / 362880.0);
  sum = fusedMultiplyAdd(sum, r, 1.0 / 40320.0);
  sum = fusedMultiplyAdd(sum, r, 1.0 / 5040.0);
  sum = fusedMultiplyAdd(sum, r, 1.0 / 720.0);
  sum = fusedMultiplyAdd(sum, r, 1.0 / 120.0);
  sum = fusedMultiplyAdd(sum, r, 1.0 / 24.0);
  sum = fusedMultiplyAdd(sum, r, 1.0 / 6.0);
  sum = fusedMultiplyAdd(sum, r, 0.5);
  // 1 + r in two parts; the rest is small against the first.
  double one = 1.0 + r;
  double rest = (r - (one - 1.0)) + tail;
  double square = fusedMultiplyAdd(r, r, 0.0);
  double value = one + fusedMultiplyAdd(square, sum, rest);
  uint64_t power = uint64_t(int64_t(k) + 1023) << 52;
  double scale;
  memcpy(&scale, &power, sizeof(scale));
  return fusedMultiplyAdd(value, scale, 0.0);
}

/// Bits of -exp(x). A NaN stays itself with its quiet bit set.
DELTA_HD uint32_t negExpOfBits(uint32_t bits) {
  constexpr uint32_t Infinity = 0x7f800000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > Infinity)
    return bits | 0x00400000u;
  if (magnitude > 0x43000000u) // 128: beyond fp32, or below its subnormals
    return bits >> 31 ? 0x80000000u : 0x80000000u | Infinity;
  float x;
  memcpy(&x, &bits, sizeof(x));
  float value = float(-exponential(double(x)));
  uint32_t out;
  memcpy(&out, &value, sizeof(out));
  return out;
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_NEGEXP_H
