//===- MalformedTest.cpp - Coded tiles that are not -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A reader neither trusts a descriptor nor a body. All buffers here have the
/// size that the reader may use, so a sanitizer sees any step outside.
///
//===----------------------------------------------------------------------===//

#include "CoderSamples.h"

#include <gtest/gtest.h>

#include <memory>

using namespace delta::device;
using namespace delta::test;

namespace {

/// Reads a tile into buffers of its own size; checks what was taken.
template <typename Element>
CoderError readCoded(const Sample<Element> &sample, uint64_t descriptor,
                     const std::vector<uint32_t> &words) {
  using Bits = typename Element::Bits;
  std::unique_ptr<uint32_t[]> body(new uint32_t[words.size()]);
  std::copy(words.begin(), words.end(), body.get());
  uint32_t count = CodedTile::of(descriptor).count;
  count = std::min(count, sample.numElements);
  std::unique_ptr<uint16_t[]> offsets(new uint16_t[count]);
  std::unique_ptr<Bits[]> values(new Bits[count]);
  bool inside = true;
  CoderError error = HostDecoder<Element>::decode(
      descriptor, body.get(), words.size(), sample.numElements,
      [&](uint32_t, uint32_t offset) {
        inside &= offset < sample.numElements;
        return sample.old.at(offset);
      },
      offsets.get(), values.get());
  EXPECT_TRUE(inside);
  if (error == CoderOk && count && !CodedTile::of(descriptor).dense)
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_LT(offsets[i], sample.numElements);
      EXPECT_TRUE(i == 0 || offsets[i - 1] < offsets[i]);
    }
  return error;
}

template <typename Element> class Malformed : public testing::Test {};
using ElementTypes = testing::Types<Bf16, Fp16, Fp32, Int64>;
TYPED_TEST_SUITE(Malformed, ElementTypes);

template <typename Element> std::vector<Sample<Element>> smallTiles() {
  Random random(21);
  std::vector<Sample<Element>> samples;
  for (Steps steps : {Steps::Trained, Steps::Independent, Steps::RandomBits}) {
    samples.push_back(makeSample<Element>(random, 700, 0.1, steps));
    samples.push_back(makeSample<Element>(random, 9, 1.0, steps));
    samples.push_back(makeSample<Element>(random, 65536, 0.0005, steps));
    samples.push_back(makeDense<Element>(random, 130, 0.7, steps));
  }
  return samples;
}

TYPED_TEST(Malformed, EveryBitOfASmallTile) {
  int numErrors[NoSpace + 1] = {};
  for (const auto &sample : smallTiles<TypeParam>()) {
    Coded coded = encode(sample);
    ASSERT_EQ(readCoded(sample, coded.descriptor, coded.words), CoderOk);
    for (int bit = 0; bit < 64; ++bit) {
      uint64_t descriptor = coded.descriptor ^ uint64_t(1) << bit;
      CoderError error = readCoded(sample, descriptor, coded.words);
      ++numErrors[error];
      if (bit == 60 || bit == 63)
        EXPECT_EQ(error, BadDescriptor);
    }
    for (size_t bit = 0; bit < coded.words.size() * 32; ++bit) {
      coded.words[bit / 32] ^= 1u << bit % 32;
      ++numErrors[readCoded(sample, coded.descriptor, coded.words)];
      coded.words[bit / 32] ^= 1u << bit % 32;
    }
  }
  EXPECT_GT(numErrors[CoderOk], 1000); // another value, or place
  for (CoderError error : {BadDescriptor, BadSize, BadPosition, BadMagnitude})
    EXPECT_GT(numErrors[error], 10) << error;
  EXPECT_GT(numErrors[BadException], 0);
}

TYPED_TEST(Malformed, CutOff) {
  for (const auto &sample : smallTiles<TypeParam>()) {
    Coded coded = encode(sample);
    while (!coded.words.empty()) {
      coded.words.pop_back();
      ASSERT_EQ(readCoded(sample, coded.descriptor, coded.words), BadSize);
    }
  }
}

TYPED_TEST(Malformed, Noise) {
  Random random(22);
  auto samples = smallTiles<TypeParam>();
  for (int round = 0; round < 3000; ++round) {
    const auto &sample = samples[random() % samples.size()];
    Coded coded = encode(sample);
    // Everything behind a bit is noise; the descriptor now and then.
    if (random() % 4 == 0)
      coded.descriptor ^= random() & random() & random();
    size_t begin = random() % coded.words.size();
    for (size_t i = begin; i < coded.words.size(); ++i)
      coded.words[i] = uint32_t(random() & (round % 2 ? ~0u : random()));
    readCoded(sample, coded.descriptor, coded.words);
  }
}

/// The 3-element tile of CoderFormat, one field of its descriptor changed.
TEST(MalformedDescriptor, Fields) {
  Sample<Bf16> sample = {512, false, {3, 4, 260}, {}, {0x3f81, 0xbf81, 0x3f7d}};
  sample.old.assign(512, 0x3f80);
  sample.old[4] = 0xbf80;
  Coded coded = encode(sample);
  auto with = [&](auto change) {
    CodedTile tile = CodedTile::of(coded.descriptor);
    change(tile);
    return readCoded(sample, tile.descriptor(), coded.words);
  };
  EXPECT_EQ(with([](CodedTile &) {}), CoderOk);
  EXPECT_EQ(with([](CodedTile &tile) { tile.count = 513; }), BadDescriptor);
  EXPECT_EQ(with([](CodedTile &tile) { tile.dense = true; }), BadDescriptor);
  EXPECT_EQ(with([](CodedTile &tile) { tile.numExceptions = 4; }),
            BadDescriptor);
  EXPECT_EQ(with([](CodedTile &tile) { tile.tailBits = 10; }), BadDescriptor);
  EXPECT_EQ(with([](CodedTile &tile) { tile.tailBits = 1000; }), BadSize);
  EXPECT_EQ(with([](CodedTile &tile) { tile.tailBits += 2; }), BadMagnitude);
  EXPECT_EQ(
      readCoded(sample, coded.descriptor | uint64_t(1) << 63, coded.words),
      BadDescriptor);
  EXPECT_EQ(readCoded(sample, 1, coded.words), BadDescriptor);
  coded.words[1] ^= 1u << 2; // the one of the last gap: none follows soon
  EXPECT_EQ(readCoded(sample, coded.descriptor, coded.words), BadMagnitude);
}

} // namespace
