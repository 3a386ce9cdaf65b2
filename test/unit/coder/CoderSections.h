//===- CoderSections.h - Coded tiles behind each other ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What the host writes and reads of several tiles, to compare the device with:
/// in the emulator and on a GPU.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_CODER_CODERSECTIONS_H
#define DELTA_TEST_UNIT_CODER_CODERSECTIONS_H

#include "CoderSamples.h"

namespace delta::test {

/// What a reader receives.
struct Section {
  std::vector<uint64_t> descriptors, begins;
  std::vector<uint32_t> words;
};

/// The host's section.
template <typename Element>
Section codeOnHost(const std::vector<Sample<Element>> &samples) {
  Section section;
  for (const Sample<Element> &sample : samples) {
    Coded coded = encode(sample);
    section.begins.push_back(section.words.size());
    section.descriptors.push_back(coded.descriptor);
    section.words.insert(section.words.end(), coded.words.begin(),
                         coded.words.end());
  }
  section.begins.push_back(section.words.size());
  return section;
}

/// What came out of a section.
template <typename Element> struct DecodedTiles {
  std::vector<uint64_t> begins;
  std::vector<uint16_t> offsets;
  std::vector<typename Element::Bits> values;
  uint64_t error; ///< number of the tile * 256 + CoderError, or ~0
};

/// Reads with the host's reader, which stops at the first error.
template <typename Element>
DecodedTiles<Element> readOnHost(const std::vector<Sample<Element>> &samples,
                                 const Section &section, uint64_t capacity) {
  DecodedTiles<Element> read;
  read.offsets.resize(capacity);
  read.values.resize(capacity);
  read.error = ~uint64_t(0);
  uint64_t word = 0, element = 0, numWords = section.words.size();
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample<Element> &sample = samples[i];
    uint64_t descriptor = section.descriptors[i];
    read.begins.push_back(element);
    device::CoderError error = device::CoderOk;
    if (!device::CodedTile::isValid(descriptor, sample.numElements))
      error = device::BadDescriptor;
    device::CodedTile tile = device::CodedTile::of(descriptor);
    uint32_t own = tile.numWords(sizeof(typename Element::Bits));
    bool isLast = i + 1 == samples.size();
    if (!error && (own > numWords - word || (isLast && word + own != numWords)))
      error = device::BadSize;
    if (!error && element + tile.count > capacity)
      error = device::NoSpace;
    if (!error)
      error = device::HostDecoder<Element>::decode(
          descriptor, section.words.data() + word, numWords - word,
          sample.numElements,
          [&](uint32_t, uint32_t offset) { return sample.old.at(offset); },
          read.offsets.data() + element, read.values.data() + element);
    if (error) {
      read.error = i * 256 + error;
      return read;
    }
    word += own;
    element += tile.count;
  }
  return read;
}

/// Tiles of all forms and sizes, absent ones among them.
template <typename Element> std::vector<Sample<Element>> mixedTiles() {
  Random random(11);
  std::vector<Sample<Element>> samples;
  for (Steps steps : {Steps::Trained, Steps::Independent, Steps::RandomBits}) {
    for (double share : {0.0003, 0.01, 0.04})
      samples.push_back(makeSample<Element>(random, 65536, share, steps));
    samples.push_back(makeSample<Element>(random, 500, 0.0, steps));
    samples.push_back(makeSample<Element>(random, 4097, 0.4, steps));
    for (uint16_t count : {1, 33, 256, 1024, 1025, 2049}) {
      std::vector<uint16_t> offsets;
      for (uint16_t i = 0; i < count; ++i)
        offsets.push_back(uint16_t(i * 17 + 5));
      samples.push_back(makeSample<Element>(random, 65536, offsets, steps));
    }
    samples.push_back(makeDense<Element>(random, 1, 1, steps));
    samples.push_back(makeDense<Element>(random, 1233, 0.6, steps));
  }
  return samples;
}

/// Bits are flipped, words cut off or put behind.
inline Section damaged(const Section &from, Random &random) {
  Section section = from;
  switch (random() % 8) {
  case 0:
    section.words.resize(random() % (from.words.size() + 1));
    break;
  case 1:
    section.words.push_back(uint32_t(random()));
    break;
  case 2:
    section.words[random() % section.words.size()] = uint32_t(random());
    break;
  case 3:
  case 4:
    section.descriptors[random() % section.descriptors.size()] ^=
        uint64_t(1) << random() % 64;
    break;
  default:
    section.words[random() % section.words.size()] ^= 1u << random() % 32;
  }
  section.words.shrink_to_fit();
  return section;
}

} // namespace delta::test

#endif // DELTA_TEST_UNIT_CODER_CODERSECTIONS_H
