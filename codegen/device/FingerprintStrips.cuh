//===- FingerprintStrips.cuh - Sums by matrix instructions ------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The sum over a line of b(column) x bits is a product of bytes: with x_i the
/// bytes of an element and b_j those of a weight, it is the sum over j of
///
///   256^j x (sum over columns and i <= j of x_i x b_{j-i}),
///
/// eight dot products with the bytes of the line as they lie in memory, for all
/// sizes of elements alike. One instruction forms them for 16 lines and 32
/// bytes of each, so that two of them do what would take 45 others, and the
/// kernel only waits for memory.
///
/// A lane holds, as that instruction wants it, the bytes of lines lane / 4 and
/// lane / 4 + 8, of each the 16 bytes number lane % 4 of every 64; byte
/// lane / 4 of the weights of these; and then, for both lines, the products
/// with bytes 2 x (lane % 4) and the one above it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_FINGERPRINTSTRIPS_CUH
#define DELTA_CODEGEN_DEVICE_FINGERPRINTSTRIPS_CUH

#include "codegen/device/FingerprintArguments.h"
#include "codegen/device/Threads.cuh"

namespace delta::device {

/// Adds the products of 16 lines with eight columns of bytes to `sums`. All 32
/// lanes call it.
__device__ inline void multiplyBytes(uint32_t (&sums)[4], uint32_t line0,
                                     uint32_t line8, uint32_t line0Next,
                                     uint32_t line8Next, uint32_t weights,
                                     uint32_t weightsNext) {
#ifdef DELTA_DEVICE_TEXT
  delta::simt::multiplyBytes(sums, {line0, line8, line0Next, line8Next},
                             {weights, weightsNext});
#else
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(line0), "r"(line8), "r"(line0Next), "r"(line8Next), "r"(weights),
        "r"(weightsNext));
#endif
}

/// Of a warp, in shared memory. Zero beyond what the strip has.
struct StripWeights {
  uint64_t columns[StripBytes / 2];
  uint64_t lines[StripLines];
};

/// A warp's strip of a piece.
class StripSum {
public:
  /// All 32 lanes of a warp construct it.
  __device__ StripSum(const FingerprintPiece &piece, StripWeights &weights)
      : piece(piece), weights(weights) {
    const uint32_t lane = laneOf();
    const uint32_t warp = warpOf();
    const uint32_t lineBytes = piece.numColumns * piece.elementSize;
    const uint32_t across = (lineBytes + StripBytes - 1) / StripBytes;
    const uint32_t band = warp / across;
    byte = lane / 4;
    chunk = lane % 4;
    firstByte = (warp - band * across) * StripBytes;
    numBytes = min32(StripBytes, lineBytes - firstByte);
    firstLine = band * StripLines;
    numLines = firstLine < piece.numLines
                   ? min32(StripLines, piece.numLines - firstLine)
                   : 0;
  }

  /// False: nothing is left for this warp.
  __device__ bool hasLines() const { return numLines != 0; }

  /// The lane's part. `keys`: one pair a term.
  template <uint32_t Size>
  __device__ uint64_t sum(const FingerprintKeys *keys) {
    Loaded loaded;
    const uint8_t *from = piece.data + firstLine * piece.lineStride * Size +
                          firstByte + chunk * ChunkBytes;
    load(loaded, from, /*line=*/byte, piece.lineStride * Size);
    formWeights<Size>(keys[piece.term]); // while they are on their way
    uint32_t bytes[Units][4];
#pragma unroll
    for (uint32_t unit = 0; unit < Units; ++unit)
#pragma unroll
      for (uint32_t word = 0; word < 4; ++word)
        bytes[unit][word] =
            weightBytes<Size>(unit * UnitBytes + chunk * ChunkBytes + word * 4);
    return sumDown(from, piece.lineStride * Size, loaded, bytes);
  }

private:
  static constexpr uint32_t UnitBytes = 64, ChunkBytes = 16;
  static constexpr uint32_t Units = StripBytes / UnitBytes;
  static constexpr uint32_t LinesAtOnce = 16;
  // The products with two bytes are added up in 32 bits.
  static_assert(StripBytes * 255ull * 255 * 257 < 1ull << 32, "fits");

  /// Of two lines.
  struct Loaded {
    uint4 words[Units][2];
  };

