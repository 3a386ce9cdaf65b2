//===- BitmapArguments.h - What a bitmap hands to its kernels ---*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Arguments of the kernels of a snapshot that is a bitmap, the same text for
/// nvcc and for the host compiler. A mark is a bit: bit i % 32 of word i / 32
/// says that element i of a parameter was written since it was packed. The
/// marks of a parameter begin at a multiple of 16 bytes, and so they end.
///
/// runtime/README.md has the rule, and why no change is lost by it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_BITMAPARGUMENTS_H
#define DELTA_CODEGEN_DEVICE_BITMAPARGUMENTS_H

#include "codegen/device/SourceArguments.h"

namespace delta::device {

/// Elements [first, first + count) of a parameter of a 16-bit type.
struct CastArguments {
  const float *values; ///< of element `first`
  uint16_t *parameter; ///< element 0
  uint8_t *written;    ///< marks of element 0
  int64_t first, count;
  delta_dtype_t dtype;
  uint32_t reserved;
};

/// Where the marks of a rank's tiles lie.
struct MarkedTiles {
  const SourceTile *tiles; ///< of the rank
  const SourceRow *rows;
  const TilePlace *places; ///< of the rank's first tile
  uint32_t *const *marks;  ///< of the parameter of each row
  /// What rows have that are sent whole always; it stays as it is.
  const uint32_t *ones;
};

/// The tiles whose marks were taken and are told by the packed delta; zero:
/// none. Each time has another number, never 0.
struct TakenTiles {
  int64_t begin, end;
  uint64_t number;
  uint64_t reserved;
};

/// Clears the marks of tiles that were packed a moment ago, unless the streams
/// overflowed: then nothing was.
struct TakeArguments {
  MarkedTiles of;
  int64_t tileBegin, tileEnd;
  const DiffTotals *totals;
  TakenTiles *taken;  ///< written where `unsure` is null
  uint64_t *numTaken; ///< times so far
  /// Null, or one byte a tile, set to 1 where there were marks.
  uint8_t *unsure;
};

/// Sets the marks of the taken tiles again, as the packed delta tells them,
/// unless that was confirmed. Of a tile that was packed whole it does not: it
/// becomes unsure.
struct RestoreArguments {
  MarkedTiles of;
  const TakenTiles *taken;
  const SyncOrders *orders; ///< of the host
  const uint16_t *offsets;  ///< null: all become unsure
  uint8_t *unsure;          ///< one byte a tile
};

/// Neighboring tiles of an instance of a box, which another rank sends.
struct OtherRow {
  const delta_box_t *box;
  uint32_t *marks;    ///< of the parameter
  int64_t firstBit;   ///< as in SourceRow
  int64_t tileBegin;  ///< of the box
  int64_t firstIndex; ///< tiles of the rows before
};

/// Clears the marks of tiles that other ranks send.
struct DropArguments {
  const OtherRow *rows;
  int64_t numRows, numTiles;
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_BITMAPARGUMENTS_H
