//===- Coder.h - The compressed form of a tile's changes --------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A lossless code for the changes of a tile, for slow links and files; the
/// same text for nvcc and for the host compiler. A reader holds the values from
/// before the change, so a value is sent as its step from there, in units of
/// the last place. A tile is a descriptor of 8 bytes and a body of 32-bit
/// little-endian words; bit b of a body is bit b % 32 of word b / 32.
///
///   fixed       for each element: the low `lowBits` bits of its gap (elements
///               skipped since the one before), then the sign of its step
///   threshold   8 bits: a class of old values, see below
///   indices     for each exception: the low bits of its index
///   unary       a one ends each number, zeros before it count:
///                 the high bits of each gap (Rice)
///                 the high bits of each exception's index, as differences
///                 the length of each listed magnitude (Elias gamma)
///   mantissas   of the listed magnitudes, below their leading one
///   values      instead of signs and steps where those would not be shorter:
///               the new values as they are, from a whole word on, or
///               half a word if they have 16 bits
///
/// A step of +-1 is a sign and no more. Listed, with a magnitude, are elements
/// whose old value is below the threshold (for floats the exponent field, where
/// updates of one size are many units of the last place), and the exceptions:
/// others that step by more. Every number's place follows from sums over the
/// elements before it, or from ranks of ones, which are sums of popcounts: no
/// part has to be read from its beginning.
///
/// Bits an element at 1 % (Bernoulli positions; 88 % of steps +-1, of normal
/// weights under updates of one size; entropies in parentheses):
///
///   positions   Rice, best parameter of the tile           8.11  (8.08)
///               Elias-Fano instead, no sum to form         8.56
///               a byte, 255 going on in another            8.67
///   sign                                                   1.00  (1.00)
///   magnitudes  listed by threshold and exceptions         0.69  (0.45)
///               exceptions alone, threshold 0              1.00
///               one bit and gamma for each                 1.41
///   descriptor, threshold, padding to a word               0.14
///
/// So 9.9 bits, 1.24 bytes, against 4 raw. Positions that are independent of
/// what a reader holds and fair signs leave 9.1 bits or 1.14 bytes to any code:
/// 1.1 is out of reach there. Of trained weights small ones change more often;
/// with the exponents of the *whole* tile as context, positions take 2 bits
/// less, but a reader then reads the whole destination through its maps and not
/// what changed alone. That is not cheap, so it is not done.
///
/// Random values are sent as they are, and Rice codes of any positions are at
/// most 16 bits an element from 4 elements on: a body never exceeds the raw
/// form by more than 6 bytes. (A writer compares whole sections and sends the
/// raw form where it is shorter: tiles with a change or two.)
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_CODER_H
#define DELTA_CODEGEN_DEVICE_CODER_H

#include "codegen/device/CoderSteps.h"

namespace delta::device {

/// Why a coded tile was refused.
enum CoderError : uint32_t {
  CoderOk = 0,
  BadDescriptor = 1, ///< fields that no tile of this size has
  BadSize = 2,       ///< a body is not inside the words that were received
  BadPosition = 3,   ///< an element is not inside the tile
  BadException = 4,  ///< an exception is not inside the list of elements
  BadMagnitude = 5,  ///< a magnitude that no step of the type has
  NoSpace = 6,       ///< more elements than the reader has room for
};

constexpr uint32_t MaxLowBits = 15;
constexpr uint32_t ThresholdBits = 8;
constexpr uint32_t NumThresholds = 256;

/// What a descriptor says. An absent tile is 0.
///
///   bits 0..15   count - 1              bit 60   1: has changes
///   bits 16..31  exceptions             bit 61   dense
///   bits 32..55  bits after `fixed`     bit 62   steps, not values
///   bits 56..59  low bits of a gap      bit 63   0
struct CodedTile {
  uint32_t count;
  uint32_t numExceptions;
  uint32_t tailBits;
  uint32_t lowBits;
  bool dense;
  bool steps;

