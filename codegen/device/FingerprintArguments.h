//===- FingerprintArguments.h - What is summed up where ---------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Tables and arguments of the kernel that forms fingerprints, the same text
/// for nvcc and for the host compiler. All pointers are to memory of the
/// device.
///
/// A sum over a box is cut into pieces: matrices of lines and columns, in which
/// a line fixes one weight and a column the other. The kernel then forms, a
/// block a piece,
///
///   sum over lines of a(line) x (sum over columns of b(column) x bits)
///
/// with the weights of its columns in registers, and knows of no box. Nearly
/// always lines are rows of the neutral tensor; where the data holds it
/// transposed, lines are its columns, so that the data is still read in the
/// order of memory. Which loops of a box become what is decided on the host
/// (runtime/device/FingerprintTable.h).
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_FINGERPRINTARGUMENTS_H
#define DELTA_CODEGEN_DEVICE_FINGERPRINTARGUMENTS_H

#include "codegen/device/SourceArguments.h"

namespace delta::device {

/// Threads of a block.
constexpr uint32_t FingerprintThreads = 256;

/// Lines of a piece that a block reads together: a thread forms the weight of
/// one.
constexpr uint32_t MaxLines = FingerprintThreads;

/// A warp on StripPath reads this many bytes of a line, down as many lines.
constexpr uint32_t StripBytes = 256;
constexpr uint32_t StripLines = 128;
/// Strips of a piece at most, beside or below each other: one a warp.
constexpr uint32_t MaxStrips = FingerprintThreads / 32;

/// Bytes of a line that a block reads at a time, 16 a thread.
constexpr uint32_t LineBytes = 16 * FingerprintThreads;

/// How the elements of a piece are read.
enum FingerprintPath : uint8_t {
  /// 16 bytes a load: every line begins and ends at a multiple of 16 bytes, its
  /// elements lie behind each other, and its op is none, or a cast alone.
  WidePath = 0,
  /// Element by element, with any stride and op.
  LinesPath = 1,
  /// Element by element, and row and column of each are found by dividing.
  PlacesPath = 2,
  /// As WidePath, without a cast: each warp has a strip of its own. All lines
  /// have StripBytes x a power of two up to MaxStrips, or less than that.
  StripPath = 3
};

/// A part of a sum. 80 bytes, for usually 256 KiB of data.
struct alignas(16) FingerprintPiece {
  const uint8_t *data; ///< its first element
  /// In elements, from line to line and from column to column.
  int64_t lineStride, columnStride;
  /// Row (column, where `swapped`) of the first line, and from line to line.
  int64_t line, lineStep;
  /// Column (row, where `swapped`) of the first column, and so on.
  int64_t column, columnStep;
  uint32_t term;
  uint32_t numLines;   ///< at most MaxLines; StripPath: see there
  uint32_t numColumns; ///< at most 65536
  delta_value_op_t op;
  FingerprintPath path;
  uint8_t swapped;
  uint8_t elementSize; ///< bytes of an element of the data
  /// delta_kernel_row; 0: the data holds the bits that are summed.
  uint8_t kernel;
};
static_assert(sizeof(FingerprintPiece) == 80, "five loads of 16 bytes");

/// A box whose pieces take PlacesPath. Such a piece has the box's number in
/// `lineStride`, its first run in `line`, its first column in `column`, runs as
/// lines, and in `data` element 0 of the parameter.
struct FingerprintPlaces {
  delta_box_t box; ///< extents alone
  int64_t dataOffset;
  int64_t dataStride[DELTA_MAX_LOOPS];
  int64_t neutralOffset;
  int64_t neutralStride[DELTA_MAX_LOOPS];
  int64_t numColumns; ///< of the neutral tensor
};

/// Keys of the weights of a sum's rows and columns.
struct FingerprintKeys {
  uint64_t row, column;
};

struct FingerprintArguments {
  const FingerprintPiece *pieces; ///< one a block
  const FingerprintPlaces *places;
  const FingerprintKeys *keys; ///< one a term
  unsigned long long *sums;    ///< one a term; zeroed
};

/// A row of a rank, of which a sum is kept.
struct FingerprintRow {
  const delta_box_t *box;
  int64_t firstTile; ///< of the rank
  int64_t tileBegin; ///< of the box
  /// Place of the box in the neutral tensor.
  const int64_t *neutralStride;
  int64_t neutralOffset;
  int64_t numColumns;
  FingerprintKeys keys;
};

/// The sums of rows follow the snapshot: launched before the advance that it
/// describes, or for a first sum over the whole snapshot.
struct SourceSumArguments {
  AdvanceArguments changes;
  const FingerprintRow *rows; ///< as SourceTile::row counts them
  unsigned long long *sums;   ///< one a row
  /// Not 0: all values of the snapshot are added, and `changes` has no places.
  uint32_t isFirst;
  uint32_t reserved;
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_FINGERPRINTARGUMENTS_H
