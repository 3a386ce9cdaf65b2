//===- CoderSamples.cpp - Tiles to code -----------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CoderSamples.h"

#include <cmath>

using namespace delta::device;

namespace delta::test {

namespace {

double normal(Random &random) {
  double radius = std::sqrt(-2 * std::log(1 - uniform(random)));
  return radius * std::cos(6.283185307179586 * uniform(random));
}

/// Weights of deviation 0.02 under steps of the optimizer of about 1e-6, and
/// what became of them; those that are the same in bf16 are left out.
struct Pair {
  float old, now;
};
const std::vector<Pair> &trainedPairs() {
  static const std::vector<Pair> pairs = [] {
    Random random(17);
    std::vector<Pair> found;
    while (found.size() < 1 << 15) {
      float old = float(0.02 * normal(random));
      double update = std::fmax(-1.5, std::fmin(1.5, 0.7 * normal(random)));
      float now = float(old + 1e-6 * update);
      if (Bf16::ofFp32(bitsOfFloat(old)) != Bf16::ofFp32(bitsOfFloat(now)))
        found.push_back({old, now});
    }
    return found;
  }();
  return pairs;
}

template <typename Element> typename Element::Bits plainValue(Random &random) {
  using Bits = typename Element::Bits;
  if constexpr (sizeof(Bits) == 8)
    return random() >> 44;
  else
    return Element::ofFp32(bitsOfFloat(float(0.02 * normal(random))));
}

template <typename Element>
typename Element::Bits stepped(Random &random, typename Element::Bits old) {
  using Bits = typename Element::Bits;
  double kind = uniform(random);
  if (sizeof(Bits) < 8 && kind > 0.999) // the sign, and something small
    return Bits(old ^ (Bits(1) << (sizeof(Bits) * 8 - 1)));
  uint64_t size = kind < 0.9 ? 1 : uint64_t(std::exp2(1 + 5 * uniform(random)));
  bool negative = random() & 1;
  return ordered<Element>(
      Bits(ordered<Element>(old) + (negative ? 0 - size : size)));
}

/// Sets old and new value of one element, which differ.
template <typename Element>
void change(Random &random, Steps steps, typename Element::Bits &old,
            typename Element::Bits &now) {
  using Bits = typename Element::Bits;
  if (steps == Steps::RandomBits) {
    old = Bits(random());
    do
      now = Bits(random());
    while (now == old);
    return;
  }
  // fp32 weights change by many units, integers not in this manner.
  if constexpr (sizeof(Bits) == 2)
    if (steps == Steps::Trained) {
      do {
        Pair pair = trainedPairs()[random() % trainedPairs().size()];
        old = Element::ofFp32(bitsOfFloat(pair.old));
        now = Element::ofFp32(bitsOfFloat(pair.now));
      } while (old == now);
      return;
    }
  old = plainValue<Element>(random);
  now = stepped<Element>(random, old);
}

} // namespace

template <typename Element>
Sample<Element> makeSample(Random &random, uint32_t numElements,
                           std::vector<uint16_t> offsets, Steps steps) {
  Sample<Element> sample = {numElements, false, std::move(offsets), {}, {}};
  for (uint32_t i = 0; i < numElements; ++i)
    sample.old.push_back(plainValue<Element>(random));
  for (uint16_t offset : sample.offsets) {
    sample.now.emplace_back();
    change<Element>(random, steps, sample.old[offset], sample.now.back());
  }
  return sample;
}

template <typename Element>
Sample<Element> makeSample(Random &random, uint32_t numElements, double share,
                           Steps steps) {
  std::vector<uint16_t> offsets;
  for (uint32_t i = 0; i < numElements; ++i)
    if (uniform(random) < share)
      offsets.push_back(uint16_t(i));
  return makeSample<Element>(random, numElements, std::move(offsets), steps);
}

template <typename Element>
Sample<Element> makeDense(Random &random, uint32_t numElements, double share,
                          Steps steps) {
  Sample<Element> sample = {numElements, true, {}, {}, {}};
  for (uint32_t i = 0; i < numElements; ++i) {
    sample.old.push_back(plainValue<Element>(random));
    sample.now.push_back(sample.old.back());
    if (uniform(random) < share)
      change<Element>(random, steps, sample.old.back(), sample.now.back());
  }
  return sample;
}

#define INSTANTIATE(ELEMENT)                                                   \
  template Sample<ELEMENT> makeSample(Random &, uint32_t, double, Steps);      \
  template Sample<ELEMENT> makeSample(Random &, uint32_t,                      \
                                      std::vector<uint16_t>, Steps);           \
  template Sample<ELEMENT> makeDense(Random &, uint32_t, double, Steps);
INSTANTIATE(Bf16)
INSTANTIATE(Fp16)
INSTANTIATE(Fp32)
INSTANTIATE(Int64)

} // namespace delta::test
