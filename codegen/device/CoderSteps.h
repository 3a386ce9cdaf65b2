//===- CoderSteps.h - From one value to the next ----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A change of a value as a signed step in units of the last place, for every
/// bit pattern and back; the same text for nvcc and for the host compiler. The
/// format is that of Coder.h.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_CODERSTEPS_H
#define DELTA_CODEGEN_DEVICE_CODERSTEPS_H

#include "codegen/device/ValueOps.h"

namespace delta::device {

/// floor(log2(value)) of a positive number.
DELTA_HD uint32_t floorLog2(uint32_t value) {
#ifdef __CUDA_ARCH__
  return 31 - __clz(int(value));
#else
  return 31 - __builtin_clz(value);
#endif
}
DELTA_HD uint32_t floorLog2(uint64_t value) {
  uint32_t high = uint32_t(value >> 32);
  return high ? 32 + floorLog2(high) : floorLog2(uint32_t(value));
}

/// Number type of magnitudes, and the class of an old value: its exponent.
template <typename Element> struct CoderTraits;
template <> struct CoderTraits<Bf16> {
  using Code = uint32_t;
  DELTA_HD static uint32_t classOf(uint16_t bits) { return bits >> 7 & 0xff; }
};
template <> struct CoderTraits<Fp16> {
  using Code = uint32_t;
  DELTA_HD static uint32_t classOf(uint16_t bits) { return bits >> 10 & 0x1f; }
};
template <> struct CoderTraits<Fp32> {
  using Code = uint32_t;
  DELTA_HD static uint32_t classOf(uint32_t bits) { return bits >> 23 & 0xff; }
};
template <> struct CoderTraits<Int64> {
  using Code = uint64_t;
  DELTA_HD static uint32_t classOf(uint64_t) { return 0; }
};

/// From bits to integers in the order of the values, and back. Floats are sign
/// and magnitude: -0 comes just below +0, NaNs lie at both ends. A bijection.
template <typename Element>
DELTA_HD typename Element::Bits ordered(typename Element::Bits bits) {
  using Bits = typename Element::Bits;
  constexpr Bits Sign = Bits(Bits(1) << (sizeof(Bits) * 8 - 1));
  if (sizeof(Bits) == 8) // an integer
    return bits;
  return bits & Sign ? Bits(bits ^ (Sign - 1)) : bits;
}

/// How a value became another. `code` is positive, 1 for a unit of the last
/// place either way. Zero comes second in a dense tile, where nearly half of
/// the elements may be as they were, else last.
template <typename Element> struct Step {
  using Bits = typename Element::Bits;
  using Code = typename CoderTraits<Element>::Code;
  static constexpr Code Half = Code(1) << (sizeof(Bits) * 8 - 1);

  bool negative;
  Code code;

  DELTA_HD static Step between(Bits old, Bits now, bool dense) {
    Bits difference = Bits(ordered<Element>(now) - ordered<Element>(old));
    bool negative = Code(difference) >= Half;
    Code magnitude = negative ? Code(Bits(0) - difference) & (Half * 2 - 1)
                              : Code(difference);
    if (dense)
      return {negative, magnitude <= 1 ? 2 - magnitude : magnitude + 1};
    return {negative, magnitude ? magnitude : Half + 1};
  }

  /// The value that a step leads to. Assumes isValid.
  DELTA_HD static Bits apply(Bits old, bool negative, Code code, bool dense) {
    Code magnitude = code;
    if (dense)
      magnitude = code <= 2 ? 2 - code : code - 1;
    else if (code == Half + 1)
      magnitude = 0;
    Bits difference = negative ? Bits(0) - Bits(magnitude) : Bits(magnitude);
    return ordered<Element>(Bits(ordered<Element>(old) + difference));
  }

  DELTA_HD static bool isValid(Code code) { return code - 1 <= Half; }
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_CODERSTEPS_H
