//===- Values.cpp - Values of weights and their changes -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Values.h"

#include "codegen/device/IndexFunctions.h"
#include "codegen/device/ValueOps.h"

#include <cmath>

using namespace delta::bench;
namespace device = delta::device;

namespace {
/// 64 random bits for each number.
class Random {
public:
  explicit Random(uint64_t key) : state(device::mix(key)) {}
  uint64_t next() { return device::mix(state += 0x9e3779b97f4a7c15u); }
  /// In (0, 1].
  double share() { return (double(next() >> 11) + 1) * 0x1p-53; }

private:
  uint64_t state;
};
} // namespace

static constexpr size_t NumQuantiles = 65536;

/// The x with P(X < x) = share for X of N(0, 1), share in (0, 1/2]: Newton's
/// method on the logarithm of the tail, which is concave, from the left.
static double quantile(double share) {
  double x = -9;
  for (int step = 0; step < 100; ++step) {
    double tail = std::erfc(-x / std::sqrt(2.0)) / 2;
    double density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    double move = (std::log(share) - std::log(tail)) * tail / density;
    x += move;
    if (std::fabs(move) < 1e-12)
      break;
  }
  return x;
}

Quantiles::Quantiles()
    : values(NumQuantiles), bf16(NumQuantiles), fp16(NumQuantiles) {
  for (size_t i = 0; i < NumQuantiles / 2; ++i) {
    double x = quantile((double(i) + 0.5) / double(NumQuantiles)) * Deviation;
    values[i] = float(x);
    values[NumQuantiles - 1 - i] = float(-x);
  }
  for (size_t i = 0; i < NumQuantiles; ++i) {
    bf16[i] = device::Bf16::ofFp32(device::bitsOfFloat(values[i]));
    fp16[i] = device::Fp16::ofFp32(device::bitsOfFloat(values[i]));
  }
}

/// Four elements from each 64 random bits.
template <typename T>
static void choose(T *to, int64_t count, const std::vector<T> &from,
                   Random random) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    uint64_t bits = random.next();
    to[i] = from[bits & 0xffff];
    to[i + 1] = from[bits >> 16 & 0xffff];
    to[i + 2] = from[bits >> 32 & 0xffff];
    to[i + 3] = from[bits >> 48];
  }
  for (uint64_t bits = random.next(); i < count; ++i, bits >>= 16)
    to[i] = from[bits & 0xffff];
}

void Quantiles::fill(void *to, int64_t count, delta_dtype_t dtype,
                     uint64_t key) const {
  Random random(key);
  switch (dtype) {
  case DELTA_BF16:
    return choose(static_cast<uint16_t *>(to), count, bf16, random);
  case DELTA_FP16:
    return choose(static_cast<uint16_t *>(to), count, fp16, random);
  case DELTA_FP32:
    return choose(static_cast<float *>(to), count, values, random);
  default:
    for (int64_t i = 0; i < count; ++i)
      static_cast<uint64_t *>(to)[i] = random.next() >> 32;
  }
}

/// From one change to the next the distance is geometric: with u uniform in
/// (0, 1], floor(log(u) / log(1 - share)) elements stay as they are.
template <typename T>
static int64_t flipGaps(T *elements, int64_t count, double share,
                        Random random) {
  const double scale = 1 / std::log1p(-share);
  int64_t flips = 0;
  for (double at = 0;; at += 1, ++flips) {
    at += std::floor(std::log(random.share()) * scale);
    if (!(at < double(count)))
      return flips;
    elements[int64_t(at)] ^= 1;
  }
}

template <typename T>
static int64_t flipAs(void *memory, int64_t count, double share, uint64_t key) {
  T *elements = static_cast<T *>(memory);
  if (share <= 0)
    return 0;
  if (share < 1)
    return flipGaps(elements, count, share, Random(key));
  for (int64_t i = 0; i < count; ++i)
    elements[i] ^= 1;
  return count;
}

int64_t delta::bench::flip(void *elements, int64_t count, uint32_t elementBytes,
                           double share, uint64_t key) {
  return elementBytes == 2   ? flipAs<uint16_t>(elements, count, share, key)
         : elementBytes == 4 ? flipAs<uint32_t>(elements, count, share, key)
                             : flipAs<uint64_t>(elements, count, share, key);
}

void delta::bench::widen(float *to, const uint16_t *from, int64_t count,
                         delta_dtype_t dtype) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = device::floatOfBits(dtype == DELTA_BF16
                                    ? device::Bf16::toFp32(from[i])
                                    : device::Fp16::toFp32(from[i]));
}