  __device__ static uint32_t min32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
  }

  __device__ static uint4 loadUnit(const uint8_t *from, uint32_t unit) {
    return __ldcs(reinterpret_cast<const uint4 *>(from + unit * UnitBytes));
  }
  __device__ bool hasUnit(uint32_t unit) const {
    return unit * UnitBytes + chunk * ChunkBytes < numBytes;
  }

  /// 16 bytes of `line` and of the one 8 below it. What is not there is not
  /// loaded again: its weights are zero.
  __device__ void load(Loaded &to, const uint8_t *from, uint32_t line,
                       int64_t stride) const {
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint8_t *at = from + min32(line + half * 8, numLines - 1) * stride;
#pragma unroll
      for (uint32_t unit = 0; unit < Units; ++unit) {
        to.words[unit][half] = {0, 0, 0, 0};
        if (hasUnit(unit))
          to.words[unit][half] = loadUnit(at, unit);
      }
    }
  }

  template <uint32_t Size>
  __device__ void formWeights(const FingerprintKeys &keys) {
    const uint64_t lineKey = piece.swapped ? keys.column : keys.row;
    const uint64_t columnKey = piece.swapped ? keys.row : keys.column;
    const int64_t column = piece.column + firstByte / Size * piece.columnStep;
    const int64_t line = piece.line + firstLine * piece.lineStep;
#pragma unroll 1
    for (uint32_t i = laneOf(); i < StripBytes / Size; i += WarpThreads)
      weights.columns[i] =
          i * Size < numBytes ? weight(columnKey, column + i * piece.columnStep)
                              : 0;
#pragma unroll 1
    for (uint32_t i = laneOf(); i < StripLines; i += WarpThreads)
      weights.lines[i] =
          i < numLines ? weight(lineKey, line + i * piece.lineStep) : 0;
    __syncwarp();
  }

  /// What is multiplied with bytes at, at + 1, ... of the strip, lowest first:
  /// byte number `byte` of the weight for byte 0 of an element, the one below
  /// it for byte 1, and so on, zero below byte 0.
  template <uint32_t Size> __device__ uint32_t weightBytes(uint32_t at) const {
    if constexpr (Size == 2) {
      const uint32_t low = twoBytes(weights.columns[at / 2]);
      const uint32_t high = twoBytes(weights.columns[at / 2 + 1]);
      const uint32_t both = low | high << 16;
      return (both & 0x00ff00ff) << 8 | (both >> 8 & 0x00ff00ff);
    } else {
      const uint64_t value = weights.columns[at / Size];
      // Of the byte for byte 0 of the word: -4 to 7.
      const int32_t top = int32_t(byte) - int32_t(at % Size);
      const uint32_t word =
          uint32_t(top >= 3 ? value >> 8 * (top - 3) : value << 8 * (3 - top));
      return word << 24 | (word << 8 & 0xff0000) | (word >> 8 & 0xff00) |
             word >> 24;
    }
  }

  /// Bytes `byte` - 1 and `byte`.
  __device__ uint32_t twoBytes(uint64_t value) const {
    return uint32_t(byte ? value >> 8 * (byte - 1) : value << 8) & 0xffff;
  }

  /// Where the next lines are loaded while these are multiplied.
  __device__ uint64_t sumDown(const uint8_t *from, int64_t stride,
                              Loaded &loaded,
                              const uint32_t (&bytes)[Units][4]) const {
    uint64_t low = 0;
    uint32_t high = 0;
#pragma unroll 1
    for (uint32_t line = byte;; line += LinesAtOnce) {
      const uint32_t next = line + LinesAtOnce;
      const bool hasNext = next - byte < numLines;
      const uint8_t *next0 = from + min32(next, numLines - 1) * stride;
      const uint8_t *next8 = from + min32(next + 8, numLines - 1) * stride;
      uint32_t sums[4] = {0, 0, 0, 0};
#pragma unroll
      for (uint32_t unit = 0; unit < Units; ++unit) {
        uint4 &a = loaded.words[unit][0], &b = loaded.words[unit][1];
        multiplyBytes(sums, a.x, b.x, a.y, b.y, bytes[unit][0], bytes[unit][1]);
        multiplyBytes(sums, a.z, b.z, a.w, b.w, bytes[unit][2], bytes[unit][3]);
        if (hasNext && hasUnit(unit)) {
          a = loadUnit(next0, unit);
          b = loadUnit(next8, unit);
        }
      }
      add(low, high, weights.lines[line], sums[0] + (sums[1] << 8));
      add(low, high, weights.lines[line + 8], sums[2] + (sums[3] << 8));
      if (!hasNext)
        break;
    }
    return (low + (uint64_t(high) << 32)) << 16 * chunk;
  }

  /// Adds a product to low + 2^32 x high; the upper half of a weight only
  /// reaches the upper half of the sum.
  __device__ static void add(uint64_t &low, uint32_t &high, uint64_t weight,
                             uint32_t value) {
    low += uint64_t(value) * uint32_t(weight);
    high += value * uint32_t(weight >> 32);
  }

  const FingerprintPiece &piece;
  StripWeights &weights;
  uint32_t byte, chunk;         ///< of the lane
  uint32_t firstByte, numBytes; ///< of the strip, in a line of the piece
  uint32_t firstLine, numLines; ///< of the strip
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_FINGERPRINTSTRIPS_CUH
