//===- Values.h - Values of weights and their changes --------- -*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What a trainer's weights look like, made on the host: elements of N(0, 0.02)
/// and changes of one ulp. The same key gives the same values, in whatever
/// order and by whatever thread pieces are made.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_VALUES_H
#define DELTA_TOOLS_DELTA_BENCH_VALUES_H

#include "runtime/delta_abi.h"

#include <vector>

namespace delta::bench {

/// Standard deviation of the weights.
constexpr double Deviation = 0.02;

/// The quantiles of N(0, Deviation) in the middle of 65,536 equal shares: an
/// element is one of them, chosen by 16 random bits, rounded to its type.
class Quantiles {
public:
  Quantiles();
  /// `count` elements of `dtype` at `to`. Integers are random in 32 bits.
  void fill(void *to, int64_t count, delta_dtype_t dtype, uint64_t key) const;

private:
  std::vector<float> values;
  std::vector<uint16_t> bf16, fp16;
};

/// Flips the lowest bit, of the mantissa, of each of `count` elements of
/// `elementBytes` with probability `share`. Returns how many.
int64_t flip(void *elements, int64_t count, uint32_t elementBytes, double share,
             uint64_t key);

/// Widens 16-bit floating point values to fp32.
void widen(float *to, const uint16_t *from, int64_t count, delta_dtype_t dtype);

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_VALUES_H
