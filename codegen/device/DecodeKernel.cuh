//===- DecodeKernel.cuh - Reading coded tiles on the device -----*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the coded tiles of one element type in one launch; a counterpart of
/// EncodeKernel.cuh. Descriptors and words came over a wire: every place is
/// checked before it is read or written, and what is refused says so.
///
/// A block takes a tile from a counter; the look-back gives the place of its
/// body and of its elements. Then
///
///   1. gaps: the rank of each one in the unary part, by a scan of popcounts,
///      is an element, the zeros before it are the sum of high bits
///   2. offsets: plus a scan of the low bits
///   3. values: a unit step from what the reader holds; a mask of those whose
///      old value is below the threshold
///   4. exceptions, from the ranks of ones, join the mask
///   5. magnitudes: the rank of a one is that of an element in the mask
///
/// Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_DECODEKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_DECODEKERNEL_CUH

#include "codegen/device/CoderBlock.cuh"

namespace delta::device {

/// What a reader holds of each tile, in tile order. A reader whose elements lie
/// elsewhere has a type of its own with the same two functions.
template <typename Element> struct HeldInTileOrder {
  struct Tile {
    const typename Element::Bits *values;
    uint32_t numElements;
    uint32_t reserved;
  };
  const Tile *tiles;

  __device__ uint32_t numElements(int64_t tile) const {
    return tiles[tile].numElements;
  }
  __device__ typename Element::Bits value(int64_t tile, uint32_t offset) const {
    return tiles[tile].values[offset];
  }
};

/// Pointers are to device memory.
template <typename Element, typename Held> struct DecodeArguments {
  Held held;
  const uint64_t *descriptors; ///< numTiles
  int64_t numTiles;
  const uint32_t *words;
  uint64_t numWords;
  unsigned long long *nextTile; ///< zeroed before the launch
  unsigned long long *lookBack; ///< 2 * numTiles, zeroed before the launch
  uint64_t *begins;             ///< numTiles: element at which a tile begins
  uint16_t *offsets;            ///< of a dense tile: not written
  typename Element::Bits *values;
  uint64_t capacity; ///< elements that fit in offsets and values
  /// All ones before the launch; after it so, or of the first tile that was
  /// refused the number * 256 + CoderError. Then nothing may be used.
  unsigned long long *error;
};

struct DecodeStorage {
  /// Tiles of so many elements keep their offsets here, others where they go.
  static constexpr uint32_t MaxKept = 2048;

