//===- PackFormat.h - The body of a section ---------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// How the changes of the tiles of one destination set are packed; the same
/// text for nvcc and for the host compiler. All numbers are little-endian.
///
///   bitmap   one bit a tile, bit i%8 of byte i/8: the tile has changes
///   codes    u16 for each tile present: the count, or DenseCode
///   offsets  u16 for each element of a sparse tile: its place in the tile
///   values   of sparse and dense tiles, in tile order
///
/// Each part is padded with zeros to 16 bytes, so that what is whole is read
/// and written 16 bytes at a time. Tiles are ordered by descending element
/// size, so every value is aligned to its size.
///
/// Why a bitmap. An element costs 2 bytes of offset, its value, and its share
/// of the tile's count. At 0.03 % a tile of 65,536 has 20 changes: an array of
/// u32 counts adds 0.20 bytes to each, bitmap and code 0.11. In tiles of 1,024
/// elements, three of four are absent: 13 bytes against 2.2.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_PACKFORMAT_H
#define DELTA_CODEGEN_DEVICE_PACKFORMAT_H

#include "codegen/device/IndexFunctions.h"

namespace delta::device {

/// Code of a tile that is sent whole. Counts of sparse tiles are at most half
/// of 65,536, so they never reach it.
constexpr uint16_t DenseCode = 0xffff;

/// Alignment of the parts of a section.
constexpr uint64_t PartAlignment = 16;

DELTA_HD constexpr uint64_t alignPart(uint64_t numBytes) {
  return (numBytes + PartAlignment - 1) & ~(PartAlignment - 1);
}

/// A tile is sent whole when more than half of its elements changed. (For
/// 16-bit values that is where offset + value costs as much as the tile.)
DELTA_HD constexpr bool isDense(uint32_t changed, uint32_t numElements) {
  return uint64_t(changed) * 2 > numElements;
}

/// Sizes of the parts of a section, from which their places follow.
struct SectionShape {
  uint64_t numTiles;
  uint64_t numPresent;
  uint64_t numOffsets;
  uint64_t valueBytes;

  DELTA_HD uint64_t codesBegin() const { return alignPart((numTiles + 7) / 8); }
  DELTA_HD uint64_t offsetsBegin() const {
    return codesBegin() + alignPart(numPresent * 2);
  }
  DELTA_HD uint64_t valuesBegin() const {
    return offsetsBegin() + alignPart(numOffsets * 2);
  }
  DELTA_HD uint64_t numBytes() const {
    return valuesBegin() + alignPart(valueBytes);
  }
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_PACKFORMAT_H
