//===- KernelTest.cpp - The coder's kernels against the host --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The text of the device kernels, run by the emulator of test/emulator: the
/// same words as the host writes, the same answer to malformed ones.
///
//===----------------------------------------------------------------------===//

#include "test/emulator/Simt.h"

#include "CoderSections.h"
#include "codegen/device/DecodeKernel.cuh"
#include "codegen/device/EncodeKernel.cuh"

#include <gtest/gtest.h>

using namespace delta::device;
using namespace delta::test;

namespace {

constexpr uint64_t Guard = 0xa5a5a5a5a5a5a5a5u;

/// Codes with `capacity` words; returns whether they were enough.
template <typename Element>
bool codeOnDevice(const std::vector<Sample<Element>> &samples,
                  uint64_t capacity, uint32_t numBlocks, Section &section) {
  std::vector<CoderInput<Element>> inputs;
  for (const Sample<Element> &sample : samples)
    inputs.push_back(sample.input());
  section.descriptors.assign(samples.size(), Guard);
  section.begins.assign(samples.size() + 1, Guard);
  section.words.assign(capacity, uint32_t(Guard));
  section.words.shrink_to_fit();
  std::vector<unsigned long long> lookBack(samples.size());
  unsigned long long nextTile = 0;
  uint32_t overflow = 0;
  EncodeArguments<Element> arguments = {inputs.data(),
                                        int64_t(samples.size()),
                                        &nextTile,
                                        lookBack.data(),
                                        section.descriptors.data(),
                                        section.begins.data(),
                                        section.words.data(),
                                        capacity,
                                        &overflow};
  delta::simt::launch(numBlocks, BlockThreads, [&] { encodeTiles(arguments); });
  return overflow == 0;
}

template <typename Element>
DecodedTiles<Element> readOnDevice(const std::vector<Sample<Element>> &samples,
                                   const Section &section, uint64_t capacity) {
  using Held = HeldInTileOrder<Element>;
  std::vector<typename Held::Tile> held;
  for (const Sample<Element> &sample : samples)
    held.push_back({sample.old.data(), sample.numElements, 0});
  DecodedTiles<Element> read;
  read.begins.resize(samples.size());
  read.offsets.resize(capacity);
  read.values.resize(capacity);
  read.error = ~uint64_t(0);
  std::vector<unsigned long long> lookBack(2 * samples.size());
  unsigned long long nextTile = 0, error = ~0ull;
  DecodeArguments<Element, Held> arguments = {{held.data()},
                                              section.descriptors.data(),
                                              int64_t(samples.size()),
                                              section.words.data(),
                                              section.words.size(),
                                              &nextTile,
                                              lookBack.data(),
                                              read.begins.data(),
                                              read.offsets.data(),
                                              read.values.data(),
                                              capacity,
                                              &error};
  delta::simt::launch(1, BlockThreads, [&] { decodeTiles(arguments); });
  read.error = error;
  return read;
}

template <typename Element> class CoderKernel : public testing::Test {};
using ElementTypes = testing::Types<Bf16, Fp16, Fp32, Int64>;
TYPED_TEST_SUITE(CoderKernel, ElementTypes);

template <typename Element>
void checkBothWays(const std::vector<Sample<Element>> &samples) {
  Section host = codeOnHost(samples), device;
  for (uint32_t numBlocks : {1u, 3u}) {
    ASSERT_TRUE(codeOnDevice(samples, host.words.size(), numBlocks, device));
    ASSERT_EQ(device.descriptors, host.descriptors);
    ASSERT_EQ(device.begins, host.begins);
    ASSERT_EQ(device.words, host.words);
  }
  uint64_t count = 0;
  for (const Sample<Element> &sample : samples)
    count += sample.count();
  DecodedTiles<Element> read = readOnDevice(samples, host, count);
  ASSERT_EQ(read.error, ~uint64_t(0));
  for (size_t i = 0; i < samples.size(); ++i)
    for (size_t j = 0; j < samples[i].count(); ++j) {
      uint64_t at = read.begins[i] + j;
      if (!samples[i].dense)
        ASSERT_EQ(read.offsets[at], samples[i].offsets[j]) << i;
      ASSERT_EQ(read.values[at], samples[i].now[j]) << i << " " << j;
    }
}

TYPED_TEST(CoderKernel, SameAsHost) { checkBothWays(mixedTiles<TypeParam>()); }

TYPED_TEST(CoderKernel, WholeTiles) {
  Random random(12);
  std::vector<Sample<TypeParam>> samples;
  for (Steps steps : {Steps::Independent, Steps::RandomBits}) {
    samples.push_back(makeSample<TypeParam>(random, 65536, 1.0, steps));
    samples.push_back(makeDense<TypeParam>(random, 65536, 0.7, steps));
  }
  checkBothWays(samples);
}

TYPED_TEST(CoderKernel, StopsAtCapacity) {
  auto samples = mixedTiles<TypeParam>();
  Section host = codeOnHost(samples), device;
  EXPECT_FALSE(codeOnDevice(samples, host.words.size() - 1, 1, device));
  DecodedTiles<TypeParam> read = readOnDevice(samples, host, 100);
  EXPECT_EQ(read.error % 256, NoSpace);
}

/// Host and device take and refuse the same, whatever they read.
TYPED_TEST(CoderKernel, DamagedLikeHost) {
  Random random(13);
  int refused = 0, taken = 0;
  for (int round = 0; round < 80; ++round) {
    std::vector<Sample<TypeParam>> samples;
    Steps steps = round % 3 ? Steps::Independent : Steps::Trained;
    if (round % 10 == 0)
      steps = Steps::RandomBits;
    samples.push_back(makeSample<TypeParam>(random, 3000, 0.02, steps));
    samples.push_back(makeSample<TypeParam>(random, 65536, 0.0005, steps));
    samples.push_back(makeDense<TypeParam>(random, 100, 0.8, steps));
    Section section = damaged(codeOnHost(samples), random);
    uint64_t capacity = 3000;
    DecodedTiles<TypeParam> host = readOnHost(samples, section, capacity);
    DecodedTiles<TypeParam> device = readOnDevice(samples, section, capacity);
    ASSERT_EQ(device.error, host.error) << round;
    ++(host.error == ~uint64_t(0) ? taken : refused);
    if (host.error != ~uint64_t(0))
      continue;
    ASSERT_EQ(device.begins, host.begins);
    ASSERT_EQ(device.offsets, host.offsets);
    ASSERT_EQ(device.values, host.values);
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(taken, 10);
}

} // namespace
