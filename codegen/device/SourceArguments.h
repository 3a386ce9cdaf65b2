//===- SourceArguments.h - What a sender hands to its kernels ---*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Tables and arguments of the sender's kernels, the same text for nvcc and for
/// the host compiler. All pointers are to memory of the device unless said.
///
/// A sync is three launches at most, whatever the number of parameters (four
/// with a bitmap: BitmapArguments.h):
///
///   clear  lookBack, inclusive, nextTile, totals, sectionPlaces, sums, heads:
///          one memset each, or one in all where they lie together
///   diff   compares tiles, packs what changed; writes places, counts, totals,
///          and bitmap and codes into the heads
///   (the host reads totals and places: its only read)
///   seal   checksums of the sections, and the header of each message
///   ... the messages are sent, acknowledged ...
///   advance  writes the packed values into the snapshot
///
/// The packed memory is three streams. `heads` has, for each destination set,
/// the section header, bitmap and codes, at a fixed place with room for all
/// tiles. `offsets` and `values` hold those parts of all sections one behind
/// the other, each begun at a multiple of 16 bytes and filled up with zeros. So
/// a section is sent as three pieces, which together are the bytes that
/// PackFormat.h and WireFormat.h describe.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_SOURCEARGUMENTS_H
#define DELTA_CODEGEN_DEVICE_SOURCEARGUMENTS_H

#include "codegen/device/WireFormat.h"

