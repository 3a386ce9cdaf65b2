//===- FingerprintKernel.cuh - Position-bound sums of rows ------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Forms the sums of HostFingerprint.h for all tensors of a rank in one launch,
/// at the speed of reading them. A thread keeps the columns of its 16 bytes: it
/// forms their weights once and goes down the lines of the piece, whose weights
/// lie in shared memory. That leaves two multiplications an element, where two
/// mixed weights would take about 60 instructions.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_FINGERPRINTKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_FINGERPRINTKERNEL_CUH

#include "codegen/device/ElementList.h"
#include "codegen/device/FingerprintArguments.h"
#include "codegen/device/FingerprintStrips.cuh"
#include "codegen/device/Threads.cuh"

namespace delta::device {

/// Quotient of two numbers that are not negative, mostly below 2^32.
__device__ inline int64_t quotient(int64_t value, int64_t divisor) {
  if (uint64_t(value | divisor) >> 32)
    return value / divisor;
  return int64_t(uint32_t(value) / uint32_t(divisor));
}

/// Distance of the begin of a run from that of run 0. As RunCursor, for runs in
/// no order: without memory for the indices.
__device__ inline int64_t distanceOfRun(const delta_box_t &box,
                                        const int64_t *stride, int64_t run) {
  int64_t distance = 0;
#pragma unroll 1
  for (uint32_t loop = box.num_loops - 1; loop > 1; --loop) {
    const int64_t above = quotient(run, box.extent[loop - 1]);
    distance += (run - above * box.extent[loop - 1]) * stride[loop - 1];
    run = above;
  }
  return box.num_loops > 1 ? distance + run * stride[0] : 0;
}

struct FingerprintStorage {
  FingerprintPiece piece;
  FingerprintKeys keys;
  uint64_t lineWeights[MaxLines];
  uint64_t warpSums[FingerprintThreads / WarpThreads];
  StripWeights strips[MaxStrips];
};

/// Works on one piece; constructed by all threads of a block.
class PieceSum {
public:
  explicit __device__ PieceSum(FingerprintStorage &storage)
      : storage(storage), piece(storage.piece),
        columnKey(piece.swapped ? storage.keys.row : storage.keys.column) {
    uint64_t lineKey = piece.swapped ? storage.keys.column : storage.keys.row;
    if (threadIdx.x < piece.numLines)
      storage.lineWeights[threadIdx.x] =
          weight(lineKey, piece.line + threadIdx.x * piece.lineStep);
    __syncthreads();
  }

  /// The thread's part, for data that is read 16 bytes at a time.
  template <typename Element> __device__ uint64_t sumWide() const {
    using Source = typename Element::Source;
    constexpr uint32_t Width = 16 / sizeof(Source);
    uint64_t sum = 0;
    for (uint32_t first = 0; first < piece.numColumns;
         first += FingerprintThreads * Width) {
      uint32_t left = (piece.numColumns - first) / Width;
      uint32_t numUnits = left < FingerprintThreads ? left : FingerprintThreads;
      // Where a line is shorter than a block, several are read at a time.
      uint32_t numGroups = FingerprintThreads / numUnits;
      uint32_t group = threadIdx.x / numUnits;
      uint32_t column = first + (threadIdx.x - group * numUnits) * Width;
      if (group >= numGroups)
        continue;
      uint64_t weights[Width];
#pragma unroll
      for (uint32_t i = 0; i < Width; ++i)
        weights[i] = columnWeight(column + i);
      sum += sumDown<Element>(reinterpret_cast<const Source *>(piece.data) +
                                  column,
                              weights, group, numGroups);
    }
    return sum;
  }

  /// The thread's part, read element by element.
  template <typename Types> __device__ uint64_t sumLines() const {
    uint64_t sum = 0;
    for (uint32_t first = 0; first < piece.numColumns;
         first += FingerprintThreads * ColumnsOfThread) {
      uint32_t left = piece.numColumns - first;
      uint32_t across = left < FingerprintThreads ? left : FingerprintThreads;
      uint32_t numGroups = FingerprintThreads / across;
      uint32_t group = threadIdx.x / across;
      uint32_t column = threadIdx.x - group * across;
      if (group >= numGroups)
        continue;
      uint64_t weights[ColumnsOfThread];
#pragma unroll
      for (uint32_t i = 0; i < ColumnsOfThread; ++i)
        weights[i] = column + i * FingerprintThreads < left
                         ? columnWeight(first + column + i * FingerprintThreads)
                         : 0;
      for (uint32_t line = group; line < piece.numLines; line += numGroups) {
        int64_t begin = line * piece.lineStride;
        uint64_t total = 0;
#pragma unroll
        for (uint32_t i = 0; i < ColumnsOfThread; ++i)
          if (column + i * FingerprintThreads < left)
            total +=
                weights[i] *
                Types::read(piece, begin + int64_t(first + column +
                                                   i * FingerprintThreads) *
                                               piece.columnStride);
        sum += total * storage.lineWeights[line];
      }
    }
    return sum;
  }

private:
  /// Columns, a block apart, whose weights a thread keeps on LinesPath.
  static constexpr uint32_t ColumnsOfThread = 4;
  template <typename Source> union Unit {
    uint4 words;
    Source elements[16 / sizeof(Source)];
  };

