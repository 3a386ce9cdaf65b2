//===- ValueOps.h - What happens to a value on its way ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Element types as bits, and the value operations on them, the same text for
/// nvcc and for the host compiler. Elements are handled as bits everywhere: a
/// NaN, its payload and the sign of a zero are values like any other.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_VALUEOPS_H
#define DELTA_CODEGEN_DEVICE_VALUEOPS_H

#include "codegen/device/IndexFunctions.h"

#include <string.h>

namespace delta::device {

DELTA_HD float floatOfBits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

DELTA_HD uint32_t bitsOfFloat(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// x + 1 rounded to nearest even; a NaN stays itself with its quiet bit set, on
/// both targets.
struct Fp32 {
  using Bits = uint32_t;
  DELTA_HD static Bits addOne(Bits bits) {
    if ((bits & 0x7fffffffu) > 0x7f800000u)
      return bits | 0x00400000u;
    return bitsOfFloat(floatOfBits(bits) + 1.0f);
  }
};

/// The sum is formed in fp32 (24 bits) and rounded again. Twice rounded is
/// once rounded, since 24 >= 2 * 8 + 2.
struct Bf16 {
  using Bits = uint16_t;
  DELTA_HD static Bits addOne(Bits bits) {
    if ((bits & 0x7fffu) > 0x7f80u)
      return Bits(bits | 0x0040u);
    uint32_t sum = bitsOfFloat(floatOfBits(uint32_t(bits) << 16) + 1.0f);
    return Bits((sum + 0x7fffu + ((sum >> 16) & 1)) >> 16);
  }
};

/// As bf16: 24 >= 2 * 11 + 2.
struct Fp16 {
  using Bits = uint16_t;

  /// Exact. Subnormals (exponent 0) are scaled up from integers of 2^-24.
  DELTA_HD static float widen(Bits bits) {
    uint32_t sign = uint32_t(bits & 0x8000u) << 16;
    uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u)
      return floatOfBits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude >= 0x0400u)
      return floatOfBits(sign | ((magnitude << 13) + 0x38000000u));
    float value = float(magnitude) * 5.9604644775390625e-8f;
    return sign ? -value : value;
  }

  /// Rounds to nearest even. Assumes no NaN.
  DELTA_HD static Bits narrow(float value) {
    uint32_t bits = bitsOfFloat(value);
    Bits sign = Bits(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x477ff000u) // 65520 and above round to infinity
      return Bits(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { // below 2^-14: a multiple of 2^-24
      // Adding 0.5 leaves that multiple, rounded, in the low bits.
      uint32_t sum = bitsOfFloat(floatOfBits(magnitude) + 0.5f);
      return Bits(sign | (sum - 0x3f000000u));
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1);
    return Bits(sign | ((rounded - 0x38000000u) >> 13));
  }

  DELTA_HD static Bits addOne(Bits bits) {
    if ((bits & 0x7fffu) > 0x7c00u)
      return Bits(bits | 0x0200u);
    return narrow(widen(bits) + 1.0f);
  }
};

/// Integers are never shifted; a plan that asks for it is refused.
struct Int64 {
  using Bits = uint64_t;
  DELTA_HD static Bits addOne(Bits bits) { return bits; }
};

/// The value that the receiver holds.
template <typename Element>
DELTA_HD typename Element::Bits applyOp(typename Element::Bits bits,
                                        delta_value_op_t op) {
  return op == DELTA_VALUE_ADD_ONE ? Element::addOne(bits) : bits;
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_VALUEOPS_H
