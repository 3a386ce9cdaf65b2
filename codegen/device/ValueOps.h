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

#include "codegen/device/NegExp.h"

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

// An element type has bits at the source and bits at the receiver, and two
// steps from the ones to the others: addOne, where the op asks for it, and
// convert. Most have the same bits at both; see Widened and Narrowed. The steps
// of any other op are `general`, which the hot loops keep out of their way.

template <typename From, typename To>
DELTA_HD_COLD typename To::Bits applySteps(typename From::Bits bits,
                                           delta_value_op_t op);

/// x + 1 rounded to nearest even; a NaN stays itself with its quiet bit set, on
/// both targets.
struct Fp32 {
  using Source = uint32_t;
  using Bits = uint32_t;
  static constexpr delta_dtype_t Type = DELTA_FP32;
  DELTA_HD static Bits convert(Source bits) { return bits; }
  DELTA_HD static uint32_t toFp32(Bits bits) { return bits; }
  DELTA_HD static Bits ofFp32(uint32_t bits) { return bits; }
  DELTA_HD static Bits general(Source bits, delta_value_op_t op) {
    return applySteps<Fp32, Fp32>(bits, op);
  }
  DELTA_HD static Bits addOne(Bits bits) {
    if ((bits & 0x7fffffffu) > 0x7f800000u)
      return bits | 0x00400000u;
    return bitsOfFloat(floatOfBits(bits) + 1.0f);
  }
};

/// The sum is formed in fp32 (24 bits) and rounded again. Twice rounded is
/// once rounded, since 24 >= 2 * 8 + 2.
struct Bf16 {
  using Source = uint16_t;
  using Bits = uint16_t;
  static constexpr delta_dtype_t Type = DELTA_BF16;
  DELTA_HD static Bits convert(Source bits) { return bits; }
  DELTA_HD static Bits general(Source bits, delta_value_op_t op) {
    return applySteps<Bf16, Bf16>(bits, op);
  }

  /// Exact, a NaN's payload included.
  DELTA_HD static uint32_t toFp32(Bits bits) { return uint32_t(bits) << 16; }
  /// Rounded to nearest even; a NaN keeps the upper payload and becomes quiet.
  DELTA_HD static Bits ofFp32(uint32_t bits) {
    if ((bits & 0x7fffffffu) > 0x7f800000u)
      return Bits(bits >> 16 | 0x0040u);
    return Bits((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
  }

  DELTA_HD static Bits addOne(Bits bits) {
    if ((bits & 0x7fffu) > 0x7f80u)
      return Bits(bits | 0x0040u);
    return ofFp32(bitsOfFloat(floatOfBits(toFp32(bits)) + 1.0f));
  }
};

/// As bf16: 24 >= 2 * 11 + 2.
struct Fp16 {
  using Source = uint16_t;
  using Bits = uint16_t;
  static constexpr delta_dtype_t Type = DELTA_FP16;
  DELTA_HD static Bits convert(Source bits) { return bits; }
  DELTA_HD static Bits general(Source bits, delta_value_op_t op) {
    return applySteps<Fp16, Fp16>(bits, op);
  }

  DELTA_HD static uint32_t toFp32(Bits bits) {
    return bitsOfFloat(widen(bits));
  }
  DELTA_HD static Bits ofFp32(uint32_t bits) {
    if ((bits & 0x7fffffffu) > 0x7f800000u)
      return Bits((bits >> 16 & 0x8000u) | 0x7e00u | (bits >> 13 & 0x3ffu));
    return narrow(floatOfBits(bits));
  }

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
  using Source = uint64_t;
  using Bits = uint64_t;
  DELTA_HD static Bits convert(Source bits) { return bits; }
  DELTA_HD static Bits addOne(Bits bits) { return bits; }
  DELTA_HD static Bits general(Source bits, delta_value_op_t) { return bits; }
};

/// A 16-bit type at the source that the receiver holds as fp32.
template <typename From> struct Widened {
  using Source = uint16_t;
  using Bits = uint32_t;
  DELTA_HD static Source addOne(Source bits) { return From::addOne(bits); }
  DELTA_HD static Bits convert(Source bits) { return From::toFp32(bits); }
  DELTA_HD static Bits general(Source bits, delta_value_op_t op) {
    return applySteps<From, Fp32>(bits, op);
  }
};

/// Fp32 at the source that the receiver holds in a 16-bit type.
template <typename To> struct Narrowed {
  using Source = uint32_t;
  using Bits = uint16_t;
  DELTA_HD static Source addOne(Source bits) { return Fp32::addOne(bits); }
  DELTA_HD static Bits convert(Source bits) { return To::ofFp32(bits); }
  DELTA_HD static Bits general(Source bits, delta_value_op_t op) {
    return applySteps<Fp32, To>(bits, op);
  }
};

/// A value in fp32, rounded to `type` and widened again.
DELTA_HD uint32_t roundedTo(delta_dtype_t type, uint32_t bits) {
  return type == DELTA_BF16   ? Bf16::toFp32(Bf16::ofFp32(bits))
         : type == DELTA_FP16 ? Fp16::toFp32(Fp16::ofFp32(bits))
                              : bits;
}

/// A value of `type` in fp32, and one more.
DELTA_HD uint32_t plusOne(delta_dtype_t type, uint32_t bits) {
  return type == DELTA_BF16   ? Bf16::toFp32(Bf16::addOne(Bf16::ofFp32(bits)))
         : type == DELTA_FP16 ? Fp16::toFp32(Fp16::addOne(Fp16::ofFp32(bits)))
                              : Fp32::addOne(bits);
}

/// All steps of delta_value_op_t, in their order. Between two of them the value
/// is held in fp32, which holds those of every type.
template <typename From, typename To>
DELTA_HD_COLD typename To::Bits applySteps(typename From::Bits bits,
                                           delta_value_op_t op) {
  if (op & DELTA_VALUE_ADD_ONE)
    bits = From::addOne(bits);
  uint32_t value = From::toFp32(bits);
  delta_dtype_t type = From::Type;
  if (delta_dtype_t via = DELTA_VALUE_VIA_TYPE(op)) {
    type = via;
    value = roundedTo(type, value);
  }
  if (op & DELTA_VALUE_NEG_EXP) {
    type = DELTA_FP32;
    value = negExpOfBits(value);
  }
  if (op & DELTA_VALUE_PLUS_ONE)
    value = plusOne(type, value);
  return To::ofFp32(value);
}

/// True for the ops that all families have but a few parameters of engines.
DELTA_HD bool isCommon(delta_value_op_t op) {
  return op <= DELTA_VALUE_ADD_ONE;
}

/// The value that the receiver holds, of an op that is common.
template <typename Element>
DELTA_HD typename Element::Bits applyCommon(typename Element::Source bits,
                                            delta_value_op_t op) {
  return Element::convert(op == DELTA_VALUE_ADD_ONE ? Element::addOne(bits)
                                                    : bits);
}

/// The value that the receiver holds.
template <typename Element>
DELTA_HD typename Element::Bits applyOp(typename Element::Source bits,
                                        delta_value_op_t op) {
  return isCommon(op) ? applyCommon<Element>(bits, op)
                      : Element::general(bits, op);
}

/// True if the receiver holds the bits of the source.
template <typename Element> DELTA_HD bool isPlain(delta_value_op_t op) {
  return op == DELTA_VALUE_ID &&
         sizeof(typename Element::Source) == sizeof(typename Element::Bits);
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_VALUEOPS_H
