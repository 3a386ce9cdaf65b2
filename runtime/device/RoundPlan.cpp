//===- RoundPlan.cpp - The rounds of a sync on a device -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/RoundPlan.h"

using namespace delta::runtime;
namespace device = delta::device;

/// Two neighboring rounds send more than the capacity together.
void RoundPlan::reserve(uint64_t elements, uint64_t capacity) {
  rounds.reserve(capacity ? 2 * elements / capacity + 2 : 1);
}

static uint64_t numTilesOf(const device::SectionPlan &section) {
  return uint64_t(section.endTile - section.firstTile);
}

void RoundPlan::sumSection(const SourceTables &tables, uint32_t section,
                           const device::SectionShape &shape) {
  if (shape.numPresent == 0)
    return;
  counts.tiles += shape.numPresent;
  counts.messageBytes +=
      (SectionHeaderBytes + shape.numBytes()) * tables.fanOut(section);
}

void RoundPlan::takeOne(const SourceTables &tables) {
  counts = {};
  counts.elements = tables.getShard().getNumElements();
  counts.changed = tables.totals().changed;
  rounds.assign(1, {tables.getNumTiles(), tables.totals().sent});
  counts.messageBytes = tables.getDestinations().size() * HeaderBytes;
  for (uint32_t i = 0; i < tables.getNumSections(); ++i) {
    const device::SectionPlace &place = tables.place(i);
    sumSection(tables, i,
               {numTilesOf(tables.section(i)), place.numPresent,
                place.offsetsEnd - place.offsetsBegin,
                place.valuesEnd - place.valuesBegin});
    counts.denseTiles += place.numDense;
  }
}

void RoundPlan::cut(const SourceTables &tables, bool isWhole,
                    uint64_t capacity) {
  counts = {};
  counts.elements = tables.getShard().getNumElements();
  rounds.clear();
  uint64_t sum = 0;
  device::SectionShape shape = {};
  uint32_t section = 0;
  auto endSection = [&] {
    shape.numTiles = numTilesOf(tables.section(section));
    sumSection(tables, section, shape);
    shape = {};
  };
  for (int64_t i = 0; i < tables.getNumTiles(); ++i) {
    const device::SourceTile &tile = tables.tile(i);
    uint32_t changed = isWhole ? tile.numElements : tables.placeOf(i).changed;
    bool dense = device::isDense(changed, tile.numElements);
    uint32_t sent = dense ? tile.numElements : changed;
    bool isFull = sum + sent > capacity;
    if (isFull || tile.section != section)
      endSection();
    section = tile.section;
    if (isFull) {
      rounds.push_back({i, sum});
      sum = 0;
    }
    sum += sent;
    counts.changed += changed;
    counts.denseTiles += dense;
    shape.numPresent += changed != 0;
    shape.numOffsets += dense ? 0 : sent;
    shape.valueBytes += uint64_t(sent) * tile.elementSize;
  }
  if (tables.getNumTiles())
    endSection();
  rounds.push_back({tables.getNumTiles(), sum});
  counts.messageBytes +=
      rounds.size() * tables.getDestinations().size() * HeaderBytes;
}
