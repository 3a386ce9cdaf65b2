//===- CoderWriter.h - The numbers of one element ---------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// How a writer decides on the form of a tile, and what it writes of each
/// element, given sums over those before; the same text for nvcc and for the
/// host compiler. The format is that of Coder.h.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_CODERWRITER_H
#define DELTA_CODEGEN_DEVICE_CODERWRITER_H

#include "codegen/device/Coder.h"

namespace delta::device {

/// Bits that an exception costs beyond a listed element, about.
constexpr uint32_t ExceptionCost = 6;

/// The changes of a tile, and the values before them.
template <typename Element> struct CoderInput {
  using Bits = typename Element::Bits;

  const uint16_t *offsets; ///< ascending; null: dense, all elements
  const Bits *now;         ///< of the listed elements
  const Bits *old;         ///< of the listed elements, or of all
  uint32_t count;
  uint32_t numElements; ///< of the tile
  bool oldInTileOrder;  ///< `old` is of all elements

  DELTA_HD uint32_t gapBefore(uint32_t index) const {
    if (!offsets)
      return 0;
    return index ? offsets[index] - offsets[index - 1] - 1u : offsets[0];
  }
  DELTA_HD Bits oldOf(uint32_t index) const {
    return old[oldInTileOrder && offsets ? offsets[index] : index];
  }
};

/// The least of the three low-bit counts that are tried for gaps: for geometric
/// gaps the middle one is best, or its neighbors.
DELTA_HD uint32_t firstLowBits(uint32_t count, uint32_t numElements) {
  uint32_t gap = uint32_t(uint64_t(numElements) * 11 / (uint64_t(count) * 16));
  uint32_t middle = gap ? floorLog2(gap) : 0;
  return middle > MaxLowBits - 1 ? MaxLowBits - 2 : middle ? middle - 1 : 0;
}

/// Sums over the elements of a tile, from which its coded form follows.
struct CoderSums {
  uint32_t highs[3]; ///< of gaps, for each number of low bits tried
  uint32_t lengths;  ///< floor(log2(code)) of all steps
  uint32_t threshold;
  uint32_t numListed; ///< at that threshold, exceptions included
  uint32_t numExceptions;
};

/// The shorter of steps and values; the fewest bits for positions.
DELTA_HD CodedTile planTile(uint32_t count, uint32_t numElements, bool dense,
                            uint32_t elementSize, const CoderSums &sums) {
  CodedTile tile = {count, 0, 0, 0, dense, false};
  if (!dense) {
    uint32_t first = firstLowBits(count, numElements), best = 0;
    for (uint32_t i = 1; i < 3; ++i)
      if (count * i + sums.highs[i] < count * best + sums.highs[best])
        best = i;
    tile.lowBits = first + best;
    tile.tailBits = count + sums.highs[best];
  }
  if (sums.numExceptions > 0xffff)
    return tile;
  CodedTile steps = tile;
  steps.steps = true;
  steps.numExceptions = sums.numExceptions;
  steps.tailBits += steps.unaryBegin() - steps.fixedBits() +
                    steps.exceptionBits() + sums.numListed + 2 * sums.lengths;
  return steps.numWords(elementSize) < tile.numWords(elementSize) ? steps
                                                                  : tile;
}

/// Bits that a threshold costs: one for each unit step below it, more for each
/// other step that is not.
DELTA_HD uint32_t thresholdCost(uint32_t unitStepsBelow,
                                uint32_t otherStepsAbove) {
  return unitStepsBelow + ExceptionCost * otherStepsAbove;
}

/// Sums over the elements before one, which say where its numbers go.
struct CoderPlace {
  uint32_t highs;
  uint32_t exceptions;
  uint32_t listed;
  uint32_t lengths;
};

/// Where the unary parts and the mantissas begin.
struct UnaryParts {
  uint32_t gaps;
  uint32_t exceptions;
  uint32_t listed;
  uint32_t mantissas;

  DELTA_HD static UnaryParts of(const CodedTile &tile, uint32_t sumOfHighs,
                                uint32_t numListed, uint32_t sumOfLengths) {
    UnaryParts parts;
    parts.gaps = tile.unaryBegin();
    parts.exceptions = parts.gaps + (tile.dense ? 0 : tile.count + sumOfHighs);
    parts.listed = parts.exceptions + tile.exceptionBits();
    parts.mantissas = parts.listed + numListed + sumOfLengths;
    return parts;
  }
};

/// One element as it is coded.
template <typename Element> struct CodedElement {
  uint32_t gap;
  uint32_t oldClass;
  Step<Element> step;

  DELTA_HD static CodedElement of(const CoderInput<Element> &input,
                                  uint32_t index) {
    typename Element::Bits old = input.oldOf(index);
    return {input.gapBefore(index), CoderTraits<Element>::classOf(old),
            Step<Element>::between(old, input.now[index], !input.offsets)};
  }
  DELTA_HD bool isListed(uint32_t threshold) const {
    return oldClass < threshold || step.code != 1;
  }
  DELTA_HD bool isException(uint32_t threshold) const {
    return oldClass >= threshold && step.code != 1;
  }
  DELTA_HD uint32_t length() const { return floorLog2(step.code); }

  /// What the element adds to the sums.
  DELTA_HD void addTo(CoderPlace &place, const CodedTile &tile,
                      uint32_t threshold) const {
    place.highs += gap >> tile.lowBits;
    place.exceptions += isException(threshold);
    place.listed += isListed(threshold);
    place.lengths += length();
  }
};

/// Writes the numbers of element `index`. `sink(bit, value, numBits)` sets the
/// ones of a value in a body that is zero.
template <typename Element, typename Sink>
DELTA_HD void writeElement(const Sink &sink, const CodedTile &tile,
                           const UnaryParts &parts, uint32_t threshold,
                           uint32_t index, const CodedElement<Element> &element,
                           const CoderPlace &before) {
  uint32_t fixed = element.gap & ((1u << tile.lowBits) - 1);
  uint32_t numBits = tile.bitsOfElement();
  if (tile.steps)
    fixed |= uint32_t(element.step.negative) << tile.lowBits;
  if (fixed)
    sink(index * numBits, uint64_t(fixed), numBits);
  if (!tile.dense)
    sink(parts.gaps + index + before.highs + (element.gap >> tile.lowBits),
         uint64_t(1), 1);
  if (!tile.steps || !element.isListed(threshold))
    return;
  if (element.isException(threshold)) {
    uint32_t indexBits = tile.indexBits(), rank = before.exceptions;
    uint32_t low = index & ((1u << indexBits) - 1);
    if (low)
      sink(tile.indicesBegin() + rank * indexBits, uint64_t(low), indexBits);
    sink(parts.exceptions + (index >> indexBits) + rank, uint64_t(1), 1);
  }
  uint32_t length = element.length();
  sink(parts.listed + before.listed + before.lengths + length, uint64_t(1), 1);
  uint64_t mantissa = uint64_t(element.step.code) ^ uint64_t(1) << length;
  if (mantissa)
    sink(parts.mantissas + before.lengths, mantissa, length);
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_CODERWRITER_H
