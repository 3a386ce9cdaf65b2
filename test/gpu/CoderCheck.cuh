//===- CoderCheck.cuh - The coder of a GPU beside the host's ----*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Codes and reads tiles on a GPU and on the host, and compares.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_GPU_CODERCHECK_CUH
#define DELTA_TEST_GPU_CODERCHECK_CUH

#include "CoderSections.h"
#include "CoderShard.cuh"

namespace delta::test {

template <typename Element>
DecodedTiles<Element> readOnDevice(const std::vector<Sample<Element>> &samples,
                                   const Section &section, uint64_t capacity) {
  using Bits = typename Element::Bits;
  using Tile = typename TileOrder<Element>::Tile;
  std::vector<DeviceArray<Bits>> old;
  std::vector<Tile> held;
  for (const Sample<Element> &sample : samples) {
    old.emplace_back(sample.old);
    held.push_back({old.back().get(), sample.numElements, 0});
  }
  DeviceArray<Tile> tiles(held);
  DeviceArray<uint64_t> descriptors(section.descriptors);
  DeviceArray<uint32_t> words(section.words);
  Decoder<Element> decoder(samples.size(), capacity);
  decoder.run({tiles.get()}, descriptors.get(), words.get(),
              section.words.size());
  DecodedTiles<Element> read;
  read.begins = decoder.begins.copy();
  read.offsets = decoder.offsets.copy();
  read.values = decoder.values.copy();
  read.error = decoder.error.copy()[0];
  return read;
}

/// What differs between the words that the device and the host write of
/// `samples`, or between what they read of them; null if nothing does.
template <typename Element>
const char *compareWithHost(const std::vector<Sample<Element>> &samples) {
  const Section host = codeOnHost(samples);
  std::vector<DeviceArray<uint16_t>> offsets;
  std::vector<DeviceArray<typename Element::Bits>> old, now;
  std::vector<device::CoderInput<Element>> inputs;
  uint64_t count = 0;
  for (const Sample<Element> &sample : samples) {
    offsets.emplace_back(sample.offsets);
    old.emplace_back(sample.old);
    now.emplace_back(sample.now);
    inputs.push_back({sample.dense ? nullptr : offsets.back().get(),
                      now.back().get(), old.back().get(), sample.count(),
                      sample.numElements, true});
    count += sample.count();
  }
  Encoder<Element> encoder(inputs, host.words.size());
  encoder.run();
  if (encoder.overflow.copy()[0] ||
      encoder.descriptors.copy() != host.descriptors ||
      encoder.begins.copy() != host.begins ||
      encoder.words.copy() != host.words)
    return "what the device codes differs from the host's";
  // Nobody writes offsets of dense tiles: they are zero on both sides.
  DecodedTiles<Element> read = readOnDevice(samples, host, count);
  DecodedTiles<Element> expected = readOnHost(samples, host, count);
  if (read.error != expected.error || read.begins != expected.begins ||
      read.offsets != expected.offsets || read.values != expected.values)
    return "what the device reads differs from the host's";
  return nullptr;
}

} // namespace delta::test

#endif // DELTA_TEST_GPU_CODERCHECK_CUH
