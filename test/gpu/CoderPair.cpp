//===- CoderPair.cpp - What the coder makes of two files ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares two files of bf16 bits, codes the changes with the host's coder,
/// reads them back, and prints one line of JSON; adamw_deltas.py calls it. Made
/// by nvcc it codes and reads on the GPU too, word for word the same.
///
///   c++ -std=c++17 -O2 -I . -I test/unit/coder -o coder-pair
///       test/gpu/CoderPair.cpp
///   nvcc -x cu -std=c++17 -O2 -arch=sm_90 -I . -I test/unit/coder
///        -o coder-pair test/gpu/CoderPair.cpp
///   ./coder-pair OLD NEW
///
/// Exit code 1: a file cannot be read, sizes differ, what was read back is not
/// what was coded, or the GPU differs from the host.
///
//===----------------------------------------------------------------------===//

#ifdef __CUDACC__
#include "CoderCheck.cuh"
#endif
#include "CoderSamples.h"
#include "codegen/device/HostCoder.h"
#include "codegen/device/PackFormat.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using namespace delta::device;

namespace {

using Values = std::vector<uint16_t>;
using Changes = delta::test::Sample<Bf16>;

bool readFile(const char *path, Values &out) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  if (!file || bytes.size() % 2) {
    std::fprintf(stderr, "%s: cannot be read as 16-bit numbers\n", path);
    return false;
  }
  out.resize(bytes.size() / 2);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char *>(out.data()));
  return true;
}

struct Totals {
  uint64_t elements = 0, changed = 0, unitSteps = 0, signFlips = 0, dense = 0;
  double codedBytes = 0, rawBytes = 0, encodeSeconds = 0, decodeSeconds = 0;
};

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The changes of a tile, and what they are like.
Changes makeTile(const uint16_t *old, const uint16_t *fresh,
                 uint32_t numElements, Totals &totals) {
  Changes tile = {numElements, /*dense=*/false, {}, {}, {}};
  tile.old.assign(old, old + numElements);
  for (uint32_t i = 0; i < numElements; ++i) {
    if (old[i] == fresh[i])
      continue;
    tile.offsets.push_back(uint16_t(i));
    tile.now.push_back(fresh[i]);
    totals.unitSteps += Step<Bf16>::between(old[i], fresh[i], false).code == 1;
    totals.signFlips += (old[i] ^ fresh[i]) >> 15;
  }
  totals.elements += numElements;
  totals.changed += tile.offsets.size();
  tile.dense = isDense(tile.count(), numElements);
  if (tile.dense) {
    tile.now.assign(fresh, fresh + numElements);
    tile.offsets.clear();
  }
  return tile;
}

/// Codes one tile; false if it does not come back.
bool addTile(const Changes &tile, Totals &totals) {
  totals.codedBytes += 0.125;
  totals.rawBytes += 0.125;
  if (tile.now.empty())
    return true;
  std::vector<uint32_t> words(maxCodedWords<Bf16>(tile.count(), tile.dense));
  double begin = now();
  uint64_t descriptor = HostEncoder<Bf16>::encode(tile.input(), words.data());
  double middle = now();
  uint32_t numWords = CodedTile::of(descriptor).numWords(2);
  Values readOffsets(tile.offsets.size()), readValues(tile.count());
  CoderError error = HostDecoder<Bf16>::decode(
      descriptor, words.data(), numWords, tile.numElements,
      [&](uint32_t, uint32_t offset) { return tile.old[offset]; },
      readOffsets.data(), readValues.data());
  totals.encodeSeconds += middle - begin;
  totals.decodeSeconds += now() - middle;
  totals.codedBytes += 8.0 + numWords * 4.0;
  totals.rawBytes += 2.0 + double(tile.rawBytes());
  totals.dense += tile.dense;
  return !error && readValues == tile.now && readOffsets == tile.offsets;
}

/// What coded beside the host; empty if the two differ, which is said.
std::string codeOnDevice([[maybe_unused]] const std::vector<Changes> &tiles) {
#ifdef __CUDACC__
  cudaDeviceProp device;
  delta::test::check(cudaGetDeviceProperties(&device, 0));
  if (const char *wrong = delta::test::compareWithHost(tiles)) {
    std::fprintf(stderr, "%s: %s\n", device.name, wrong);
    return {};
  }
  return device.name;
#else
  return "none";
#endif
}

} // namespace

int main(int argc, char **argv) {
  Values old, fresh;
  if (argc != 3) {
    std::fprintf(stderr, "usage: coder-pair OLD NEW\n");
    return 2;
  }
  if (!readFile(argv[1], old) || !readFile(argv[2], fresh))
    return 1;
  if (old.size() != fresh.size()) {
    std::fprintf(stderr, "the files have %zu and %zu elements\n", old.size(),
                 fresh.size());
    return 1;
  }
  if (old.empty()) {
    std::fprintf(stderr, "the files are empty: an element is required\n");
    return 1;
  }
  Totals totals;
  std::vector<Changes> tiles;
  for (size_t at = 0; at < old.size(); at += DELTA_MAX_TILE) {
    size_t size = std::min<size_t>(DELTA_MAX_TILE, old.size() - at);
    tiles.push_back(makeTile(&old[at], &fresh[at], uint32_t(size), totals));
    if (!addTile(tiles.back(), totals)) {
      std::fprintf(stderr, "the tile at element %zu does not come back\n", at);
      return 1;
    }
  }
  const std::string device = codeOnDevice(tiles);
  if (device.empty())
    return 1;
  double changed = double(std::max<uint64_t>(totals.changed, 1));
  std::printf("{\"device\": \"%s\", \"elements\": %llu, \"changed\": %llu, "
              "\"unit_steps\": %.4f, "
              "\"sign_flips\": %.5f, \"dense_tiles\": %llu, "
              "\"bytes\": %.4f, \"raw_bytes\": %.4f, "
              "\"encode_ns\": %.2f, \"decode_ns\": %.2f}\n",
              device.c_str(), (unsigned long long)(totals.elements),
              (unsigned long long)(totals.changed),
              double(totals.unitSteps) / changed,
              double(totals.signFlips) / changed,
              (unsigned long long)(totals.dense), totals.codedBytes / changed,
              totals.rawBytes / changed, totals.encodeSeconds * 1e9 / changed,
              totals.decodeSeconds * 1e9 / changed);
  return 0;
}
