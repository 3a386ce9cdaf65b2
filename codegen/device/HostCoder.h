//===- HostCoder.h - The coder of Coder.h on the host -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Writes and reads coded tiles on the host: one element after the other what
/// the device kernels (EncodeKernel.cuh, DecodeKernel.cuh) do at once, with the
/// same bytes. A reader trusts neither descriptor nor words.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_HOSTCODER_H
#define DELTA_CODEGEN_DEVICE_HOSTCODER_H

#include "codegen/device/CoderWriter.h"

#include <string.h>

namespace delta::device {

/// Words that a body needs at most: planTile takes the shorter form, and the
/// values behind positions take this.
template <typename Element>
constexpr uint32_t maxCodedWords(uint32_t count, bool dense) {
  return (dense ? 0 : (count * 16 + 2 + 31) / 32) +
         (count * uint32_t(sizeof(typename Element::Bits)) + 3) / 4;
}

/// Sets the ones of `value` in words that are zero there.
struct HostSink {
  uint32_t *words;

  DELTA_HD void operator()(uint32_t bit, uint64_t value,
                           uint32_t numBits) const {
    uint32_t shift = bit % 32, *word = words + bit / 32;
    word[0] |= uint32_t(value << shift);
    if (shift + numBits > 32)
      word[1] |= uint32_t(value >> (32 - shift));
    if (shift + numBits > 64)
      word[2] |= uint32_t(value >> (64 - shift));
  }
};

template <typename Element> class HostEncoder {
public:
  using Input = CoderInput<Element>;
  using Bits = typename Element::Bits;

  /// Codes a tile. `words` holds maxCodedWords. Returns the descriptor, which
  /// says how many were written; 0 for a tile without changes.
  static uint64_t encode(const Input &input, uint32_t *words) {
    if (!input.count)
      return 0;
    CoderSums sums = sumsOf(input);
    CodedTile tile = planTile(input.count, input.numElements, !input.offsets,
                              sizeof(Bits), sums);
    memset(words, 0, tile.numWords(sizeof(Bits)) * 4);
    uint32_t firstLow = firstLowBits(input.count, input.numElements);
    uint32_t highs = input.offsets ? sums.highs[tile.lowBits - firstLow] : 0;
    UnaryParts parts =
        UnaryParts::of(tile, highs, sums.numListed, sums.lengths);
    writeElements(input, tile, parts, sums.threshold, words);
    if (!tile.steps)
      memcpy(reinterpret_cast<char *>(words) +
                 tile.valuesBeginBit(sizeof(Bits)) / 8,
             input.now, input.count * sizeof(Bits));
    return tile.descriptor();
  }

private:
  static CoderSums sumsOf(const Input &input) {
    CoderSums sums = {};
    uint32_t units[NumThresholds] = {}, others[NumThresholds] = {};
    uint32_t firstLow = firstLowBits(input.count, input.numElements);
    for (uint32_t i = 0; i < input.count; ++i) {
      CodedElement<Element> element = CodedElement<Element>::of(input, i);
      for (uint32_t tried = 0; tried < 3; ++tried)
        sums.highs[tried] += element.gap >> (firstLow + tried);
      sums.lengths += element.length();
      ++(element.step.code == 1 ? units : others)[element.oldClass];
    }
    chooseThreshold(units, others, sums);
    return sums;
  }

  /// The cheapest threshold, the least of equals.
  static void chooseThreshold(const uint32_t *units, const uint32_t *others,
                              CoderSums &sums) {
    uint32_t unitsBelow = 0, othersBelow = 0, numOthers = 0, best = ~0u;
    for (uint32_t i = 0; i < NumThresholds; ++i)
      numOthers += others[i];
    for (uint32_t i = 0; i < NumThresholds; ++i) {
      uint32_t cost = thresholdCost(unitsBelow, numOthers - othersBelow);
      if (cost < best) {
        best = cost;
        sums.threshold = i;
        sums.numExceptions = numOthers - othersBelow;
        sums.numListed = unitsBelow + numOthers;
      }
      unitsBelow += units[i];
      othersBelow += others[i];
    }
  }

  static void writeElements(const Input &input, const CodedTile &tile,
                            const UnaryParts &parts, uint32_t threshold,
                            uint32_t *words) {
    HostSink sink = {words};
    if (tile.steps)
      sink(tile.fixedBits(), threshold, ThresholdBits);
    CoderPlace place = {};
    for (uint32_t i = 0; i < input.count; ++i) {
      CodedElement<Element> element = CodedElement<Element>::of(input, i);
      writeElement(sink, tile, parts, threshold, i, element, place);
      element.addTo(place, tile, threshold);
    }
  }
};

/// Reads the ones of a stretch of a body in order. Stays inside it.
class OnesReader {
public:
  OnesReader(const uint32_t *words, uint32_t begin, uint32_t end)
      : words(words), at(begin), end(end) {}

  /// Zeros before the next one, which is passed; false: there is none.
  bool next(uint32_t &out_zeros) {
    uint32_t begin = at;
    while (at < end) {
      uint32_t numBits = end - at < 32 ? end - at : 32;
      uint32_t bits = readBits(words, at, numBits);
      if (bits) {
        at += uint32_t(__builtin_ctz(bits));
        out_zeros = at++ - begin;
        return true;
      }
      at += numBits;
    }
    return false;
  }

