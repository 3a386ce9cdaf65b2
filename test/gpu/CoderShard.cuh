//===- CoderShard.cuh - A shard to code, on a GPU ---------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Device memory, the coder's launches and their times, and generated shards. A
/// CUDA call that fails ends the program.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_GPU_CODERSHARD_CUH
#define DELTA_TEST_GPU_CODERSHARD_CUH

#include "CoderSamples.h"
#include "codegen/device/DecodeKernel.cuh"
#include "codegen/device/EncodeKernel.cuh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace delta::test {

inline void check(cudaError_t error) {
  if (error == cudaSuccess)
    return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

/// Owned device memory.
template <typename T> class DeviceArray {
public:
  explicit DeviceArray(uint64_t size) : count(size) {
    check(cudaMalloc(&data, std::max<uint64_t>(size, 1) * sizeof(T)));
    clear();
  }
  explicit DeviceArray(const std::vector<T> &from) : DeviceArray(from.size()) {
    check(cudaMemcpy(data, from.data(), count * sizeof(T),
                     cudaMemcpyHostToDevice));
  }
  DeviceArray(DeviceArray &&other) noexcept
      : data(other.data), count(other.count) {
    other.data = nullptr;
  }
  DeviceArray &operator=(DeviceArray &&other) noexcept {
    std::swap(data, other.data);
    std::swap(count, other.count);
    return *this;
  }
  ~DeviceArray() { cudaFree(data); }

  void clear(int byte = 0) {
    check(cudaMemsetAsync(data, byte, count * sizeof(T)));
  }
  std::vector<T> copy() const {
    std::vector<T> out(count);
    check(cudaMemcpy(out.data(), data, count * sizeof(T),
                     cudaMemcpyDeviceToHost));
    return out;
  }
  T *get() const { return data; }
  uint64_t size() const { return count; }

private:
  T *data = nullptr;
  uint64_t count;
};

/// Median milliseconds of some rounds, after one that does not count.
template <typename Body> float medianTime(int rounds, const Body &body) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> times;
  for (int round = 0; round <= rounds; ++round) {
    check(cudaEventRecord(begin));
    body();
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    float time = 0;
    check(cudaEventElapsedTime(&time, begin, end));
    if (round > 0)
      times.push_back(time);
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

template <typename Element>
__global__ void __launch_bounds__(device::BlockThreads, device::EncodeBlocks)
    encodeKernel(const device::EncodeArguments<Element> arguments) {
  device::encodeTiles(arguments);
}

template <typename Element> using TileOrder = device::HeldInTileOrder<Element>;

template <typename Element>
__global__ void __launch_bounds__(device::BlockThreads, device::DecodeBlocks)
    decodeKernel(
        const device::DecodeArguments<Element, TileOrder<Element>> arguments) {
  device::decodeTiles(arguments);
}

/// As many blocks as fit on the device at once, but no more than tiles.
template <typename Kernel> uint32_t numBlocksOf(Kernel kernel, int64_t tiles) {
  int perProcessor = 0, numProcessors = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perProcessor, kernel,
                                                      device::BlockThreads, 0));
  check(cudaDeviceGetAttribute(&numProcessors, cudaDevAttrMultiProcessorCount,
                               0));
  return uint32_t(
      std::min<int64_t>(tiles, int64_t(perProcessor) * numProcessors));
}

/// Buffers and launch of the encoder; `run` clears what has to be.
template <typename Element> struct Encoder {
  DeviceArray<device::CoderInput<Element>> inputs;
  DeviceArray<unsigned long long> counter, lookBack;
  DeviceArray<uint64_t> descriptors, begins;
  DeviceArray<uint32_t> words, overflow;

  Encoder(const std::vector<device::CoderInput<Element>> &from,
          uint64_t capacity)
      : inputs(from), counter(1), lookBack(from.size()),
        descriptors(from.size()), begins(from.size() + 1), words(capacity),
        overflow(1) {}

  void run() {
    counter.clear();
    lookBack.clear();
    overflow.clear();
    int64_t numTiles = int64_t(inputs.size());
    device::EncodeArguments<Element> arguments = {
        inputs.get(),   numTiles,          counter.get(),
        lookBack.get(), descriptors.get(), begins.get(),
        words.get(),    words.size(),      overflow.get()};
    encodeKernel<Element><<<numBlocksOf(encodeKernel<Element>, numTiles),
                            device::BlockThreads>>>(arguments);
    check(cudaGetLastError());
  }
};

