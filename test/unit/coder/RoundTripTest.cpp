//===- RoundTripTest.cpp - What was coded comes back ----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CoderSamples.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace delta::device;
using namespace delta::test;

namespace {

/// Codes and reads; checks offsets, values, and that both orders of the old
/// values give the same body.
template <typename Element> void checkRoundTrip(const Sample<Element> &sample) {
  using Bits = typename Element::Bits;
  Coded coded = encode(sample);
  std::vector<uint16_t> offsets(sample.offsets.size());
  std::vector<Bits> values(sample.count());
  CoderError error = HostDecoder<Element>::decode(
      coded.descriptor, coded.words.data(), coded.words.size(),
      sample.numElements,
      [&](uint32_t, uint32_t offset) { return sample.old.at(offset); },
      offsets.data(), values.data());
  ASSERT_EQ(error, CoderOk);
  ASSERT_EQ(CodedTile::of(coded.descriptor).count, sample.count());
  EXPECT_EQ(offsets, sample.offsets);
  EXPECT_EQ(values, sample.now);
  if (sample.dense)
    return;

  std::vector<Bits> listed;
  for (uint16_t offset : sample.offsets)
    listed.push_back(sample.old[offset]);
  CoderInput<Element> input = sample.input();
  input.old = listed.data();
  input.oldInTileOrder = false;
  std::vector<uint32_t> words(maxCodedWords<Element>(sample.count(), false));
  ASSERT_EQ(HostEncoder<Element>::encode(input, words.data()),
            coded.descriptor);
  words.resize(coded.words.size());
  EXPECT_EQ(words, coded.words);
}

template <typename Element> class RoundTrip : public testing::Test {};
using Elements = testing::Types<Bf16, Fp16, Fp32, Int64>;
TYPED_TEST_SUITE(RoundTrip, Elements);

constexpr Steps AllSteps[] = {Steps::Trained, Steps::Independent,
                              Steps::RandomBits};
constexpr uint32_t FullTile = 65536;

TYPED_TEST(RoundTrip, Shares) {
  Random random(1);
  for (Steps steps : AllSteps)
    for (double share : {0.0, 0.0003, 0.01, 0.03, 0.3, 0.5, 1.0})
      for (uint32_t numElements :
           {1u, 2u, 31u, 32u, 33u, 1024u, 5000u, FullTile})
        checkRoundTrip(
            makeSample<TypeParam>(random, numElements, share, steps));
}

TYPED_TEST(RoundTrip, Dense) {
  Random random(2);
  for (Steps steps : AllSteps)
    for (double share : {0.0, 0.51, 0.9, 1.0})
      for (uint32_t numElements : {1u, 2u, 31u, 32u, 33u, 4999u, FullTile})
        checkRoundTrip(makeDense<TypeParam>(random, numElements, share, steps));
}

TYPED_TEST(RoundTrip, CountsAndPlaces) {
  Random random(3);
  for (Steps steps : AllSteps) {
    for (uint32_t count : {1u, 2u, 3u, 4u, 5u, 20u, 255u, 256u, 257u, 4097u}) {
      std::vector<uint16_t> first(count), last(count), spread(count);
      std::iota(first.begin(), first.end(), uint16_t(0));
      std::iota(last.begin(), last.end(), uint16_t(FullTile - count));
      for (uint32_t i = 0; i < count; ++i)
        spread[i] = uint16_t((i + 1) * (FullTile / count) - 1);
      for (const auto &offsets : {first, last, spread})
        checkRoundTrip(makeSample<TypeParam>(random, FullTile, offsets, steps));
    }
  }
}

TYPED_TEST(RoundTrip, AbsentTileIsNothing) {
  Sample<TypeParam> empty = {100, false, {}, {}, {}};
  EXPECT_EQ(encode(empty).descriptor, 0u);
  EXPECT_TRUE(encode(empty).words.empty());
  checkRoundTrip(empty);
}

/// Patterns at the edges of every class: zeros, subnormals, the largest
/// numbers, infinities, NaNs with payloads.
template <typename Element> std::vector<typename Element::Bits> edges() {
  using Bits = typename Element::Bits;
  constexpr uint32_t Width = sizeof(Bits) * 8;
  std::vector<Bits> found;
  for (uint32_t bit = 0; bit <= Width; ++bit) {
    Bits power = bit < Width ? Bits(Bits(1) << bit) : Bits(0);
    for (Bits pattern : {power, Bits(power - 1), Bits(power + 1)}) {
      found.push_back(pattern);
      found.push_back(Bits(~pattern));
    }
  }
  for (uint32_t special :
       {0x7f80u, 0xff80u, 0x7fc0u, 0x7f81u, 0x7c00u, 0xfc01u})
    for (uint32_t low : {0u, 1u})
      found.push_back(Bits(Bits(special) << (Width - 16) | low));
  return found;
}

TYPED_TEST(RoundTrip, EdgesToEdges) {
  constexpr uint32_t InOneTile = 8;
  auto patterns = edges<TypeParam>();
  uint32_t number = uint32_t(patterns.size());
  for (uint32_t first = 0; first < number; first += InOneTile)
    for (bool dense : {false, true}) {
      // Mostly unit steps, so that the tile is coded by steps.
      Sample<TypeParam> sample = {FullTile, dense, {}, {}, {}};
      for (uint32_t i = 0; i < FullTile; ++i) {
        auto old = patterns[i % number];
        uint32_t to = i / number;
        sample.old.push_back(old);
        sample.now.push_back(
            to < InOneTile ? patterns[(first + to) % number]
                           : ordered<TypeParam>(ordered<TypeParam>(old) + 1));
        if (!dense)
          sample.offsets.push_back(uint16_t(i));
      }
      ASSERT_TRUE(CodedTile::of(encode(sample).descriptor).steps);
      checkRoundTrip(sample);
    }
}

TEST(CoderSteps, AllPatternsOf16Bits) {
  for (uint32_t old = 0; old < 65536; old += 251)
    for (uint32_t now = 0; now < 65536; ++now)
      for (bool dense : {false, true}) {
        auto step = Step<Bf16>::between(uint16_t(old), uint16_t(now), dense);
        ASSERT_TRUE(Step<Bf16>::isValid(step.code));
        ASSERT_EQ(
            Step<Bf16>::apply(uint16_t(old), step.negative, step.code, dense),
            now)
            << old;
      }
}

TEST(CoderSteps, OrderOfFloats) {
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) { // to infinity, from there on
    ASSERT_EQ(ordered<Bf16>(uint16_t(bits)) + 1,
              ordered<Bf16>(uint16_t(bits + 1)));
    ASSERT_EQ(uint16_t(ordered<Bf16>(uint16_t(0x8000 | bits)) - 1),
              ordered<Bf16>(uint16_t(0x8000 | (bits + 1))));
  }
  EXPECT_EQ(uint16_t(ordered<Bf16>(0x8000) + 1), ordered<Bf16>(0));
}

