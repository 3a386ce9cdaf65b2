//===- CoderBench.cu - The coder on a GPU: checked, then timed ------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Codes and reads tiles of all types and forms, and damaged ones, on the GPU
/// and on the host: every word, element and error must be the same. Then times
/// a shard of bf16, by default 10.33 GB, at several shares of changes. From the
/// root of the repository:
///
///   nvcc -std=c++17 -O3 -arch=sm_90 -I . -I test/unit/coder -o coder-bench
///        test/gpu/CoderBench.cu test/unit/coder/CoderSamples.cpp
///   ./coder-bench [--tiles 78811] [--rounds 9] [--damaged 300]
///
/// Exit code 1: something differs; the line says what.
///
//===----------------------------------------------------------------------===//

#include "CoderCheck.cuh"
#include "CoderShard.cuh"
#include "test/gpu/Bench.cuh"

#include <cstring>

using namespace delta::device;
using namespace delta::test;

namespace {

/// True if host and device agree about tiles of all forms.
template <typename Element> bool checkTiles(const char *name) {
  auto samples = mixedTiles<Element>();
  Random random(31);
  samples.push_back(makeSample<Element>(random, 65536, 1.0, Steps::RandomBits));
  samples.push_back(makeDense<Element>(random, 65536, 0.7, Steps::Independent));
  if (const char *wrong = compareWithHost(samples)) {
    std::printf("%s: %s\n", name, wrong);
    return false;
  }
  std::printf("%s: %zu tiles: the same as the host\n", name, samples.size());
  return true;
}

/// True if host and device take and refuse the same damaged sections.
template <typename Element> bool checkDamaged(const char *name, int rounds) {
  Random random(32);
  int numRefused = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Sample<Element>> samples;
    Steps steps = round % 3 ? Steps::Independent : Steps::Trained;
    samples.push_back(makeSample<Element>(random, 3000, 0.02, steps));
    samples.push_back(makeSample<Element>(random, 65536, 0.0005, steps));
    samples.push_back(makeDense<Element>(random, 100, 0.8, steps));
    Section section = damaged(codeOnHost(samples), random);
    DecodedTiles<Element> host = readOnHost(samples, section, 3000);
    DecodedTiles<Element> device = readOnDevice(samples, section, 3000);
    bool refused = host.error != ~uint64_t(0);
    numRefused += refused;
    if (device.error != host.error ||
        (!refused &&
         (device.values != host.values || device.offsets != host.offsets))) {
      std::printf("%s: damaged section %d: device %llx, host %llx\n", name,
                  round, (unsigned long long)(device.error),
                  (unsigned long long)(host.error));
      return false;
    }
  }
  std::printf("%s: %d damaged sections, %d refused, as by the host\n", name,
              rounds, numRefused);
  return true;
}

/// Codes a generated shard, checks it, prints a row.
bool measure(int64_t numTiles, double share, Steps steps, int rounds) {
  CoderShard shard(numTiles, share, steps);
  Encoder<Bf16> encoder(shard.inputs, shard.numChanged + 4 * numTiles);
  float encodeTime = medianTime(rounds, [&] { encoder.run(); });
  if (encoder.overflow.copy()[0]) {
    std::printf("the words did not fit\n");
    return false;
  }
  std::vector<uint64_t> descriptors = encoder.descriptors.copy();
  std::vector<uint64_t> begins = encoder.begins.copy();
  uint64_t numWords = begins[numTiles];
  for (int64_t tile = 0; tile < numTiles; tile += numTiles / 97 + 1)
    if (!shard.isCodedAsByHost(tile, descriptors[tile],
                               encoder.words.get() + begins[tile])) {
      std::printf("tile %lld differs from the host's\n", (long long)(tile));
      return false;
    }

  Decoder<Bf16> decoder(numTiles, shard.numChanged);
  float decodeTime = medianTime(rounds, [&] {
    decoder.run({shard.held.get()}, encoder.descriptors.get(),
                encoder.words.get(), numWords);
  });
  uint64_t numWrong = shard.numDifferent(decoder.offsets, decoder.values);
  if (decoder.error.copy()[0] != ~0ull || numWrong) {
    std::printf("error %llx, %llu elements differ after reading\n",
                decoder.error.copy()[0], (unsigned long long)(numWrong));
    return false;
  }
  uint64_t numPresent = 0;
  for (uint64_t descriptor : descriptors)
    numPresent += descriptor != 0;
  double count = double(shard.numChanged);
  double bytes =
      double(numWords) * 4 + double(numPresent) * 8 + double(numTiles) / 8;
  double raw = count * 4 + double(numPresent) * 2 + double(numTiles) / 8;
  double shardBytes = double(numTiles) * 65536 * 2;
  std::printf("%6.2f %%  %-11s %11.0f  %6.3f  %6.3f  %8.3f  %7.0f  %8.3f  "
              "%7.0f\n",
              share * 100,
              steps == Steps::Trained       ? "trained"
              : steps == Steps::Independent ? "independent"
                                            : "random",
              count, bytes / count, raw / count, encodeTime,
              shardBytes / encodeTime / 1e6, decodeTime,
              shardBytes / decodeTime / 1e6);
  return true;
}

/// Rate of a copy of weights, read and write counted.
double copyRate(int rounds) {
  DeviceArray<uint16_t> from(uint64_t(1) << 30), to(uint64_t(1) << 30);
  const uint64_t numBytes = from.size() * sizeof(uint16_t);
  fillWeights<<<1024, 256>>>(from.get(), int64_t(from.size()), /*seed=*/1);
  float time = medianTime(rounds, [&] {
    check(cudaMemcpyAsync(to.get(), from.get(), numBytes,
                          cudaMemcpyDeviceToDevice));
  });
  return 2.0 * double(numBytes) / time / 1e6;
}

long option(int argc, char **argv, const char *name, long otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], name) == 0)
      return std::atol(argv[i + 1]);
  return otherwise;
}

} // namespace

int main(int argc, char **argv) {
  int64_t numTiles = option(argc, argv, "--tiles", 78811);
  int rounds = int(option(argc, argv, "--rounds", 9));
  int numDamaged = int(option(argc, argv, "--damaged", 300));
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0));
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  std::printf("%s, driver %d, CUDA %d\n", device.name, driver, runtime);

  bool good = checkTiles<Bf16>("bf16") && checkTiles<Fp16>("fp16") &&
              checkTiles<Fp32>("fp32") && checkTiles<Int64>("int64") &&
              checkDamaged<Bf16>("bf16", numDamaged) &&
              checkDamaged<Fp32>("fp32", numDamaged) &&
              checkDamaged<Int64>("int64", numDamaged);
  if (!good)
    return 1;

  std::printf(
      "\nbf16, %lld tiles of 65,536 elements (%.2f GB); copy %.0f GB/s; "
      "medians of %d\n",
      (long long)(numTiles), double(numTiles) * 131072 / 1e9, copyRate(rounds),
      rounds);
  std::printf("changed    steps           elements  bytes     raw   encode   "
              "GB/s of   decode  GB/s of\n"
              "                                     an elem.         ms       "
              "shard     ms      shard\n");
  for (Steps steps : {Steps::Trained, Steps::Independent, Steps::RandomBits})
    for (double share : {0.0003, 0.01, 0.03})
      if (!measure(numTiles, share, steps, rounds))
        return 1;
  return 0;
}