  __device__ uint64_t columnWeight(uint32_t column) const {
    return weight(columnKey, piece.column + column * piece.columnStep);
  }

  /// Lines `line`, `line + step`, ... of one thread's columns.
  template <typename Element>
  __device__ uint64_t sumDown(const typename Element::Source *from,
                              const uint64_t *weights, uint32_t line,
                              uint32_t step) const {
    using Loaded = Unit<typename Element::Source>;
    // Loads of a thread. Eight values that are made wider take the registers of
    // two of them.
    constexpr uint32_t InFlight =
        sizeof(typename Element::Bits) > sizeof(typename Element::Source) ? 2
                                                                          : 4;
    uint64_t sum = 0;
    from += line * piece.lineStride;
    const int64_t stride = step * piece.lineStride;
    auto add = [&](const Loaded &unit, uint32_t at) {
      // The upper half of a weight only reaches the upper half of the sum: it
      // is added up apart, for one carry an element less.
      uint64_t total = 0;
      uint32_t high = 0;
#pragma unroll
      for (uint32_t i = 0; i < sizeof(unit.elements) / sizeof(*unit.elements);
           ++i) {
        const auto bits = Element::convert(unit.elements[i]);
        if constexpr (sizeof(bits) < 8) {
          total += uint64_t(bits) * uint32_t(weights[i]);
          high += uint32_t(bits) * uint32_t(weights[i] >> 32);
        } else {
          total += bits * weights[i];
        }
      }
      total += uint64_t(high) << 32;
      sum += total * storage.lineWeights[at];
    };
    for (; line + (InFlight - 1) * step < piece.numLines;
         line += InFlight * step) {
      Loaded loaded[InFlight];
#pragma unroll
      for (uint32_t i = 0; i < InFlight; ++i) {
        loaded[i].words = __ldcs(reinterpret_cast<const uint4 *>(from));
        from += stride;
      }
#pragma unroll
      for (uint32_t i = 0; i < InFlight; ++i)
        add(loaded[i], line + i * step);
    }
    for (; line < piece.numLines; line += step, from += stride) {
      Loaded loaded;
      loaded.words = __ldcs(reinterpret_cast<const uint4 *>(from));
      add(loaded, line);
    }
    return sum;
  }

