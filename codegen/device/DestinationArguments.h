//===- DestinationArguments.h - What a receiver hands to kernels -*- C++
//-*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Tables and arguments of the receiver's kernels, the same text for nvcc and
/// for the host compiler. All pointers are to memory of the device unless said.
///
/// A sync is five launches, six with a full sync into padded parameters,
/// whatever the number of parameters, sources and tiles:
///
///   frames    one block walks the frames of all messages of a batch, finds
///             the tables of each section and lays out the work of the others
///   sections  checksums of all sections, and the sums of their counts
///   heads     turns bitmaps and codes into a list of staged tiles
///   offsets   those of each sparse tile ascend and are inside it
///   (the host reads the reports: its only read)
///   zero      parameters of which some elements have no source
///   scatter   writes all staged tiles into all their images
///
/// Messages are not trusted: every read is bounded by the bytes that the
/// message has, every write by the tables of the plan. A message that is
/// refused says so in one bit. Why it is refused the host finds out by reading
/// the message itself: so both targets say the same, and the kernels need no
/// texts.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_DESTINATIONARGUMENTS_H
#define DELTA_CODEGEN_DEVICE_DESTINATIONARGUMENTS_H

#include "codegen/device/WireFormat.h"

namespace delta::device {

/// How the elements of a tile lie in an image.
enum PlacePath : uint8_t {
  /// One behind the other.
  ContiguousPlace = 0,
  /// Runs begin `pitch` elements apart, elements of a run are `step` apart.
  EvenPlace = 1,
  /// Anything else: through the map of the image.
  MappedPlace = 2
};

/// A tile of a destination rank in one image. Made when the rank is bound, 64
/// bytes each. Entry t is that of tile t in its first image; further images
/// follow behind all tiles.
struct DestinationTile {
  const delta_box_t *box;
  const delta_image_t *image;
  union {
    int64_t boxTile;     ///< MappedPlace
    uint64_t multiplier; ///< EvenPlace: SmallDivisor of numColumns
  };
  /// The first element; MappedPlace: element 0 of the parameter or the slice.
  uint8_t *to;
  int64_t pitch;        ///< elements; not of MappedPlace
  int64_t step;         ///< elements
  uint32_t numElements; ///< this and what follows is one load of 16 bytes
  uint32_t numColumns;
  uint32_t next; ///< entry of the same tile in its next image; 0: none
  PlacePath path;
  uint8_t elementSize;
  uint8_t isMapped; ///< one of the images of the tile is; of the first entry
  uint8_t reserved;
};
static_assert(sizeof(DestinationTile) == 64, "two sectors of memory");

/// What comes from one source under one set number.
struct DestinationSection {
  uint32_t set;
  uint32_t reserved;
  int64_t firstTile; ///< of the rank
  int64_t numTiles;
};

/// A source rank; sources ascend by rank, sections by set.
struct DestinationSource {
  uint32_t rank;
  uint32_t firstSection, endSection;
};

/// All that a rank receives, or that moves to it. sources == null: there are no
/// such tables.
struct DestinationTables {
  const DestinationTile *tiles;
  const DestinationSection *sections;
  const DestinationSource *sources;
  uint32_t numSources;
  uint32_t reserved;
};

/// A message to be read; begins at a multiple of 16 bytes.
struct MessagePlace {
  const uint8_t *bytes;
  uint64_t numBytes;
  uint32_t expectedSource; ///< DELTA_NONE: whoever it says
  uint32_t reserved;
};

enum MessageFlag : uint32_t {
  RefusedMessage = 1,  ///< something is wrong with it
  UnlandedMessage = 2, ///< there are no tables of its kind: nothing was staged
};

/// What was found in a message.
struct MessageReport {
  MessageHeader header; ///< as it came; of no magic where there is none
  uint64_t seal;
  uint32_t flags; ///< MessageFlag
  uint32_t firstTile, lastTile;
  uint32_t reserved;
  unsigned long long numTiles; ///< staged
};

/// A section of a message, and where the work on it begins in the batch. A
/// message has a fixed room for them; those that it has not are empty.
struct StagedPart {
  const uint8_t *section;
  uint64_t numBytes;
  unsigned long long sum; ///< of the terms of its checksum
  uint64_t chunkBegin;
  uint64_t segmentBegin;
  const DestinationTile *tiles; ///< of the section
  int64_t firstTile;            ///< of the rank
  int64_t numTiles;
  uint32_t message;
  uint32_t isWhole;
};

/// Bytes whose checksum a block forms at a time.
constexpr uint64_t ChunkBytes = 32768;
/// Tiles whose codes a block reads at a time: one byte of the bitmap a thread.
constexpr int64_t SegmentTiles = 2048;

DELTA_HD constexpr uint64_t chunksOf(uint64_t numBytes) {
  return (numBytes + ChunkBytes - 1) / ChunkBytes;
}
/// At least one: it is where the checksum of a section is compared.
DELTA_HD constexpr uint64_t segmentsOf(int64_t numTiles) {
  return numTiles ? uint64_t((numTiles + SegmentTiles - 1) / SegmentTiles) : 1;
}

/// What the tiles of a segment have.
struct SegmentSums {
  uint64_t valueBytes;
  uint32_t numOffsets;
  uint32_t numPresent;
};

/// A tile that came; by messages, and in their order.
struct StagedTile {
  const uint16_t *offsets; ///< null: dense
  const uint8_t *values;   ///< aligned to the size of an element
  uint32_t count;
  uint32_t tile; ///< of the rank
  uint32_t message;
  uint32_t numElements;
};
static_assert(sizeof(StagedTile) == 32, "two loads of 16 bytes");

/// Sums over a batch, and the counters of the launches after it. Set by
/// `frames`.
struct StageTotals {
  uint64_t numChunks;
  uint64_t numSegments;
  uint64_t numStaged; ///< entries of StageArguments::staged
  unsigned long long nextTile;
  /// Of a comparison: elements that differ, and the number of the first.
  unsigned long long numDiffer;
  unsigned long long firstDiffer;
};

/// Of all four kernels that stage.
struct StageArguments {
  const MessagePlace *messages; ///< may be pinned memory of the host
  uint32_t numMessages;
  uint32_t partsOfMessage;
  DestinationTables landing;
  DestinationTables moved;
  MessageReport *reports; ///< one a message
  StagedPart *parts;      ///< partsOfMessage a message
  SegmentSums *segments;
  uint64_t segmentRoom;
  StagedTile *staged; ///< of this batch
  uint64_t stagedRoom;
  StageTotals *totals;
};

struct ScatterArguments {
  const StagedTile *staged;
  uint64_t numStaged;
  const DestinationTile *tiles;
  uint8_t *reached;    ///< null, or one byte a tile: set to 1
  StageTotals *totals; ///< its counter
};

/// Images of a row at most, so that a difference has a number: staged tile,
/// image, value in 32, 16 and 16 bits.
constexpr uint32_t MaxComparedImages = 65536;

struct CompareArguments {
  const StagedTile *staged;
  uint64_t numStaged;
  const DestinationTile *tiles;
  StageTotals *totals; ///< its counter and results
};

/// Bytes that one block sets to zero.
constexpr uint64_t ZeroBytes = 65536;

struct ZeroSpan {
  uint8_t *begin;
  uint64_t numBytes;
  uint64_t firstPiece; ///< of ZeroBytes each, of the spans before
};

struct ZeroArguments {
  const ZeroSpan *spans;
  uint32_t numSpans;
  uint32_t reserved;
  uint64_t numPieces;
};

/// Two elements that should be the same.
struct ProbePair {
  const uint8_t *staged;
  const uint8_t *held;
};

struct ProbeArguments {
  const ProbePair *pairs;
  const uint8_t *sizes; ///< bytes of the elements of each pair
  uint8_t *differ;      ///< one byte a pair
  uint64_t numPairs;
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_DESTINATIONARGUMENTS_H
