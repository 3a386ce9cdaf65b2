//===- Stage.cpp - Checking a message before it is written ----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Stage.h"

#include "codegen/device/PackFormat.h"

#include <algorithm>

using namespace delta::runtime;
namespace device = delta::device;

static unsigned long long number(uint64_t value) { return value; }

Status delta::runtime::readFrame(const uint8_t *message, uint64_t numBytes,
                                 MessageHeader &outHeader,
                                 std::vector<SectionView> &outViews) {
  if (numBytes < HeaderBytes)
    return Status::error(DELTA_CORRUPT, "%llu bytes, a header has %llu",
                         number(numBytes), number(HeaderBytes));
  outHeader = readHeader(message);
  if (outHeader.magic != WireMagic)
    return Status::error(DELTA_CORRUPT, "not a delta message");
  if (outHeader.wireVersion != WireVersion)
    return Status::error(DELTA_REFUSED, "layout version %u, required %u",
                         outHeader.wireVersion, WireVersion);
  if ((outHeader.flags & ~(SeedFlag | MovedFlag)) ||
      outHeader.flags == (SeedFlag | MovedFlag))
    return Status::error(DELTA_REFUSED, "unknown flags 0x%x", outHeader.flags);
  if (outHeader.round >= outHeader.numRounds)
    return Status::error(DELTA_CORRUPT, "round %u of %u", outHeader.round,
                         outHeader.numRounds);
  uint64_t left = numBytes - HeaderBytes;
  if (outHeader.payloadBytes != left)
    return Status::error(DELTA_CORRUPT, "%llu bytes follow the header of %llu",
                         number(left), number(outHeader.payloadBytes));
  std::vector<uint64_t> checksums;
  const uint8_t *at = message + HeaderBytes;
  while (left) {
    if (left < SectionHeaderBytes)
      return Status::error(DELTA_CORRUPT, "section %zu is cut off",
                           checksums.size());
    SectionHeader section = readSectionHeader(at);
    if (section.numBytes < SectionHeaderBytes || section.numBytes > left ||
        section.numBytes % device::PartAlignment != 0)
      return Status::error(
          DELTA_CORRUPT, "section %zu has %llu bytes, %llu are left",
          checksums.size(), number(section.numBytes), number(left));
    if (section.reserved || section.reserved2)
      return Status::error(DELTA_CORRUPT, "section %zu: reserved is %llu",
                           checksums.size(),
                           number(section.reserved | section.reserved2));
    if (sectionChecksum(at, section.numBytes) != section.checksum)
      return Status::error(DELTA_CORRUPT, "checksum of section %zu",
                           checksums.size());
    checksums.push_back(section.checksum);
    outViews.push_back({section, at + SectionHeaderBytes,
                        section.numBytes - SectionHeaderBytes});
    at += section.numBytes;
    left -= section.numBytes;
  }
  if (checksums.size() != outHeader.numSections)
    return Status::error(DELTA_CORRUPT, "%zu sections, the header says %u",
                         checksums.size(), outHeader.numSections);
  if (headerChecksum(message, checksums.data(), outHeader.numSections) !=
      readSeal(message))
    return Status::error(DELTA_CORRUPT, "checksum of the header");
  return {};
}

namespace {

/// Reads one section, part by part; each part is bounded before it is read.
class SectionReader {
public:
  SectionReader(const Landing &landing, const LandingSection &section,
                const SectionView &view, bool isWhole,
                std::vector<StagedTile> &tiles)
      : landing(landing), section(section), view(view), isWhole(isWhole),
        tiles(tiles), firstTile(tiles.size()) {}

  Status read();

private:
  Status corrupt(const char *what) const {
    return Status::error(DELTA_CORRUPT, "set %u: %s", section.set, what);
  }
  Status readTiles();
  Status addTile(const LandingRow &row, uint64_t tile, uint16_t code);
  void placeTiles();

  const Landing &landing;
  const LandingSection &section;
  const SectionView &view;
  bool isWhole;
  std::vector<StagedTile> &tiles;
  size_t firstTile;
  device::SectionShape shape = {};
};

} // namespace

Status SectionReader::read() {
  shape.numTiles = section.numTiles;
  if (view.bodyBytes < shape.codesBegin())
    return corrupt("the bitmap is cut off");
  for (uint64_t i = 0; i < (shape.numTiles + 7) / 8; ++i)
    shape.numPresent += uint32_t(__builtin_popcount(view.body[i]));
  if (shape.numTiles % 8 &&
      view.body[shape.numTiles / 8] >> (shape.numTiles % 8))
    return corrupt("a tile beyond the last one");
  if (view.bodyBytes < shape.offsetsBegin())
    return corrupt("the counts are cut off");
  Status status = readTiles();
  if (status.failed())
    return status;
  // Counts are bounded by tiles, so these sums cannot overflow.
  if (shape.numBytes() != view.bodyBytes)
    return corrupt("counts and bytes differ");
  placeTiles();
  return {};
}