  /// The bit behind the last one that was read.
  uint32_t position() const { return at; }

private:
  const uint32_t *words;
  uint32_t at, end;
};

template <typename Element> class HostDecoder {
public:
  using Bits = typename Element::Bits;
  using Code = typename CoderTraits<Element>::Code;

  /// Reads a tile of `numElements` whose body begins at `words`, of which
  /// `numWords` are left. Writes values, and offsets unless it is dense; both
  /// hold what CodedTile::of(descriptor) counts, which never exceeds
  /// `numElements` where the descriptor is valid. `oldOf(index, offset)` is the
  /// value before the change; it is not called for offsets outside the tile.
  template <typename OldOf>
  static CoderError decode(uint64_t descriptor, const uint32_t *words,
                           uint64_t numWords, uint32_t numElements,
                           const OldOf &oldOf, uint16_t *offsets,
                           Bits *values) {
    if (!CodedTile::isValid(descriptor, numElements))
      return BadDescriptor;
    CodedTile tile = CodedTile::of(descriptor);
    if (!tile.count)
      return CoderOk;
    if (tile.numWords(sizeof(Bits)) > numWords)
      return BadSize;
    uint32_t at = tile.unaryBegin();
    if (!tile.dense)
      if (CoderError error = readOffsets(tile, words, numElements, offsets, at))
        return error;
    if (!tile.steps) {
      memcpy(values,
             reinterpret_cast<const char *>(words) +
                 tile.valuesBeginBit(sizeof(Bits)) / 8,
             tile.count * sizeof(Bits));
      return at == tile.endBit() ? CoderOk : BadSize;
    }
    auto oldAt = [&](uint32_t i) {
      return oldOf(i, tile.dense ? i : uint32_t(offsets[i]));
    };
    return readSteps(tile, words, at, oldAt, values);
  }

private:
  static CoderError readOffsets(const CodedTile &tile, const uint32_t *words,
                                uint32_t numElements, uint16_t *offsets,
                                uint32_t &at) {
    OnesReader ones(words, at, tile.endBit());
    uint64_t next = 0;
    for (uint32_t i = 0; i < tile.count; ++i) {
      uint32_t high;
      if (!ones.next(high))
        return BadPosition;
      next += uint64_t(high) << tile.lowBits |
              readBits(words, i * tile.bitsOfElement(), tile.lowBits);
      if (next >= numElements)
        return BadPosition;
      offsets[i] = uint16_t(next++);
    }
    at = ones.position();
    return CoderOk;
  }

  /// Signs, then magnitudes: walks the elements and both unary parts together.
  template <typename OldAt>
  static CoderError readSteps(const CodedTile &tile, const uint32_t *words,
                              uint32_t at, const OldAt &oldAt, Bits *values) {
    uint32_t threshold = readBits(words, tile.fixedBits(), ThresholdBits);
    if (tile.endBit() - at < tile.exceptionBits())
      return BadException;
    uint32_t listedBegin = at + tile.exceptionBits();
    OnesReader ones(words, at, listedBegin);
    uint32_t numListed = 0, rank = 0, high = 0;
    uint32_t next = nextException(tile, words, ones, rank, high);
    for (uint32_t i = 0; i < tile.count; ++i) {
      bool isException = i == next;
      numListed +=
          isException || CoderTraits<Element>::classOf(oldAt(i)) < threshold;
      if (!isException)
        continue;
      next = nextException(tile, words, ones, ++rank, high);
      if (next <= i)
        return BadException;
    }
    uint32_t zeros;
    if (rank != tile.numExceptions || ones.next(zeros))
      return BadException;
    uint32_t rest = tile.endBit() - listedBegin;
    if (rest < numListed || (rest - numListed) % 2)
      return BadMagnitude;
    UnaryParts parts = {0, at, listedBegin,
                        listedBegin + numListed + (rest - numListed) / 2};
    return readMagnitudes(tile, words, parts, threshold, oldAt, values);
  }

  /// Index of exception `rank`, whose high bits follow those of the one before;
  /// ~0 if there is none.
  static uint32_t nextException(const CodedTile &tile, const uint32_t *words,
                                OnesReader &ones, uint32_t rank,
                                uint32_t &high) {
    uint32_t zeros;
    if (rank >= tile.numExceptions || !ones.next(zeros))
      return ~0u;
    high += zeros;
    uint32_t numBits = tile.indexBits();
    return high << numBits |
           readBits(words, tile.indicesBegin() + rank * numBits, numBits);
  }

  template <typename OldAt>
  static CoderError readMagnitudes(const CodedTile &tile, const uint32_t *words,
                                   const UnaryParts &parts, uint32_t threshold,
                                   const OldAt &oldAt, Bits *values) {
    OnesReader ones(words, parts.exceptions, parts.listed);
    OnesReader lengths(words, parts.listed, parts.mantissas);
    uint32_t rank = 0, high = 0, mantissa = parts.mantissas;
    uint32_t next = nextException(tile, words, ones, rank, high);
    for (uint32_t i = 0; i < tile.count; ++i) {
      Bits old = oldAt(i);
      Code code = 1;
      bool isException = i == next;
      if (isException)
        next = nextException(tile, words, ones, ++rank, high);
      if (isException || CoderTraits<Element>::classOf(old) < threshold) {
        uint32_t length;
        if (!lengths.next(length) || length >= sizeof(Bits) * 8 ||
            length > tile.endBit() - mantissa)
          return BadMagnitude;
        code = Code(1) << length | Code(readLongBits(words, mantissa, length));
        mantissa += length;
        if (!Step<Element>::isValid(code))
          return BadMagnitude;
      }
      uint32_t sign = i * tile.bitsOfElement() + tile.lowBits;
      values[i] =
          Step<Element>::apply(old, readBits(words, sign, 1), code, tile.dense);
    }
    return mantissa == tile.endBit() ? CoderOk : BadMagnitude;
  }
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_HOSTCODER_H
