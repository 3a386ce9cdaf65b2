//===- Casts.cpp - Weights that an optimizer casts ------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Casts.h"

#include "codegen/device/ValueOps.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;
namespace device = delta::device;

/// An fp32 value that is rounded to `bits`, as far from it as it may be: a tie
/// where the bits are even, just less where they are odd.
static float valueOf(delta_dtype_t dtype, uint64_t bits) {
  bool isOdd = bits & 1;
  if (dtype == DELTA_BF16)
    return device::floatOfBits(device::Bf16::toFp32(uint16_t(bits)) +
                               (isOdd ? 0x7fff : 0x8000));
  uint32_t exponent = bits >> 10 & 31;
  uint32_t more = exponent == 0 || exponent == 31 ? 0 : isOdd ? 0xfff : 0x1000;
  return device::floatOfBits(device::Fp16::toFp32(uint16_t(bits)) + more);
}

Geometry delta::test::geometryOf(uint32_t tp, uint32_t dp, uint32_t ep) {
  return {tp, /*cp=*/1, dp, ep};
}

std::vector<Matrix> delta::test::bitmapModel(const Geometry &source,
                                             const Geometry &destination,
                                             bool only16) {
  std::vector<Matrix> kept;
  for (const Matrix &matrix : mixedModel(source, destination))
    // An op may hide a change from who compares behind it.
    if (!only16 || (matrix.op == DELTA_VALUE_ID &&
                    (matrix.dtype == DELTA_BF16 || matrix.dtype == DELTA_FP16)))
      kept.push_back(matrix);
  return kept;
}

void delta::test::castElements(Twins &twins, const RankMemory &host,
                               uint32_t rank, uint32_t param, int64_t first,
                               int64_t count) {
  delta_dtype_t dtype = const_cast<RankMemory &>(host).getBound()[param].dtype;
  // As if the values of the whole parameter lay behind each other.
  const int64_t shift = first % 8;
  DeviceBuffer memory;
  ASSERT_FALSE(
      memory.allocate(twins.device, uint64_t(shift + count) * sizeof(float))
          .failed());
  float *values = memory.as<float>() + shift;
  for (int64_t i = 0; i < count; ++i)
    values[i] = valueOf(dtype, host.get(param, first + i));
  Status status = twins.senders[rank]->cast(param, values, first, count);
  EXPECT_FALSE(status.failed()) << status.getText();
}