Status SectionReader::readTiles() {
  auto *codes =
      reinterpret_cast<const uint16_t *>(view.body + shape.codesBegin());
  for (size_t i = section.firstRow; i < section.endRow; ++i) {
    const LandingRow &row = landing.getRows()[i];
    uint64_t begin = uint64_t(row.firstTile);
    uint64_t end = begin + uint64_t(row.tileEnd - row.tileBegin);
    for (uint64_t tile = begin; tile < end; ++tile) {
      if (tile % 8 == 0 && view.body[tile / 8] == 0) {
        tile += 7;
        continue;
      }
      if (!(view.body[tile / 8] >> tile % 8 & 1))
        continue;
      Status status = addTile(row, tile, *codes++);
      if (status.failed())
        return status;
    }
  }
  return {};
}

Status SectionReader::addTile(const LandingRow &row, uint64_t tile,
                              uint16_t code) {
  StagedTile staged = {};
  staged.row = &row;
  staged.boxTile = row.tileBegin + int64_t(tile) - row.firstTile;
  staged.numElements = device::tileOf(*row.box, staged.boxTile).numElements();
  bool dense = code == device::DenseCode;
  if (isWhole && !dense)
    return corrupt("a sparse tile where all are whole");
  if (!dense && (code == 0 || device::isDense(code, staged.numElements)))
    return corrupt("a count is out of range");
  staged.count = dense ? staged.numElements : code;
  // Any address marks a sparse tile until its place is known.
  staged.offsets =
      dense ? nullptr : reinterpret_cast<const uint16_t *>(view.body);
  shape.numOffsets += dense ? 0 : code;
  shape.valueBytes += uint64_t(staged.count) * row.kernels->element_size;
  tiles.push_back(staged);
  return {};
}

void SectionReader::placeTiles() {
  auto *offsets =
      reinterpret_cast<const uint16_t *>(view.body + shape.offsetsBegin());
  const uint8_t *values = view.body + shape.valuesBegin();
  for (size_t i = firstTile; i < tiles.size(); ++i) {
    StagedTile &tile = tiles[i];
    if (tile.offsets) {
      tile.offsets = offsets;
      offsets += tile.count;
    }
    tile.values = values;
    values += uint64_t(tile.count) * tile.row->kernels->element_size;
  }
}

/// Strictly ascending, and the last one inside the tile.
static bool offsetsFit(const StagedTile &tile) {
  if (!tile.offsets)
    return true;
  bool ascending = true;
  for (uint32_t i = 1; i < tile.count; ++i)
    ascending &= tile.offsets[i - 1] < tile.offsets[i];
  return ascending && tile.offsets[tile.count - 1] < tile.numElements;
}

/// Checks the offsets of tiles [first, end).
static Status checkOffsets(Pool &pool, const std::vector<StagedTile> &tiles,
                           size_t first) {
  std::atomic<bool> fit{true};
  pool.run(int64_t(tiles.size() - first), /*grain=*/64,
           [&](int64_t begin, int64_t end, uint32_t) {
             for (int64_t i = begin; i < end; ++i)
               if (!offsetsFit(tiles[first + size_t(i)]))
                 fit = false;
           });
  if (!fit)
    return Status::error(DELTA_CORRUPT, "offsets do not ascend in their tile");
  return {};
}

Status delta::runtime::readSections(Pool &pool, const Landing &landing,
                                    const MessageHeader &header,
                                    const std::vector<SectionView> &views,
                                    std::vector<StagedTile> &tiles,
                                    StagedSpan &outSpan) {
  const uint32_t source = landing.findSource(header.source);
  const size_t first = tiles.size();
  for (size_t i = 0; i < views.size(); ++i) {
    uint32_t set = views[i].header.set;
    if (i > 0 && set <= views[i - 1].header.set)
      return Status::error(DELTA_CORRUPT, "set %u: out of order", set);
    const LandingSection *section =
        source == DELTA_NONE
            ? nullptr
            : landing.findSection(landing.getSources()[source], set);
    if (!section)
      return Status::error(DELTA_CORRUPT, "set %u: not for this rank", set);
    Status status =
        SectionReader(landing, *section, views[i],
                      /*isWhole=*/header.isSeed() || header.isMoved(), tiles)
            .read();
    if (status.failed())
      return status;
  }
  outSpan = {};
  outSpan.numTiles = tiles.size() - first;
  if (outSpan.numTiles) {
    outSpan.first = {tiles[first].row, tiles[first].boxTile};
    outSpan.last = {tiles.back().row, tiles.back().boxTile};
  }
  return checkOffsets(pool, tiles, first);
}
