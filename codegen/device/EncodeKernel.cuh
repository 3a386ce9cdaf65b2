//===- EncodeKernel.cuh - Coding tiles on the device ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Codes the changed tiles of one element type in one launch, to the bytes of
/// HostCoder.h. A plan instantiates it as
///
///   extern "C" __global__ void
///   __launch_bounds__(delta::device::BlockThreads,
///                     delta::device::EncodeBlocks)
///   delta_encode_bf16(
///       const delta::device::EncodeArguments<delta::device::Bf16> arguments) {
///     delta::device::encodeTiles(arguments);
///   }
///
/// A block takes a tile from a counter. A first pass over its elements forms
/// the sums from which the form of the tile follows; the look-back gives the
/// body its place; a second pass writes it, each number where a block scan of
/// the same sums says. A tile of up to RoundElements elements (1.5 % of 65,536)
/// is read once and kept in registers between the passes. Bodies are put
/// together in shared memory; those that do not fit there, in place.
/// Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_ENCODEKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_ENCODEKERNEL_CUH

#include "codegen/device/CoderBlock.cuh"
#include "codegen/device/CoderWriter.h"

namespace delta::device {

/// Pointers are to device memory.
template <typename Element> struct EncodeArguments {
  const CoderInput<Element> *tiles;
  int64_t numTiles;
  unsigned long long *nextTile; ///< zeroed before the launch
  unsigned long long *lookBack; ///< numTiles, zeroed before the launch
  uint64_t *descriptors;        ///< numTiles; 0: the tile has no changes
  uint64_t *begins; ///< numTiles + 1: word of each body, then of all
  uint32_t *words;
  uint64_t capacity;  ///< words that fit
  uint32_t *overflow; ///< set to 1 when they did not; nothing is cut then
};

struct EncodeStorage {
  /// 16 KiB: 14,000 elements at 3 %.
  static constexpr uint32_t BodyWords = 4096;