namespace delta::device {

/// A bound row of a source rank: an instance of a box.
struct SourceRow {
  const delta_box_t *box;
  const uint8_t *source; ///< element 0 of the parameter or the expert's slice
  int64_t firstTile;     ///< of the rank
  int64_t tileBegin;     ///< of the box
  delta_value_op_t op;
  uint32_t kernel;  ///< delta_kernel_row
  int64_t firstBit; ///< element 0 among the elements of the parameter
};

/// Runs that are read in vectors hold a multiple of so many elements.
constexpr uint32_t UnitSize = 8;
/// Runs of a tile that is read so, and elements of each at least: the begins of
/// those in a warp's part are kept.
constexpr uint32_t MaxDiffRuns = 256;
constexpr uint32_t MinDiffColumns = 64;

/// How the elements of a tile are read.
enum TilePath : uint8_t {
  /// One piece of memory, aligned to 16 bytes at the source, and sent as it is.
  ContiguousPath = 0,
  /// Runs that begin at multiples of 16 bytes and hold a multiple of UnitSize
  /// elements, MinDiffColumns at least, sent as they are; the tile has
  /// MaxDiffRuns runs at most.
  RunsPath = 1,
  /// Anything else: element by element, with its op.
  GeneralPath = 2
};

/// A tile of a source rank. Made when the rank is bound, 32 bytes each.
struct SourceTile {
  const uint8_t *source; ///< first element of a contiguous tile
  uint8_t *snapshot;     ///< in tile order, after the op; a multiple of 16
  uint32_t numElements;
  uint32_t row;
  uint32_t section;
  TilePath path;
  uint8_t elementSize; ///< bytes of an element that is sent
  uint8_t reserved[2];
};
static_assert(sizeof(SourceTile) == 32, "without gaps");

/// What a destination set has of the tiles of a rank, and where its head lies.
struct SectionPlan {
  int64_t firstTile, endTile;
  uint64_t headAt; ///< bytes in `heads`, a multiple of 16
  /// 1: the values of each tile, sent whole, are a multiple of 16 bytes, and
  /// no tile is of the general path.
  uint32_t isEven;
  uint32_t reserved;
};

/// Bytes of `heads` that a section of `numTiles` tiles takes at most.
DELTA_HD constexpr uint64_t headRoom(uint64_t numTiles) {
  return SectionHeaderBytes + alignPart((numTiles + 7) / 8) +
         alignPart(numTiles * 2);
}

/// Where the parts of a section lie in the streams. Zero: nothing changed.
struct SectionPlace {
  uint64_t offsetsBegin, offsetsEnd; ///< elements; begin: a multiple of 8
  uint64_t valuesBegin, valuesEnd;   ///< bytes; begin: a multiple of 16
  uint32_t numPresent;
  uint32_t numDense;
};

/// Where the changes of a tile lie in the streams.
struct TilePlace {
  uint64_t offsetsAt; ///< elements
  uint64_t valuesAt;  ///< bytes
  uint32_t changed;   ///< elements that differ; set for every tile
  uint32_t isDense;
};

/// Sums over the tiles of a launch.
struct DiffTotals {
  uint64_t changed;    ///< elements that differ
  uint64_t sent;       ///< elements that are packed: all of a dense tile
  uint32_t overflowed; ///< 1: more than `capacity`; the streams are cut then
  uint32_t reserved;
  uint64_t hasValueSums; ///< 1: see DiffArguments::valueSums
};

enum DiffMode : uint32_t {
  DiffDelta = 0,    ///< what differs from the snapshot
  DiffWhole = 1,    ///< all elements, as the parameters have them
  DiffSnapshot = 2, ///< all elements, as the snapshot has them
  DiffBits = 3      ///< what is marked in a bitmap of the parameters
};
/// Whether all tiles are sent whole, without a look at them.
DELTA_HD constexpr bool isCopy(DiffMode mode) {
  return mode == DiffWhole || mode == DiffSnapshot;
}

/// What the tiles before one have packed: where it begins in the streams.
struct TileSums {
  uint64_t numOffsets; ///< elements of the stream, gaps between sections too
  uint64_t valueBytes;
  uint64_t numSent;     ///< elements
  uint64_t numPresent;  ///< tiles, of the section alone
  uint64_t valuesBegin; ///< bytes before the values of the section
};

struct DiffArguments {
  const SourceTile *tiles; ///< of the rank
  const SourceRow *rows;
  const SectionPlan *sections;
  /// The round: streams and sums begin at its first tile.
  int64_t roundBegin, roundEnd;
  /// The tiles of this launch; those of the round before them were launched.
  int64_t tileBegin, tileEnd;
  DiffMode mode;
  uint32_t reserved;
  /// Bit i % 32 of `bits[row][i / 32]`: element i of the row's parameter was
  /// written; DiffBits only. One entry a row.
  const uint32_t *const *bits;
  /// One byte a tile, or null: not 0: packed whole whatever the snapshot holds.
  const uint8_t *unsure;
  unsigned long long *nextTile;  ///< zeroed
  unsigned long long *lookBack;  ///< one a tile, from roundBegin; zeroed
  unsigned long long *inclusive; ///< NumSumWords a tile, likewise; LookBack.cuh
  TilePlace *places;             ///< of the rank's first tile
  uint8_t *heads;                ///< bitmaps zeroed
  uint16_t *offsets;
  uint8_t *values;
  /// Elements that may be sent. The streams have room for as many, and for 16
  /// bytes more for each section.
  uint64_t capacity;
  SectionPlace *sectionPlaces; ///< zeroed
  DiffTotals *totals;          ///< zeroed
  /// One a section, zeroed, or null: where all is sent whole, checksum terms
  /// of the values of even sections are added to it, which the seal leaves out
  /// then.
  uint64_t *valueSums;
};

/// The message of a destination rank: sections of `messageSections`, those that
/// are not empty are sent.
struct SealMessage {
  uint32_t destination;
  uint32_t firstSection, endSection;
};

/// What changes from sync to sync, in pinned memory of the host. Kernels read
/// it when they run, so that their arguments are the same at every sync.
struct SyncOrders {
  MessageHeader header; ///< all but destination, sections and bytes
  uint32_t isSealed;    ///< Seal sets it to 1
  /// 1: the receivers have committed; an advance that asks sets it to 0.
  uint32_t mayAdvance;
  /// The number of the taken tiles whose packed delta the receivers have
  /// committed; see TakenTiles in BitmapArguments.h.
  uint64_t confirmed;
  uint64_t reserved;
};

struct SealArguments {
  const SectionPlan *sections;
  const SectionPlace *sectionPlaces;
  uint32_t numSections;
  uint32_t numMessages;
  uint8_t *heads; ///< section headers are written here
  const uint16_t *offsets;
  const uint8_t *values;
  const SealMessage *messages;
  const uint32_t *messageSections;
  SyncOrders *orders;       ///< of the host
  const DiffTotals *totals; ///< nothing is sealed where they overflowed
  uint64_t *sums;           ///< one a section; zeroed before the diff
  uint32_t *numDone;        ///< zeroed
  uint8_t *headers;         ///< HeaderBytes a message
};

struct AdvanceArguments {
  const SourceTile *tiles;
  const TilePlace *places; ///< of the rank's first tile
  int64_t tileBegin, tileEnd;
  const uint16_t *offsets;
  const uint8_t *values;
  /// Null, or one byte a tile: set to 1 where the snapshot has changed.
  uint8_t *moved;
  unsigned long long *nextTile; ///< zeroed
  /// Null, or a copy of `orders->mayAdvance`: where it is 0, nothing is done.
  const uint32_t *mayAdvance;
  SyncOrders *orders; ///< of the host; null where `mayAdvance` is
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_SOURCEARGUMENTS_H