/// Buffers and launch of the decoder.
template <typename Element> struct Decoder {
  DeviceArray<unsigned long long> counter, lookBack, error;
  DeviceArray<uint64_t> begins;
  DeviceArray<uint16_t> offsets;
  DeviceArray<typename Element::Bits> values;

  Decoder(uint64_t numTiles, uint64_t capacity)
      : counter(1), lookBack(2 * numTiles), error(1), begins(numTiles),
        offsets(capacity), values(capacity) {}

  void run(const TileOrder<Element> &held, const uint64_t *descriptors,
           const uint32_t *words, uint64_t numWords) {
    counter.clear();
    lookBack.clear();
    error.clear(0xff);
    int64_t numTiles = int64_t(begins.size());
    device::DecodeArguments<Element, TileOrder<Element>> arguments = {
        held,          descriptors,   numTiles,       words,
        numWords,      counter.get(), lookBack.get(), begins.get(),
        offsets.get(), values.get(),  offsets.size(), error.get()};
    decodeKernel<Element><<<numBlocksOf(decodeKernel<Element>, numTiles),
                            device::BlockThreads>>>(arguments);
    check(cudaGetLastError());
  }
};

/// What is needed to generate an element: changed ones come from a list of
/// pairs of the samples' kind.
struct ShardSource {
  const uint16_t *pairs; ///< old, new
  uint32_t numPairs;
  uint32_t threshold; ///< of 2^32: the share that changes

  __device__ bool isChanged(uint64_t element) const {
    return uint32_t(device::mix(element * 2)) < threshold;
  }
  __device__ const uint16_t *pairOf(uint64_t element) const {
    return pairs + 2 * (device::mix(element * 2 + 1) % numPairs);
  }
};

constexpr uint32_t TileElements = 65536;

/// Old values of all elements, and the number of changes of each tile.
__global__ void fillOld(ShardSource source, uint16_t *old, uint32_t *counts) {
  uint64_t first = uint64_t(blockIdx.x) * TileElements;
  for (uint32_t i = threadIdx.x; i < TileElements; i += blockDim.x) {
    // What does not change is never looked at; bits of any kind will do.
    bool changed = source.isChanged(first + i);
    old[first + i] =
        changed ? source.pairOf(first + i)[0] : uint16_t(device::mix(i));
    if (changed)
      atomicAdd(counts + blockIdx.x, 1u);
  }
}

/// Lists the changes of a tile, in order: one warp a tile.
__global__ void listChanges(ShardSource source, const uint64_t *begins,
                            uint16_t *offsets, uint16_t *now) {
  uint64_t first = uint64_t(blockIdx.x) * TileElements;
  uint64_t at = begins[blockIdx.x];
  for (uint32_t i = threadIdx.x; i < TileElements; i += 32) {
    bool changed = source.isChanged(first + i);
    uint32_t ballot = __ballot_sync(0xffffffffu, changed);
    if (changed) {
      uint64_t own = at + __popc(ballot & ((1u << threadIdx.x) - 1));
      offsets[own] = uint16_t(i);
      now[own] = source.pairOf(first + i)[1];
    }
    at += __popc(ballot);
  }
}

template <typename T>
__global__ void countDifferent(const T *a, const T *b, uint64_t count,
                               unsigned long long *out) {
  uint64_t stride = uint64_t(gridDim.x) * blockDim.x;
  for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride)
    if (a[i] != b[i])
      atomicAdd(out, 1ull);
}