  uint16_t places[MaxKept];
  uint32_t listed[DELTA_MAX_TILE / 32]; ///< a bit an element: has a magnitude
  uint32_t threadBegin[BlockThreads];   ///< listed before a thread's words
  uint32_t warpSums[WarpsOfBlock];
  uint32_t gapsEnd;
  int64_t tile;
  uint64_t wordsBefore;
  uint64_t elementsBefore;
};

/// Works on one tile; constructed by all threads of a block.
template <typename Element, typename Held> class TileDecoder {
public:
  using Bits = typename Element::Bits;
  using Code = typename CoderTraits<Element>::Code;
  using Arguments = DecodeArguments<Element, Held>;

  __device__ TileDecoder(DecodeStorage &storage, const Arguments &arguments,
                         int64_t index)
      : storage(storage), arguments(arguments), index(index),
        numElements(arguments.held.numElements(index)) {}

  __device__ void run() {
    CoderError error = open();
    if (!error && tile.count)
      error = read();
    if (error && threadIdx.x == 0)
      atomicMin(arguments.error, (unsigned long long)(index) * 256 + error);
  }

private:
  /// Finds the place of the body and of the elements. A descriptor that is
  /// refused counts as absent, so that those behind it do not wait.
  __device__ CoderError open() {
    uint64_t descriptor = arguments.descriptors[index];
    bool valid = CodedTile::isValid(descriptor, numElements);
    tile = CodedTile::of(valid ? descriptor : 0);
    uint32_t numWords = tile.numWords(sizeof(Bits));
    placeTile(numWords);
    uint64_t end = storage.wordsBefore + numWords;
    bool isLast = index + 1 == arguments.numTiles;
    if (!valid)
      return BadDescriptor;
    if (end > arguments.numWords || (isLast && end != arguments.numWords))
      return BadSize;
    if (storage.elementsBefore + tile.count > arguments.capacity)
      return NoSpace;
    words = arguments.words + storage.wordsBefore;
    offsets = arguments.offsets + storage.elementsBefore;
    values = arguments.values + storage.elementsBefore;
    places = tile.count <= DecodeStorage::MaxKept ? storage.places : offsets;
    return CoderOk;
  }

  /// One warp adds up words, another elements.
  __device__ void placeTile(uint32_t numWords) {
    uint32_t warp = warpOf();
    if (warp < 2) {
      uint64_t before =
          sumOfTilesBefore(arguments.lookBack + warp * arguments.numTiles,
                           index, warp == 0 ? numWords : tile.count);
      if (laneOf() == 0)
        (warp == 0 ? storage.wordsBefore : storage.elementsBefore) = before;
    }
    __syncthreads();
    if (threadIdx.x == 0)
      arguments.begins[index] = storage.elementsBefore;
  }

  /// All threads take the same way: errors are seen behind a barrier.
  __device__ CoderError read() {
    uint32_t gapsEnd = tile.unaryBegin();
    if (!tile.dense) {
      if (!readGaps() || !readOffsets())
        return BadPosition;
      gapsEnd = storage.gapsEnd;
    }
    if (!tile.steps) {
      copyValues();
      return gapsEnd == tile.endBit() ? CoderOk : BadSize;
    }
    applyUnitSteps();
    if (tile.endBit() - gapsEnd < tile.exceptionBits() ||
        !readExceptions(gapsEnd))
      return BadException;
    return readMagnitudes(gapsEnd + tile.exceptionBits()) ? CoderOk
                                                          : BadMagnitude;
  }

  /// A barrier; true for all threads if none has called fail.
  __device__ bool isGood() const { return !__syncthreads_or(failed); }
  __device__ void fail() { failed = true; }

  /// Calls body(rank, bit) for ones of [begin, end) until `limit` were found;
  /// returns how many there are, counted in steps of the block. Called by all
  /// threads.
  template <typename Body>
  __device__ uint32_t forEachOne(uint32_t begin, uint32_t end, uint32_t limit,
                                 const Body &body) {
    constexpr uint32_t BitsOfThread = 16;
    uint32_t found = 0;
    for (uint32_t first = begin; first < end && found < limit;
         first += BlockThreads * BitsOfThread) {
      uint32_t own = first + threadIdx.x * BitsOfThread;
      uint32_t rest = own < end ? end - own : 0;
      uint32_t bits =
          readBits(words, own, rest < BitsOfThread ? rest : BitsOfThread);
      uint32_t total;
      uint32_t rank =
          found + blockBefore(storage.warpSums, uint32_t(__popc(bits)), total);
      for (; bits && rank < limit; bits &= bits - 1)
        body(rank++, own + __ffs(int(bits)) - 1);
      found += total;
    }
    return found;
  }

  /// Leaves the sum of high bits up to each element in `places`.
  __device__ bool readGaps() {
    uint32_t begin = tile.unaryBegin();
    uint32_t found = forEachOne(begin, tile.endBit(), tile.count,
                                [&](uint32_t rank, uint32_t bit) {
                                  uint32_t zeros = bit - begin - rank;
                                  if (zeros > 0xffff)
                                    fail();
                                  places[rank] = uint16_t(zeros);
                                  if (rank + 1 == tile.count)
                                    storage.gapsEnd = bit + 1;
                                });
    return isGood() && found >= tile.count;
  }

  /// Adds the low bits. No sum exceeds 32 bits: (65,535 << 15) + 65,536 *
  /// 32,767 + 65,535.
  __device__ bool readOffsets() {
    uint32_t before = 0;
    for (uint32_t first = 0; first < tile.count; first += RoundElements) {
      uint32_t begin = first + threadIdx.x * ThreadElements;
      uint32_t lows[ThreadElements], own = 0, total;
#pragma unroll
      for (uint32_t i = 0; i < ThreadElements; ++i) {
        lows[i] = begin + i < tile.count
                      ? readBits(words, (begin + i) * tile.bitsOfElement(),
                                 tile.lowBits)
                      : 0;
        own += lows[i];
      }
      uint32_t sum = before + blockBefore(storage.warpSums, own, total);
#pragma unroll
      for (uint32_t i = 0; i < ThreadElements; ++i) {
        sum += lows[i];
        if (begin + i < tile.count)
          setOffset(begin + i, (uint32_t(places[begin + i]) << tile.lowBits) +
                                   sum + begin + i);
      }
      before += total;
    }
    return isGood();
  }

  __device__ void setOffset(uint32_t element, uint32_t offset) {
    if (offset >= numElements) {
      fail();
      return;
    }
    places[element] = uint16_t(offset);
    offsets[element] = uint16_t(offset);
  }

  __device__ Bits oldOf(uint32_t element) const {
    return arguments.held.value(index, tile.dense ? element : places[element]);
  }
  __device__ bool isNegative(uint32_t element) const {
    return readBits(words, element * tile.bitsOfElement() + tile.lowBits, 1);
  }

  __device__ void copyValues() {
    uint32_t begin = tile.valuesBeginBit(sizeof(Bits));
    for (uint32_t i = threadIdx.x; i < tile.count; i += BlockThreads)
      values[i] = Bits(
          readLongBits(words, begin + i * sizeof(Bits) * 8, sizeof(Bits) * 8));
  }

  /// A warp has 32 elements in a row, whose mask is a word.
  __device__ void applyUnitSteps() {
    uint32_t threshold = readBits(words, tile.fixedBits(), ThresholdBits);
    uint32_t lane = laneOf();
    for (uint32_t first = threadIdx.x - lane; first < tile.count;
         first += BlockThreads) {
      uint32_t element = first + lane;
      bool isListed = false;
      if (element < tile.count) {
        Bits old = oldOf(element);
        isListed = CoderTraits<Element>::classOf(old) < threshold;
        values[element] =
            Step<Element>::apply(old, isNegative(element), Code(1), tile.dense);
      }
      uint32_t mask = __ballot_sync(FullWarp, isListed);
      if (lane == 0)
        storage.listed[first / 32] = mask;
    }
    __syncthreads();
  }

  __device__ uint32_t lowOfException(uint32_t rank) const {
    uint32_t numBits = tile.indexBits();
    return readBits(words, tile.indicesBegin() + rank * numBits, numBits);
  }

  __device__ bool readExceptions(uint32_t begin) {
    uint32_t end = begin + tile.exceptionBits();
    uint32_t found =
        forEachOne(begin, end, ~0u, [&](uint32_t rank, uint32_t bit) {
          if (rank >= tile.numExceptions)
            return; // found is refused below
          uint32_t low = lowOfException(rank);
          uint32_t element = (bit - begin - rank) << tile.indexBits() | low;
          // Ascending: of those with the same high bits, by the low ones.
          bool follows = bit == begin || !readBits(words, bit - 1, 1) ||
                         lowOfException(rank - 1) < low;
          if (element < tile.count && follows)
            atomicOr(storage.listed + element / 32, 1u << element % 32);
          else
            fail();
        });
    return isGood() && found == tile.numExceptions;
  }

  /// Words of the mask that one thread counts.
  static constexpr uint32_t WordsOfThread = DELTA_MAX_TILE / 32 / BlockThreads;

  /// Leaves in threadBegin the listed elements before each thread's words;
  /// returns how many there are.
  __device__ uint32_t countListed() {
    uint32_t numWords = (tile.count + 31) / 32, own = 0, total;
    for (uint32_t i = 0; i < WordsOfThread; ++i) {
      uint32_t word = threadIdx.x * WordsOfThread + i;
      own += word < numWords ? __popc(storage.listed[word]) : 0;
    }
    storage.threadBegin[threadIdx.x] =
        blockBefore(storage.warpSums, own, total);
    __syncthreads();
    return total;
  }

  /// The listed element of a rank, which is below their number.
  __device__ uint32_t elementOfRank(uint32_t rank) const {
    uint32_t thread = 0;
    for (uint32_t step = BlockThreads / 2; step > 0; step /= 2)
      if (storage.threadBegin[thread + step] <= rank)
        thread += step;
    rank -= storage.threadBegin[thread];
    uint32_t word = thread * WordsOfThread, bits = storage.listed[word];
    for (uint32_t number; (number = __popc(bits)) <= rank; rank -= number)
      bits = storage.listed[++word];
    for (; rank > 0; --rank)
      bits &= bits - 1;
    return word * 32 + __ffs(int(bits)) - 1;
  }

  __device__ bool readMagnitudes(uint32_t begin) {
    uint32_t numListed = countListed();
    uint32_t rest = tile.endBit() - begin;
    if (rest < numListed || (rest - numListed) % 2)
      return false;
    if (!numListed)
      return rest == 0;
    uint32_t sumOfLengths = (rest - numListed) / 2;
    uint32_t mantissas = begin + numListed + sumOfLengths;
    uint32_t found =
        forEachOne(begin, mantissas, ~0u, [&](uint32_t rank, uint32_t bit) {
          uint32_t zeros = bit - begin - rank;
          bool isLast = rank + 1 == numListed;
          if (rank >= numListed || zeros > sumOfLengths ||
              (isLast && zeros != sumOfLengths))
            return fail();
          uint32_t length = zerosBefore(words, begin, bit);
          if (length)
            setMagnitude(elementOfRank(rank), length,
                         mantissas + zeros - length);
        });
    return isGood() && found == numListed;
  }

  __device__ void setMagnitude(uint32_t element, uint32_t length,
                               uint32_t mantissa) {
    if (length >= sizeof(Bits) * 8)
      return fail();
    Code code =
        Code(Code(1) << length | Code(readLongBits(words, mantissa, length)));
    if (!Step<Element>::isValid(code))
      return fail();
    values[element] = Step<Element>::apply(oldOf(element), isNegative(element),
                                           code, tile.dense);
  }

  DecodeStorage &storage;
  const Arguments &arguments;
  const int64_t index;
  const uint32_t numElements;
  CodedTile tile;
  const uint32_t *words;
  uint16_t *offsets;
  uint16_t *places;
  Bits *values;
  bool failed = false;
};

/// Body of the kernel: takes tiles until there are none.
template <typename Element, typename Held>
__device__ inline void
decodeTiles(const DecodeArguments<Element, Held> &arguments) {
  __shared__ DecodeStorage storage;
  for (int64_t index; (index = nextTileOf(arguments.nextTile, storage.tile)) <
                      arguments.numTiles;)
    TileDecoder<Element, Held>(storage, arguments, index).run();
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_DECODEKERNEL_CUH