  uint32_t body[BodyWords];
  uint32_t units[NumThresholds];  ///< unit steps by class of the old value
  uint32_t others[NumThresholds]; ///< other steps
  uint64_t warpSums[WarpsOfBlock];
  CoderSums sums;
  CodedTile tile;
  UnaryParts parts;
  uint32_t bestThreshold; ///< cost and threshold
  int64_t index;
  uint64_t begin;
};
static_assert(NumThresholds == BlockThreads, "a thread has a threshold");

/// Works on one tile; constructed by all threads of a block.
template <typename Element> class TileEncoder {
public:
  using Bits = typename Element::Bits;

  __device__ TileEncoder(EncodeStorage &storage,
                         const EncodeArguments<Element> &arguments,
                         int64_t index)
      : storage(storage), arguments(arguments), index(index),
        input(arguments.tiles[index]) {}

  __device__ void run() {
    if (input.count) {
      clear();
      formSums();
      chooseThreshold();
    }
    if (threadIdx.x < WarpThreads)
      place();
    __syncthreads();
    uint32_t numWords = storage.tile.numWords(sizeof(Bits));
    if (!numWords)
      return;
    uint64_t begin = storage.begin;
    if (begin + numWords > arguments.capacity) {
      if (threadIdx.x == 0)
        *arguments.overflow = 1;
      return;
    }
    uint32_t *out = arguments.words + begin;
    // Two calls, so that the compiler knows what kind of memory it is.
    if (numWords <= EncodeStorage::BodyWords) {
      write(storage.body, numWords);
      __syncthreads();
      for (uint32_t i = threadIdx.x; i < numWords; i += BlockThreads)
        out[i] = storage.body[i];
    } else {
      write(out, numWords);
    }
  }

private:
  __device__ void clear() {
    storage.units[threadIdx.x] = 0;
    storage.others[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
      storage.sums = {};
      storage.bestThreshold = ~0u;
    }
    __syncthreads();
  }

  /// Elements of this thread in the round that begins at `first`.
  __device__ void load(uint32_t first) {
    uint32_t begin = first + threadIdx.x * ThreadElements;
#pragma unroll
    for (uint32_t i = 0; i < ThreadElements; ++i)
      if (begin + i < input.count)
        elements[i] = CodedElement<Element>::of(input, begin + i);
  }

  /// Sums that need no threshold, and the counts by class.
  __device__ void formSums() {
    uint32_t firstLow = firstLowBits(input.count, input.numElements);
    // Three sums of at most 65,535 in one number.
    uint64_t highs = 0;
    uint32_t lengths = 0;
    for (uint32_t first = 0; first < input.count; first += RoundElements) {
      uint32_t begin = first + threadIdx.x * ThreadElements;
      load(first);
#pragma unroll
      for (uint32_t i = 0; i < ThreadElements; ++i) {
        if (begin + i >= input.count)
          break;
        uint32_t high = elements[i].gap >> firstLow;
        highs += uint64_t(high) | uint64_t(high >> 1) << 20 |
                 uint64_t(high >> 2) << 40;
        lengths += elements[i].length();
        bool isUnit = elements[i].step.code == 1;
        atomicAdd((isUnit ? storage.units : storage.others) +
                      elements[i].oldClass,
                  1u);
      }
    }
    highs = warpSum(highs);
    lengths = uint32_t(warpSum(lengths));
    if (laneOf() == 0) {
      for (uint32_t i = 0; i < 3; ++i)
        atomicAdd(storage.sums.highs + i, uint32_t(highs >> 20 * i) & 0xfffff);
      atomicAdd(&storage.sums.lengths, lengths);
    }
    __syncthreads();
  }

  /// Each thread has the cost of one threshold; the least of the cheapest wins.
  __device__ void chooseThreshold() {
    uint64_t total;
    uint64_t below = blockBefore(storage.warpSums,
                                 uint64_t(storage.units[threadIdx.x]) << 32 |
                                     storage.others[threadIdx.x],
                                 total);
    uint32_t unitsBelow = uint32_t(below >> 32);
    uint32_t numOthers = uint32_t(total);
    uint32_t othersAbove = numOthers - uint32_t(below);
    uint32_t key =
        thresholdCost(unitsBelow, othersAbove) * NumThresholds + threadIdx.x;
    uint32_t least = key;
    for (uint32_t step = WarpThreads / 2; step > 0; step /= 2) {
      uint32_t other = __shfl_xor_sync(FullWarp, least, step);
      least = other < least ? other : least;
    }
    if (laneOf() == 0)
      atomicMin(&storage.bestThreshold, least);
    __syncthreads();
    if (key == storage.bestThreshold) {
      storage.sums.threshold = threadIdx.x;
      storage.sums.numExceptions = othersAbove;
      storage.sums.numListed = unitsBelow + numOthers;
    }
    __syncthreads();
  }

  /// One warp decides on the form and finds the place of the body.
  __device__ void place() {
    CodedTile tile = {};
    UnaryParts parts = {};
    if (input.count) {
      const CoderSums &sums = storage.sums;
      uint32_t firstLow = firstLowBits(input.count, input.numElements);
      tile = planTile(input.count, input.numElements, !input.offsets,
                      sizeof(Bits), sums);
      uint32_t highs = tile.dense ? 0 : sums.highs[tile.lowBits - firstLow];
      parts = UnaryParts::of(tile, highs, sums.numListed, sums.lengths);
    }
    uint32_t numWords = tile.numWords(sizeof(Bits));
    uint64_t begin = sumOfTilesBefore(arguments.lookBack, index, numWords);
    if (threadIdx.x != 0)
      return;
    storage.tile = tile;
    storage.parts = parts;
    storage.begin = begin;
    arguments.descriptors[index] = tile.descriptor();
    arguments.begins[index] = begin;
    if (index + 1 == arguments.numTiles)
      arguments.begins[index + 1] = begin + numWords;
  }

  __device__ void write(uint32_t *words, uint32_t numWords) {
    for (uint32_t i = threadIdx.x; i < numWords; i += BlockThreads)
      words[i] = 0;
    __syncthreads();
    const CodedTile &tile = storage.tile;
    BlockSink sink = {words};
    if (tile.steps && threadIdx.x == 0)
      sink(tile.fixedBits(), storage.sums.threshold, ThresholdBits);
    if (tile.steps || !tile.dense)
      writeElements(sink);
    if (!tile.steps)
      writeValues(sink);
  }

  __device__ void writeElements(const BlockSink &sink) {
    const CodedTile &tile = storage.tile;
    uint32_t threshold = storage.sums.threshold;
    CoderPlace before = {};
    for (uint32_t first = 0; first < input.count; first += RoundElements) {
      uint32_t begin = first + threadIdx.x * ThreadElements;
      if (input.count > RoundElements)
        load(first); // else they are what formSums left
      CoderPlace own = {};
#pragma unroll
      for (uint32_t i = 0; i < ThreadElements; ++i)
        if (begin + i < input.count)
          elements[i].addTo(own, tile, threshold);
      uint64_t total;
      CoderPlace at =
          sum(before, unpack(blockBefore(storage.warpSums, pack(own), total)));
#pragma unroll
      for (uint32_t i = 0; i < ThreadElements; ++i)
        if (begin + i < input.count) {
          writeElement(sink, tile, storage.parts, threshold, begin + i,
                       elements[i], at);
          elements[i].addTo(at, tile, threshold);
        }
      before = sum(before, unpack(total));
    }
  }

  /// The sums of a round in one number: highs are below 2^16, lengths at most
  /// RoundElements * 63, the others RoundElements.
  __device__ static uint64_t pack(const CoderPlace &place) {
    return uint64_t(place.highs) | uint64_t(place.lengths) << 20 |
           uint64_t(place.exceptions) << 40 | uint64_t(place.listed) << 52;
  }
  __device__ static CoderPlace unpack(uint64_t sums) {
    return {uint32_t(sums & 0xfffff), uint32_t(sums >> 40 & 0xfff),
            uint32_t(sums >> 52), uint32_t(sums >> 20 & 0xfffff)};
  }
  __device__ static CoderPlace sum(const CoderPlace &a, const CoderPlace &b) {
    return {a.highs + b.highs, a.exceptions + b.exceptions, a.listed + b.listed,
            a.lengths + b.lengths};
  }

  /// Values are in units of their size, or of a word. Where the first unit is
  /// in a word of bits, that word has several writers.
  __device__ void writeValues(const BlockSink &sink) const {
    const CodedTile &tile = storage.tile;
    uint32_t begin = tile.valuesBeginBit(sizeof(Bits));
    uint16_t *halves = reinterpret_cast<uint16_t *>(sink.words);
    uint32_t *words = sink.words + begin / 32;
    for (uint32_t i = threadIdx.x; i < input.count; i += BlockThreads) {
      uint64_t value = input.now[i];
      if (sizeof(Bits) == 2 && tile.dense) {
        halves[i] = uint16_t(value);
      } else if (sizeof(Bits) == 2) {
        sink(begin + i * 16, value, 16);
      } else if (sizeof(Bits) == 4) {
        words[i] = uint32_t(value);
      } else {
        words[2 * i] = uint32_t(value);
        words[2 * i + 1] = uint32_t(value >> 32);
      }
    }
  }

  EncodeStorage &storage;
  const EncodeArguments<Element> &arguments;
  const int64_t index;
  const CoderInput<Element> &input; ///< in global memory: registers are few
  CodedElement<Element> elements[ThreadElements];
};

/// Body of the kernel: takes tiles until there are none.
template <typename Element>
__device__ inline void encodeTiles(const EncodeArguments<Element> &arguments) {
  __shared__ EncodeStorage storage;
  for (int64_t index; (index = nextTileOf(arguments.nextTile, storage.index)) <
                      arguments.numTiles;)
    TileEncoder<Element>(storage, arguments, index).run();
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_ENCODEKERNEL_CUH