  DELTA_HD uint32_t bitsOfElement() const { return lowBits + steps; }
  DELTA_HD uint32_t fixedBits() const { return count * bitsOfElement(); }
  DELTA_HD uint32_t endBit() const { return fixedBits() + tailBits; }
  /// The bit at which values begin: a multiple of 16 or 32.
  DELTA_HD uint32_t valuesBeginBit(uint32_t elementSize) const {
    uint32_t unit = elementSize == 2 ? 16 : 32;
    return (endBit() + unit - 1) / unit * unit;
  }
  DELTA_HD uint32_t numWords(uint32_t elementSize) const {
    if (steps)
      return (endBit() + 31) / 32;
    return (valuesBeginBit(elementSize) / 8 + count * elementSize + 3) / 4;
  }

  /// Places of the parts; see the head of this file.
  DELTA_HD uint32_t indicesBegin() const { return fixedBits() + ThresholdBits; }
  DELTA_HD uint32_t indexBits() const {
    return numExceptions ? floorLog2(count / numExceptions) : 0;
  }
  DELTA_HD uint32_t unaryBegin() const {
    return steps ? indicesBegin() + numExceptions * indexBits() : fixedBits();
  }
  /// Length of the high bits of exceptions.
  DELTA_HD uint32_t exceptionBits() const {
    return numExceptions ? numExceptions + ((count - 1) >> indexBits()) : 0;
  }

  DELTA_HD uint64_t descriptor() const {
    if (!count)
      return 0;
    return uint64_t(count - 1) | uint64_t(numExceptions) << 16 |
           uint64_t(tailBits) << 32 | uint64_t(lowBits) << 56 |
           uint64_t(1) << 60 | uint64_t(dense) << 61 | uint64_t(steps) << 62;
  }

  DELTA_HD static CodedTile of(uint64_t descriptor) {
    if (!(descriptor >> 60 & 1))
      return {};
    return {uint32_t(descriptor & 0xffff) + 1,
            uint32_t(descriptor >> 16 & 0xffff),
            uint32_t(descriptor >> 32 & 0xffffff),
            uint32_t(descriptor >> 56 & 0xf),
            bool(descriptor >> 61 & 1),
            bool(descriptor >> 62 & 1)};
  }

  /// Whether a tile of `numElements` can have this descriptor, which came over
  /// a wire. What it says of sizes is bounded then, not yet true.
  DELTA_HD static bool isValid(uint64_t descriptor, uint32_t numElements) {
    CodedTile tile = of(descriptor);
    if (!tile.count || descriptor >> 63)
      return !descriptor;
    if (tile.dense ? tile.count != numElements || tile.lowBits
                   : tile.count > numElements)
      return false;
    if (tile.numExceptions > (tile.steps ? tile.count : 0))
      return false;
    uint32_t least = tile.dense ? 0 : tile.count;
    if (tile.steps)
      least += tile.unaryBegin() - tile.fixedBits() + tile.exceptionBits();
    else if (tile.dense)
      return tile.tailBits == 0;
    return tile.tailBits >= least;
  }
};

/// At most 32 bits of a body from `bit` on. Assumes that they are inside it.
DELTA_HD uint32_t readBits(const uint32_t *words, uint32_t bit,
                           uint32_t numBits) {
  if (!numBits)
    return 0;
  uint32_t shift = bit % 32;
  uint64_t pair = words[bit / 32];
  if (shift + numBits > 32)
    pair |= uint64_t(words[bit / 32 + 1]) << 32;
  return uint32_t(pair >> shift) & (0xffffffffu >> (32 - numBits));
}

/// At most 64 bits.
DELTA_HD uint64_t readLongBits(const uint32_t *words, uint32_t bit,
                               uint32_t numBits) {
  if (numBits <= 32)
    return readBits(words, bit, numBits);
  return readBits(words, bit, 32) |
         uint64_t(readBits(words, bit + 32, numBits - 32)) << 32;
}

/// Zeros right before a bit, from `begin` on; counts no further than 64.
DELTA_HD uint32_t zerosBefore(const uint32_t *words, uint32_t begin,
                              uint32_t bit) {
  uint32_t zeros = 0;
  while (zeros < 64 && bit - zeros > begin) {
    uint32_t rest = bit - zeros - begin, number = rest < 32 ? rest : 32;
    uint32_t bits = readBits(words, bit - zeros - number, number);
    if (bits)
      return zeros + number - 1 - floorLog2(bits);
    zeros += number;
  }
  return zeros;
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_CODER_H