/// Tiles of bf16 on the device, with Bernoulli(share) changes.
struct CoderShard {
  using Input = device::CoderInput<device::Bf16>;

  DeviceArray<uint16_t> old;
  uint64_t numChanged = 0;
  std::vector<Input> inputs;
  DeviceArray<TileOrder<device::Bf16>::Tile> held;

  CoderShard(int64_t numTiles, double share, Steps steps)
      : old(uint64_t(numTiles) * TileElements), held(numTiles), offsets(0),
        now(0) {
    Random random(41);
    auto sample = makeSample<device::Bf16>(random, 65536, 1.0, steps);
    std::vector<uint16_t> list;
    for (uint32_t i = 0; i < sample.count(); ++i) {
      list.push_back(sample.old[i]);
      list.push_back(sample.now[i]);
    }
    DeviceArray<uint16_t> pairs(list);
    ShardSource source = {pairs.get(), sample.count(),
                          uint32_t(share * 4294967296.0)};
    DeviceArray<uint32_t> counts(numTiles);
    fillOld<<<uint32_t(numTiles), 256>>>(source, old.get(), counts.get());
    std::vector<uint64_t> begins;
    std::vector<uint32_t> number = counts.copy();
    for (uint32_t count : number) {
      begins.push_back(numChanged);
      numChanged += count;
    }
    DeviceArray<uint64_t> places(begins);
    offsets = DeviceArray<uint16_t>(numChanged);
    now = DeviceArray<uint16_t>(numChanged);
    listChanges<<<uint32_t(numTiles), 32>>>(source, places.get(), offsets.get(),
                                            now.get());
    check(cudaDeviceSynchronize());
    std::vector<TileOrder<device::Bf16>::Tile> tiles;
    for (int64_t i = 0; i < numTiles; ++i) {
      const uint16_t *values = old.get() + i * TileElements;
      inputs.push_back({offsets.get() + begins[i], now.get() + begins[i],
                        values, number[i], TileElements, true});
      tiles.push_back({values, TileElements, 0});
    }
    held = DeviceArray<TileOrder<device::Bf16>::Tile>(tiles);
  }

  bool isCodedAsByHost(int64_t tile, uint64_t descriptor,
                       const uint32_t *words) const {
    Input input = inputs[tile];
    std::vector<uint16_t> tileOffsets(input.count), values(input.count),
        before(TileElements);
    auto fetch = [](auto &to, const void *from) {
      check(cudaMemcpy(to.data(), from, to.size() * sizeof(to[0]),
                       cudaMemcpyDeviceToHost));
    };
    fetch(tileOffsets, input.offsets);
    fetch(values, input.now);
    fetch(before, input.old);
    input.offsets = tileOffsets.data();
    input.now = values.data();
    input.old = before.data();
    std::vector<uint32_t> expected(
        device::maxCodedWords<device::Bf16>(input.count, false));
    if (device::HostEncoder<device::Bf16>::encode(input, expected.data()) !=
        descriptor)
      return false;
    expected.resize(device::CodedTile::of(descriptor).numWords(2));
    std::vector<uint32_t> found(expected.size());
    fetch(found, words);
    return found == expected;
  }

  /// Elements that are not as they were before they were coded.
  uint64_t numDifferent(const DeviceArray<uint16_t> &readOffsets,
                        const DeviceArray<uint16_t> &readValues) const {
    DeviceArray<unsigned long long> different(1);
    countDifferent<<<1024, 256>>>(offsets.get(), readOffsets.get(), numChanged,
                                  different.get());
    countDifferent<<<1024, 256>>>(now.get(), readValues.get(), numChanged,
                                  different.get());
    return different.copy()[0];
  }

private:
  DeviceArray<uint16_t> offsets, now;
};

} // namespace delta::test

#endif // DELTA_TEST_GPU_CODERSHARD_CUH
