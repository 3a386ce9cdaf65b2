//===- Pack.cpp - From changes to the messages of a sync ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Pack.h"

#include <cstring>
#include <map>

using namespace delta::runtime;

/// Present tiles that a thread copies at a time.
static constexpr int64_t CopyGrain = 16;

Packer::Packer(const Shard &shard, Pool &pool)
    : shard(shard), pool(pool), sections(shard.getExpansion().sets.size()) {
  const Expansion &expansion = shard.getExpansion();
  for (Section &section : sections)
    section.firstTile = expansion.numTiles;
  for (const Row &row : expansion.rows) {
    Section &section = sections[row.set];
    section.firstTile = std::min(section.firstTile, row.firstTile);
    section.endTile = row.firstTile + row.numTiles();
  }
  std::map<uint32_t, std::vector<uint32_t>> setsOfRank;
  for (uint32_t set = 0; set < expansion.sets.size(); ++set)
    for (uint32_t rank : expansion.sets[set])
      setsOfRank[rank].push_back(set);
  for (auto &[rank, sets] : setsOfRank) {
    destinations.push_back(rank);
    setsOf.push_back(std::move(sets));
  }
}

/// Lists the present tiles of a set and sums up the parts of its section.
void Packer::placeSection(const Diff &diff, Section &section, uint64_t begin) {
  section.begin = begin;
  section.firstPacked = tiles.size();
  section.shape = {};
  section.shape.numTiles = uint64_t(section.endTile - section.firstTile);
  shard.forEachTile(
      section.firstTile, section.endTile, [&](const TileRef &tile) {
        uint32_t changed = diff[tile.tile].count;
        if (!changed)
          return;
        uint32_t numElements = tile.numElements();
        bool dense = device::isDense(changed, numElements);
        uint32_t count = dense ? numElements : changed;
        tiles.push_back({tile.tile, count, dense, section.shape.numOffsets * 2,
                         section.shape.valueBytes});
        if (!dense)
          section.shape.numOffsets += count;
        section.shape.valueBytes += uint64_t(count) * tile.elementSize();
        numDense += dense;
      });
  section.endPacked = tiles.size();
  section.shape.numPresent = section.endPacked - section.firstPacked;
  section.numBytes = 0;
  if (section.shape.numPresent == 0)
    return;
  section.numBytes = SectionHeaderBytes + section.shape.numBytes();
  uint64_t body = begin + SectionHeaderBytes;
  for (size_t i = section.firstPacked; i < section.endPacked; ++i) {
    tiles[i].offsetsAt += body + section.shape.offsetsBegin();
    tiles[i].valuesAt += body + section.shape.valuesBegin();
  }
}

void Packer::placeTiles(const Diff &diff) {
  tiles.clear();
  numDense = 0;
  uint64_t end = 0;
  for (Section &section : sections) {
    if (diff.getNumChanged() == 0)
      section.numBytes = 0; // nothing changed: not even a look at the tiles
    else
      placeSection(diff, section, end);
    end += section.numBytes;
  }
  packed.grow(end);
}

/// Bitmap, codes, and the zeros behind offsets and values.
void Packer::writeHead(const Section &section) {
  const device::SectionShape &shape = section.shape;
  uint8_t *body = packed.data() + section.begin + SectionHeaderBytes;
  memset(body, 0, shape.offsetsBegin());
  memset(body + shape.offsetsBegin() + shape.numOffsets * 2, 0,
         shape.valuesBegin() - shape.offsetsBegin() - shape.numOffsets * 2);
  memset(body + shape.valuesBegin() + shape.valueBytes, 0,
         shape.numBytes() - shape.valuesBegin() - shape.valueBytes);
  auto *codes = reinterpret_cast<uint16_t *>(body + shape.codesBegin());
  for (size_t i = section.firstPacked; i < section.endPacked; ++i) {
    uint64_t tile = uint64_t(tiles[i].tile - section.firstTile);
    body[tile / 8] |= uint8_t(1u << tile % 8);
    *codes++ = tiles[i].dense ? device::DenseCode : uint16_t(tiles[i].count);
  }
}

