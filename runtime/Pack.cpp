//===- Pack.cpp - From changes to the messages of a sync ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Pack.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace delta::runtime;

Packer::Packer(const Shard &shard, Pool &pool) : Packer(shard, pool, {}) {}

Packer::Packer(const Shard &shard, Pool &pool, const std::vector<uint32_t> &all)
    : shard(shard), pool(pool), fromSnapshot(!all.empty()),
      sections(shard.getExpansion().sets.size()) {
  const Expansion &expansion = shard.getExpansion();
  for (Section &section : sections)
    section.firstTile = expansion.numTiles;
  for (const Row &row : expansion.rows) {
    Section &section = sections[row.set];
    section.firstTile = std::min(section.firstTile, row.firstTile);
    section.endTile = row.firstTile + row.numTiles();
  }
  std::map<uint32_t, std::vector<uint32_t>> setsOfRank;
  for (uint32_t rank : all)
    setsOfRank[rank];
  for (uint32_t set = 0; set < expansion.sets.size(); ++set)
    for (uint32_t rank : expansion.sets[set])
      setsOfRank[rank].push_back(set);
  for (auto &[rank, sets] : setsOfRank) {
    destinations.push_back(rank);
    setsOf.push_back(std::move(sets));
  }
  headers.resize(destinations.size() * HeaderBytes);
  checksums.reserve(sections.size());
  parts.reserve(sections.size() + 1);
}

/// The most that a round of `elements` can take: every section with its bitmap
/// and padding, a code for each present tile, and each element as the largest
/// there is, with its offset.
void Packer::setCapacity(uint64_t elements) {
  capacity = elements;
  packed.release();
  tiles = {};
  rounds = {};
  if (!elements)
    return;
  uint64_t numTiles = uint64_t(shard.getNumTiles());
  uint64_t present = std::min(elements, numTiles);
  uint64_t perSection = SectionHeaderBytes + 5 * device::PartAlignment;
  packed.grow(sections.size() * perSection + numTiles / 8 + present * 2 +
              elements * (2 + shard.getLargestElement()));
  tiles.reserve(present);
  rounds.reserve(2 * shard.getNumElements() / elements + 2);
}

uint64_t Packer::countSent(const Diff &diff, uint32_t round) const {
  uint64_t total = 0;
  auto [begin, end] = getRange(round);
  shard.forEachTile(begin, end, [&](const TileRef &tile) {
    total += Diff::numSent(diff[tile.tile], tile.numElements());
  });
  return total;
}

std::pair<int64_t, int64_t> Packer::getRange(uint32_t round) const {
  return {round ? rounds[round - 1].endTile : 0, rounds[round].endTile};
}

/// There is a last round even when nothing changed.
void Packer::cutRounds(const Diff &diff) {
  rounds.clear();
  uint64_t sum = 0;
  if (capacity && diff.getNumChanged())
    shard.forEachTile(0, shard.getNumTiles(), [&](const TileRef &tile) {
      uint64_t sent = Diff::numSent(diff[tile.tile], tile.numElements());
      if (sum + sent > capacity) {
        rounds.push_back({tile.tile, sum});
        sum = 0;
      }
      sum += sent;
    });
  rounds.push_back({shard.getNumTiles(), sum});
}

/// Adds the messages of the placed round to the sums.
void Packer::sumMessages() {
  numTiles += tiles.size();
  for (const PackedTile &tile : tiles)
    numDense += tile.dense;
  for (const std::vector<uint32_t> &sets : setsOf) {
    messageBytes += HeaderBytes;
    for (uint32_t set : sets)
      messageBytes += sections[set].numBytes;
  }
}

void Packer::plan(const Diff &diff) {
  cutRounds(diff);
  messageBytes = numTiles = numDense = 0;
  // Backwards, so that the first round is the one that stays placed.
  for (uint32_t round = getNumRounds(); round-- > 0;) {
    placeTiles(diff, round);
    sumMessages();
  }
}

/// Lists the tiles of a set that are present in a round and sums up the parts
/// of their section.
void Packer::placeSection(const Diff &diff, Section &section, uint32_t round,
                          uint64_t begin) {
  auto [roundBegin, roundEnd] = getRange(round);
  section.begin = begin;
  section.firstPacked = tiles.size();
  section.shape = {};
  section.shape.numTiles = uint64_t(section.endTile - section.firstTile);
  shard.forEachTile(
      std::max(section.firstTile, roundBegin),
      std::min(section.endTile, roundEnd), [&](const TileRef &tile) {
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

/// Returns the bytes that all sections of a round take.
uint64_t Packer::placeTiles(const Diff &diff, uint32_t round) {
  tiles.clear();
  uint64_t end = 0;
  for (Section &section : sections) {
    if (diff.getNumChanged() == 0)
      section.numBytes = 0; // nothing changed: not even a look at the tiles
    else
      placeSection(diff, section, round, end);
    end += section.numBytes;
  }
  return end;
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
    if (fromSnapshot) {
      memcpy(values, shard.snapshotOf(ref),
             uint64_t(tile.count) * ref.elementSize());
      return;
    }
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

void Packer::pack(const Diff &diff, uint32_t round,
                  const MessageHeader &header) {
  // Grows nothing when there is a capacity, which covers every round.
  packed.grow(placeTiles(diff, round));
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
  }
  MessageHeader common = header;
  common.round = round;
  common.numRounds = getNumRounds();
  writeHeaders(common);
}

/// A sparse tile lists what differs from the snapshot; a dense one may not
/// differ at all.
bool Packer::advanceTile(const PackedTile &tile) {
  const uint16_t *offsets =
      tile.dense ? nullptr : packed.as<uint16_t>(tile.offsetsAt);
  const uint8_t *values = packed.data() + tile.valuesAt;
  bool moved = false;
  shard.forEachTile(tile.tile, tile.tile + 1, [&](const TileRef &ref) {
    uint8_t *snapshot = shard.snapshotOf(ref);
    moved = offsets || memcmp(snapshot, values,
                              uint64_t(tile.count) * ref.elementSize()) != 0;
    if (moved)
      ref.row->kernels->advance(snapshot, offsets, values, tile.count);
  });
  return moved;
}

void Packer::clear(bool release) {
  tiles.clear();
  if (release)
    packed.release();
}

const std::vector<delta_bytes_t> &Packer::message(uint32_t index) const {
  parts.clear();
  parts.push_back({headers.data() + index * HeaderBytes, HeaderBytes});
  for (uint32_t set : setsOf[index])
    if (sections[set].numBytes)
      parts.push_back(
          {packed.data() + sections[set].begin, sections[set].numBytes});
  return parts;
}
