//===- CoderSamples.h - Tiles to code ---------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Seeded changes of a tile: where they are, and of what size.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_CODER_CODERSAMPLES_H
#define DELTA_TEST_UNIT_CODER_CODERSAMPLES_H

#include "codegen/device/HostCoder.h"

#include <random>
#include <stdexcept>
#include <vector>

namespace delta::test {

using Random = std::mt19937_64;

/// Uniform in [0, 1).
inline double uniform(Random &random) {
  return double(random() >> 11) * 0x1p-53;
}

/// What the values of a sample are like.
enum class Steps {
  Trained,     ///< normal weights, updates of one size: about 88 % are one ulp
  Independent, ///< 90 % one ulp, others to 64, 1 % of them change the sign;
               ///< whatever the old value is
  RandomBits,
};

/// A tile in tile order, and its changes.
template <typename Element> struct Sample {
  using Bits = typename Element::Bits;

  uint32_t numElements;
  bool dense;
  std::vector<uint16_t> offsets; ///< empty if dense
  std::vector<Bits> old;         ///< of all elements
  std::vector<Bits> now;         ///< of the listed ones

  uint32_t count() const { return uint32_t(now.size()); }
  uint64_t rawBytes() const {
    return now.size() * ((dense ? 0 : 2) + sizeof(Bits));
  }
  device::CoderInput<Element> input() const {
    return {dense ? nullptr : offsets.data(),
            now.data(),
            old.data(),
            count(),
            numElements,
            true};
  }
};

/// Every element of the tile changes with probability `share`.
template <typename Element>
Sample<Element> makeSample(Random &random, uint32_t numElements, double share,
                           Steps steps);
/// The changes are at `offsets`.
template <typename Element>
Sample<Element> makeSample(Random &random, uint32_t numElements,
                           std::vector<uint16_t> offsets, Steps steps);
/// All elements are listed; those that change are `share` of them.
template <typename Element>
Sample<Element> makeDense(Random &random, uint32_t numElements, double share,
                          Steps steps);

/// A coded tile.
struct Coded {
  uint64_t descriptor;
  std::vector<uint32_t> words;
};

template <typename Element> Coded encode(const Sample<Element> &sample) {
  Coded coded;
  coded.words.resize(
      device::maxCodedWords<Element>(sample.count(), sample.dense));
  coded.descriptor =
      device::HostEncoder<Element>::encode(sample.input(), coded.words.data());
  uint32_t numWords = device::CodedTile::of(coded.descriptor)
                          .numWords(sizeof(typename Element::Bits));
  if (numWords > coded.words.size())
    throw std::length_error("a body exceeds maxCodedWords");
  coded.words.resize(numWords);
  coded.words.shrink_to_fit();
  return coded;
}

} // namespace delta::test

#endif // DELTA_TEST_UNIT_CODER_CODERSAMPLES_H