/// A tile bit by bit, from the description at the head of Coder.h.
TEST(CoderFormat, SmallTileByHand) {
  // Gaps 3, 0, 255 of a tile of 512. With 5, 6, 7 low bits, 7, 3, 1 zeros: 6 is
  // the shortest.
  const uint16_t offsets[] = {3, 4, 260};
  const uint16_t old[] = {0x3f80, 0xbf80, 0x3f80}; // all of exponent 127
  const uint16_t now[] = {0x3f81, 0xbf81, 0x3f7d}; // +1, -1, -3
  uint32_t words[8] = {};
  uint64_t descriptor =
      HostEncoder<Bf16>::encode({offsets, now, old, 3, 512, false}, words);

  // Threshold 128 lists two unit steps, 127 would have an exception.
  CodedTile tile = CodedTile::of(descriptor);
  EXPECT_EQ(tile.count, 3u);
  EXPECT_EQ(tile.numExceptions, 0u);
  EXPECT_EQ(tile.lowBits, 6u);
  EXPECT_FALSE(tile.dense);
  EXPECT_TRUE(tile.steps);
  EXPECT_EQ(tile.fixedBits(), 21u);
  // Threshold, gaps, lengths 0, 0, 1, one bit of mantissa.
  EXPECT_EQ(tile.tailBits, 8u + (3 + 3) + (3 + 1) + 1);
  EXPECT_EQ(descriptor, 0x5600'0013'0000'0002u);
  ASSERT_EQ(tile.numWords(2), 2u);
  uint32_t fixed = 3 | (0 | 1 << 6) << 7 | (63 | 1 << 6) << 14;
  EXPECT_EQ(words[0], fixed | 128u << 21 | 1u << 29 | 1u << 30);
  // From bit 32 on: gap ...0001 from 31 to 34, lengths 1 1 01, mantissa 1.
  EXPECT_EQ(words[1], 1u << 2 | 0b1011u << 3 | 1u << 7);
}

} // namespace