  FingerprintStorage &storage;
  const FingerprintPiece &piece;
  const uint64_t columnKey;
};

/// An element type whose bits stay as they are.
template <typename T> struct SameBits {
  using Source = T;
  using Bits = T;
  __device__ static T convert(T bits) { return bits; }
};

/// What a piece sums, by the types of a plan.
template <typename Elements> struct PieceTypes;
template <typename... Elements> struct PieceTypes<ElementList<Elements...>> {
  using List = ElementList<Elements...>;

  /// Of a piece that holds the bits that are summed.
  __device__ static uint64_t sumWide(const FingerprintStorage &storage,
                                     const PieceSum &sum) {
    if constexpr (List::hasSize(2))
      if (storage.piece.elementSize == 2)
        return sum.sumWide<SameBits<uint16_t>>();
    if constexpr (List::hasSize(4))
      if (storage.piece.elementSize == 4)
        return sum.sumWide<SameBits<uint32_t>>();
    if constexpr (List::hasSize(8))
      if (storage.piece.elementSize == 8)
        return sum.sumWide<SameBits<uint64_t>>();
    return 0;
  }

  /// Of the warp's strip of a piece.
  __device__ static uint64_t sumStrip(FingerprintStorage &storage,
                                      const FingerprintKeys *keys) {
    const FingerprintPiece &piece = storage.piece;
    StripSum strip(piece, storage.strips[warpOf()]);
    if (!strip.hasLines())
      return 0;
    if constexpr (List::hasSize(2))
      if (piece.elementSize == 2)
        return strip.sum<2>(keys);
    if constexpr (List::hasSize(4))
      if (piece.elementSize == 4)
        return strip.sum<4>(keys);
    if constexpr (List::hasSize(8))
      if (piece.elementSize == 8)
        return strip.sum<8>(keys);
    return 0;
  }

  /// Of a piece that holds another type.
  __device__ static uint64_t sumCast(const FingerprintStorage &storage,
                                     const PieceSum &sum) {
    return (sumOneCast<Elements>(storage, sum) + ...);
  }

  /// Bits of an element, widened; `element` counts from piece.data.
  __device__ static uint64_t read(const FingerprintPiece &piece,
                                  int64_t element) {
    if (piece.kernel)
      return List::value(piece.kernel, piece.data, element, piece.op);
    switch (piece.elementSize) {
    case 2:
      return reinterpret_cast<const uint16_t *>(piece.data)[element];
    case 4:
      return reinterpret_cast<const uint32_t *>(piece.data)[element];
    default:
      return reinterpret_cast<const uint64_t *>(piece.data)[element];
    }
  }

private:
  template <typename Element>
  __device__ static uint64_t sumOneCast(const FingerprintStorage &storage,
                                        const PieceSum &sum) {
    if constexpr (sizeof(typename Element::Source) !=
                  sizeof(typename Element::Bits))
      if (storage.piece.kernel == ElementRow<Element>::value)
        return sum.template sumWide<Element>();
    return 0;
  }
};

template <typename Types>
DELTA_DEVICE_COLD uint64_t sumWide(FingerprintStorage &storage) {
  return Types::sumWide(storage, PieceSum(storage));
}
template <typename Types>
DELTA_DEVICE_COLD uint64_t sumCast(FingerprintStorage &storage) {
  return Types::sumCast(storage, PieceSum(storage));
}
template <typename Types>
DELTA_DEVICE_COLD uint64_t sumLines(FingerprintStorage &storage) {
  return PieceSum(storage).sumLines<Types>();
}

/// The thread's part of a piece whose places are found one by one.
template <typename Types>
DELTA_DEVICE_COLD uint64_t sumPlaces(const FingerprintStorage &storage,
                                     const FingerprintPlaces &places) {
  const FingerprintPiece &piece = storage.piece;
  const uint32_t last = places.box.num_loops - 1;
  uint64_t sum = 0;
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < piece.numLines * piece.numColumns;
       i += FingerprintThreads) {
    const uint32_t run = i / piece.numColumns;
    const int64_t column = piece.column + (i - run * piece.numColumns);
    const int64_t element =
        places.dataOffset + column * places.dataStride[last] +
        distanceOfRun(places.box, places.dataStride, piece.line + run);
    const int64_t place =
        places.neutralOffset + column * places.neutralStride[last] +
        distanceOfRun(places.box, places.neutralStride, piece.line + run);
    const int64_t row = quotient(place, places.numColumns);
    sum += Types::read(piece, element) * weight(storage.keys.row, row) *
           weight(storage.keys.column, place - row * places.numColumns);
  }
  return sum;
}

/// What many threads read again and again costs none of them a register.
__device__ inline void takePiece(FingerprintStorage &storage,
                                 const FingerprintPiece *piece) {
  if (threadIdx.x < sizeof(*piece) / 16)
    reinterpret_cast<uint4 *>(&storage.piece)[threadIdx.x] =
        reinterpret_cast<const uint4 *>(piece)[threadIdx.x];
  __syncthreads();
}
__device__ inline void takeKeys(FingerprintStorage &storage,
                                const FingerprintKeys *keys) {
  if (threadIdx.x == 0)
    storage.keys = keys[storage.piece.term];
  __syncthreads();
}

/// What is not a strip, out of the way of strips, which are nearly all.
template <typename Types>
DELTA_DEVICE_COLD uint64_t sumOther(FingerprintStorage &storage,
                                    const FingerprintKeys *keys,
                                    const FingerprintPlaces *places) {
  takeKeys(storage, keys);
  const FingerprintPiece &piece = storage.piece;
  if (piece.path == PlacesPath)
    return sumPlaces<Types>(storage, places[piece.lineStride]);
  if (piece.path == LinesPath)
    return sumLines<Types>(storage);
  return piece.kernel ? sumCast<Types>(storage) : sumWide<Types>(storage);
}

/// The sum over all threads of the block, in thread 0.
__device__ inline uint64_t sumOfPiece(FingerprintStorage &storage,
                                      uint64_t value) {
  for (uint32_t step = WarpThreads / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(FullWarp, value, int(step));
  if (laneOf() == 0)
    storage.warpSums[warpOf()] = value;
  __syncthreads();
  uint64_t total = 0;
  if (threadIdx.x == 0)
    for (uint64_t part : storage.warpSums)
      total += part;
  return total;
}

/// Body of the kernel: one block for each piece, which the hardware hands out
/// as others end.
template <typename Elements>
__device__ inline void sumPieces(const FingerprintArguments &arguments) {
  __shared__ FingerprintStorage storage;
  using Types = PieceTypes<Elements>;
  takePiece(storage, arguments.pieces + blockIdx.x);
  const FingerprintPiece &piece = storage.piece;
  uint64_t sum;
  if (piece.path == StripPath)
    sum = Types::sumStrip(storage, arguments.keys);
  else
    sum = sumOther<Types>(storage, arguments.keys, arguments.places);
  sum = sumOfPiece(storage, sum);
  if (threadIdx.x == 0)
    atomicAdd(arguments.sums + piece.term, (unsigned long long)(sum));
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_FINGERPRINTKERNEL_CUH