void Packer::copyTile(const PackedTile &tile, const Diff &diff) {
  uint8_t *values = packed.data() + tile.valuesAt;
  shard.forEachTile(tile.tile, tile.tile + 1, [&](const TileRef &ref) {
    const ShardRow &row = *ref.row;
    if (tile.dense) {
      row.kernels->gather(row.box, ref.boxTile, row.source, row.op, values);
      return;
    }
    const TileChange &change = diff[tile.tile];
    memcpy(packed.data() + tile.offsetsAt, diff.offsetsOf(change),
           uint64_t(tile.count) * 2);
    memcpy(values, diff.valuesOf(change),
           uint64_t(tile.count) * ref.elementSize());
  });
}

void Packer::writeHeaders(const MessageHeader &common) {
  headers.resize(destinations.size() * HeaderBytes);
  std::vector<uint64_t> checksums;
  for (size_t i = 0; i < destinations.size(); ++i) {
    MessageHeader header = common;
    header.destination = destinations[i];
    checksums.clear();
    for (uint32_t set : setsOf[i]) {
      if (sections[set].numBytes == 0)
        continue;
      ++header.numSections;
      header.payloadBytes += sections[set].numBytes;
      checksums.push_back(sections[set].checksum);
    }
    uint8_t *out = headers.data() + i * HeaderBytes;
    writeHeader(header, out);
    sealHeader(out, headerChecksum(out, checksums.data(), header.numSections));
  }
}

void Packer::pack(const Diff &diff, const MessageHeader &header) {
  numLaunches = 0;
  placeTiles(diff);
  if (!tiles.empty()) {
    pool.run(int64_t(tiles.size()), CopyGrain,
             [&](int64_t begin, int64_t end, uint32_t) {
               for (int64_t i = begin; i < end; ++i)
                 copyTile(tiles[size_t(i)], diff);
             });
    pool.run(
        int64_t(sections.size()), 1, [&](int64_t begin, int64_t, uint32_t) {
          Section &section = sections[size_t(begin)];
          if (section.numBytes == 0)
            return;
          writeHead(section);
          section.checksum = sealSection({0, section.numBytes, uint32_t(begin)},
                                         packed.data() + section.begin);
        });
    numLaunches += 2;
  }
  writeHeaders(header);
}

void Packer::advanceSnapshot() {
  if (tiles.empty())
    return;
  pool.run(int64_t(tiles.size()), CopyGrain,
           [&](int64_t begin, int64_t end, uint32_t) {
             for (int64_t i = begin; i < end; ++i) {
               const PackedTile &tile = tiles[size_t(i)];
               const uint16_t *offsets =
                   tile.dense ? nullptr : packed.as<uint16_t>(tile.offsetsAt);
               shard.forEachTile(
                   tile.tile, tile.tile + 1, [&](const TileRef &ref) {
                     ref.row->kernels->advance(shard.snapshotOf(ref), offsets,
                                               packed.data() + tile.valuesAt,
                                               tile.count);
                   });
             }
           });
}

void Packer::clear(bool release) {
  tiles.clear();
  headers.clear();
  if (release)
    packed.release();
}

std::vector<delta_bytes_t> Packer::message(uint32_t index) const {
  std::vector<delta_bytes_t> parts;
  parts.push_back({headers.data() + index * HeaderBytes, HeaderBytes});
  for (uint32_t set : setsOf[index])
    if (sections[set].numBytes)
      parts.push_back(
          {packed.data() + sections[set].begin, sections[set].numBytes});
  return parts;
}

uint64_t Packer::getMessageBytes() const {
  uint64_t total = 0;
  for (size_t i = 0; i < destinations.size(); ++i) {
    total += HeaderBytes;
    for (uint32_t set : setsOf[i])
      total += sections[set].numBytes;
  }
  return total;
}
