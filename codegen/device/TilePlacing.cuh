//===- TilePlacing.cuh - The scribe finds and writes places -----*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The place of a tile in the streams, and what the head of its section says of
/// it. By one warp, but for what one thread publishes.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_TILEPLACING_CUH
#define DELTA_CODEGEN_DEVICE_TILEPLACING_CUH

#include "codegen/device/DiffStorage.cuh"

namespace delta::device {

class TilePlacing {
public:
  /// What the tile says to those behind it.
  __device__ static TileWord wordOf(const TileSlot &slot,
                                    const FoundChanges &found) {
    return TileWord::of(found.whole ? 0 : found.changed,
                        found.whole ? slot.tile.numElements : found.changed,
                        slot.tile.elementSize, slot.begins);
  }
  __device__ static void publishFound(const DiffArguments &arguments,
                                      const TileSlot &slot,
                                      const FoundChanges &found) {
    publish(arguments.lookBack + (slot.index - arguments.roundBegin),
            wordOf(slot, found).bits);
  }

  /// Finds the tile's place in the streams and writes it down.
  DELTA_DEVICE_COLD static TileSums place(const DiffArguments &arguments,
                                          const TileSlot &slot,
                                          const FoundChanges &found) {
    const TileWord own = wordOf(slot, found);
    const TileSums before = lookBack(arguments.lookBack, arguments.inclusive,
                                     slot.index - arguments.roundBegin, own);
    if (laneOf() == 0)
      writeDown(arguments, slot, found, before, own);
    return before;
  }

private:
  __device__ static void writeDown(const DiffArguments &arguments,
                                   const TileSlot &slot,
                                   const FoundChanges &found,
                                   const TileSums &before, TileWord own) {
    const SectionPlan &section = slot.section;
    const int64_t index = slot.index;
    arguments.places[index] = {before.numOffsets, before.valueBytes,
                               found.changed, found.whole};
    SectionPlace &out = arguments.sectionPlaces[slot.tile.section];
    if (slot.begins) {
      out.offsetsBegin = before.numOffsets;
      out.valuesBegin = before.valueBytes;
    }
    TileSums end = before + own.sums();
    if (index + 1 == section.endTile || index + 1 == arguments.roundEnd) {
      out.offsetsEnd = end.numOffsets;
      out.valuesEnd = end.valueBytes;
      out.numPresent = uint32_t(end.numPresent);
      fillParts(arguments, section, end);
    }
    if (!found.changed)
      return;
    writeCode(arguments, section, index, before.numPresent,
              found.whole ? DenseCode : uint16_t(found.changed));
    if (found.whole)
      atomicAdd(&out.numDense, 1u);
    addTotals(arguments, found.changed, own.sent(), end.numSent);
  }

  /// Zeros behind the last code, offset and value of a section.
  __device__ static void fillParts(const DiffArguments &arguments,
                                   const SectionPlan &section,
                                   const TileSums &end) {
    uint16_t *codes = codesOf(arguments, section);
    for (uint64_t i = end.numPresent; i * 2 < alignPart(end.numPresent * 2);
         ++i)
      codes[i] = 0;
    if (end.numSent > arguments.capacity)
      return; // there may be no room
    for (uint64_t i = end.numOffsets; i * 2 < alignPart(end.numOffsets * 2);
         ++i)
      arguments.offsets[i] = 0;
    for (uint64_t i = end.valueBytes; i < alignPart(end.valueBytes); ++i)
      arguments.values[i] = 0;
  }

  __device__ static uint8_t *bodyOf(const DiffArguments &arguments,
                                    const SectionPlan &section) {
    return arguments.heads + section.headAt + SectionHeaderBytes;
  }
  __device__ static uint16_t *codesOf(const DiffArguments &arguments,
                                      const SectionPlan &section) {
    uint64_t numTiles = uint64_t(section.endTile - section.firstTile);
    return reinterpret_cast<uint16_t *>(bodyOf(arguments, section) +
                                        alignPart((numTiles + 7) / 8));
  }

  __device__ static void writeCode(const DiffArguments &arguments,
                                   const SectionPlan &section, int64_t index,
                                   uint64_t at, uint16_t code) {
    uint64_t bit = uint64_t(index - section.firstTile);
    atomicOr(reinterpret_cast<uint32_t *>(bodyOf(arguments, section)) +
                 bit / 32,
             1u << bit % 32);
    codesOf(arguments, section)[at] = code;
  }

  __device__ static void addTotals(const DiffArguments &arguments,
                                   uint32_t changed, uint32_t sent,
                                   uint64_t sentSoFar) {
    auto add = [](uint64_t &to, uint32_t amount) {
      atomicAdd(reinterpret_cast<unsigned long long *>(&to),
                (unsigned long long)(amount));
    };
    add(arguments.totals->changed, changed);
    add(arguments.totals->sent, sent);
    if (sentSoFar > arguments.capacity)
      arguments.totals->overflowed = 1;
  }
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_TILEPLACING_CUH
