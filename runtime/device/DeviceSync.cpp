//===- DeviceSync.cpp - The kernels of a sync -----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The part of DevicePacking that runs at every sync.
///
//===----------------------------------------------------------------------===//

#include "runtime/device/DevicePacking.h"

#include <algorithm>
#include <cstring>

using namespace delta::runtime;
namespace device = delta::device;

Status DevicePacking::launch(DeviceKernel kernel, uint64_t numBlocks,
                             const void *arguments) {
  const uint64_t most =
      uint64_t(device->getNumProcessors()) * shapeOf(kernel).blocksOfProcessor;
  ++numLaunches;
  return device->launch(
      kernel, uint32_t(std::min(std::max<uint64_t>(numBlocks, 1), most)),
      arguments, stream);
}

device::DiffMode DevicePacking::modeOf(Extent of) const {
  return of == Extent::Whole    ? device::DiffWhole
         : of == Extent::Moved  ? device::DiffSnapshot
         : snapshot.hasValues() ? device::DiffDelta
                                : device::DiffBits;
}

/// Whether a launch has a part for each chunk: it reads what is uploaded.
bool DevicePacking::isChunked(Extent of) const {
  return snapshot.isUploaded() && of != Extent::Whole;
}

/// Calls body(chunk, begin, end) for the chunks of tiles [begin, end).
template <typename Body>
void DevicePacking::forEachChunk(const SourceTables &rows, Extent of,
                                 int64_t begin, int64_t end,
                                 const Body &body) const {
  if (begin >= end)
    return;
  if (!isChunked(of)) {
    body(0u, begin, end);
    return;
  }
  const std::vector<int64_t> &ends = rows.getChunkEnds();
  auto chunk = std::upper_bound(ends.begin(), ends.end(), begin);
  for (; begin < end; ++chunk) {
    body(uint32_t(chunk - ends.begin()), begin, std::min(end, *chunk));
    begin = *chunk;
  }
}

uint64_t DevicePacking::countDiffs(int64_t begin, int64_t end) const {
  uint64_t count = 0;
  forEachChunk(active(), extent, begin, end,
               [&](uint32_t, int64_t, int64_t) { ++count; });
  return count;
}

/// Clears what a round begins with, packs tiles [begin, end) of some rows, and
/// copies totals and places down.
Status DevicePacking::enqueueDiff(SourceTables &rows, Extent of, int64_t begin,
                                  int64_t end) {
  if (!capacity)
    return Status::error(DELTA_NO_MEMORY,
                         "no memory for what changes, since set_capacity "
                         "failed");
  Status status = rows.clear(stream);
  if (!status.failed() && isChunked(of))
    status = snapshot.beginUploads(stream);
  forEachChunk(
      rows, of, begin, end, [&](uint32_t chunk, int64_t from, int64_t to) {
        if (status.failed())
          return;
        device::DiffArguments arguments = rows.diffArguments(modeOf(of), chunk);
        arguments.roundBegin = begin;
        arguments.roundEnd = end;
        arguments.tileBegin = from;
        arguments.tileEnd = to;
        arguments.unsure =
            &rows == work.get() ? unsure.as<const uint8_t>() : nullptr;
        arguments.offsets = offsets.as<uint16_t>();
        arguments.values = values.as();
        arguments.capacity = capacity;
        status = enqueueChunk(rows, of, chunk, arguments);
      });
  return status.failed() ? status : rows.readBack(stream);
}

Status DevicePacking::enqueueChunk(const SourceTables &rows, Extent of,
                                   uint32_t chunk,
                                   const device::DiffArguments &arguments) {
  Status status;
  if (isChunked(of))
    status = snapshot.upload(rows, chunk, arguments.tileBegin,
                             arguments.tileEnd, stream);
  if (!status.failed())
    status =
        launch(DeviceKernel::Diff,
               uint64_t(arguments.tileEnd - arguments.tileBegin), &arguments);
  if (!status.failed() && isChunked(of))
    status = snapshot.release(chunk, stream);
  return status;
}

Status DevicePacking::compare() {
  numLaunches = 0;
  work->totals().reserved = 1;
  Status status = uploadUnsure();
  if (!status.failed())
    status = takeBits();
  if (!status.failed())
    status = enqueueDiff(*work, Extent::Changed, 0, work->getNumTiles());
  compareLaunches = numLaunches;
  return status;
}

/// A launched graph leaves no other trace than what it copied down.
Status DevicePacking::wait() {
  Status status = device->wait(stream);
  if (status.failed())
    return status;
  if (work->totals().reserved)
    return Status::error(DELTA_INVALID_ARGUMENT, "nothing was compared");
  work->totals().reserved = 1;
  return {};
}

Status DevicePacking::plan(Extent newExtent) {
  extent = newExtent;
  rounds.clear();
  SourceTables &rows = active();
  if (extent == Extent::Changed) {
    if (!rows.totals().overflowed) {
      rounds.takeOne(rows);
      return {};
    }
    Status status = rows.readPlaces(0, rows.getNumTiles(), stream);
    if (!status.failed())
      rounds.cut(rows, /*isWhole=*/false, capacity);
    return status;
  }
  numLaunches = 0;
  Status status;
  if (extent == Extent::Whole)
    status = takeBits();
  if (status.failed())
    return status;
  compareLaunches = numLaunches;
  if (rows.getShard().getNumElements() > capacity) {
    rounds.cut(rows, /*isWhole=*/true, capacity);
    return {};
  }
  status = enqueueDiff(rows, extent, 0, rows.getNumTiles());
  compareLaunches = numLaunches;
  if (!status.failed())
    status = device->wait(stream);
  rows.totals().reserved = 1;
  if (!status.failed())
    rounds.takeOne(rows);
  return status;
}

Status DevicePacking::compareRound(uint32_t number, uint64_t &outSent) {
  SourceTables &rows = active();
  auto [begin, end] = rounds.getRange(number);
  Status status = enqueueDiff(rows, extent, begin, end);
  if (!status.failed())
    status = device->wait(stream);
  rows.totals().reserved = 1;
  outSent = rows.totals().sent;
  return status;
}

device::SectionShape DevicePacking::sectionShape(uint32_t section) const {
  const device::SectionPlan &tiles = active().section(section);
  const device::SectionPlace &place = active().place(section);
  return {uint64_t(tiles.endTile - tiles.firstTile), place.numPresent,
          place.offsetsEnd - place.offsetsBegin,
          place.valuesEnd - place.valuesBegin};
}

Status DevicePacking::pack(uint32_t number, const MessageHeader &header) {
  round = number;
  device::SealArguments arguments = active().sealArguments(modeOf(extent));
  arguments.offsets = offsets.as<const uint16_t>();
  arguments.values = values.as<const uint8_t>();
  arguments.header = header;
  arguments.header.round = round;
  arguments.header.numRounds = rounds.getNumRounds();
  uint64_t numBytes = 0;
  for (uint32_t i = 0; i < active().getNumSections(); ++i)
    if (active().place(i).numPresent)
      numBytes += sectionShape(i).numBytes();
  // A thread sums 64 bytes of a small section.
  return launch(DeviceKernel::Seal,
                numBytes / (64 * shapeOf(DeviceKernel::Seal).numThreads) + 1,
                &arguments);
}

Status DevicePacking::finish() { return device->wait(stream); }

const std::vector<delta_bytes_t> &DevicePacking::message(uint32_t index) const {
  const SourceTables &rows = active();
  parts.clear();
  parts.push_back({rows.header(index), HeaderBytes});
  auto add = [&](const uint8_t *data, uint64_t size) {
    if (size)
      parts.push_back({data, size});
  };
  for (uint32_t section : rows.sectionsOf(index)) {
    const device::SectionPlace &place = rows.place(section);
    if (!place.numPresent)
      continue;
    const device::SectionShape shape = sectionShape(section);
    add(rows.heads() + rows.section(section).headAt,
        SectionHeaderBytes + shape.offsetsBegin());
    add(offsets.as<const uint8_t>(place.offsetsBegin * 2),
        device::alignPart(shape.numOffsets * 2));
    add(values.as<const uint8_t>(place.valuesBegin),
        device::alignPart(shape.valueBytes));
  }
  return parts;
}

Status DevicePacking::advance(bool isUnsure) {
  if (!snapshot.hasValues() || work->totals().sent == 0)
    return {};
  hasUnsure |= isUnsure;
  if (snapshot.isUploaded())
    return advanceOnHost(isUnsure);
  device::AdvanceArguments arguments = work->advanceArguments();
  std::tie(arguments.tileBegin, arguments.tileEnd) = rounds.getRange(round);
  arguments.offsets = offsets.as<const uint16_t>();
  arguments.values = values.as<const uint8_t>();
  arguments.moved = isUnsure ? unsure.as() : nullptr;
  return launch(DeviceKernel::Advance,
                uint64_t(arguments.tileEnd - arguments.tileBegin), &arguments);
}

/// Writes what is packed of a tile to its snapshot; returns whether that
/// changed anything, as AdvanceKernel.cuh does.
template <typename Bits>
static bool advanceTile(uint8_t *to, const uint16_t *offsets,
                        const uint8_t *from, uint32_t count) {
  const Bits *values = reinterpret_cast<const Bits *>(from);
  Bits *snapshot = reinterpret_cast<Bits *>(to);
  if (!offsets) {
    if (memcmp(to, from, uint64_t(count) * sizeof(Bits)) == 0)
      return false;
    memcpy(to, from, uint64_t(count) * sizeof(Bits));
    return true;
  }
  for (uint32_t i = 0; i < count; ++i)
    snapshot[offsets[i]] = values[i];
  return true;
}

Status DevicePacking::readStreams() {
  uint64_t numOffsets = 0, valueBytes = 0;
  for (uint32_t i = 0; i < work->getNumSections(); ++i) {
    numOffsets = std::max(numOffsets, work->place(i).offsetsEnd);
    valueBytes = std::max(valueBytes, work->place(i).valuesEnd);
  }
  Status status;
  if (numOffsets)
    status =
        device->copy(hostOffsets.data(), offsets.as(), numOffsets * 2, stream);
  if (!status.failed())
    status = device->copy(hostValues.data(), values.as(), valueBytes, stream);
  auto [begin, end] = rounds.getRange(round);
  return status.failed() ? status : work->readPlaces(begin, end, stream);
}

/// Tiles that a thread advances at a time.
static constexpr int64_t AdvanceGrain = 16;

Status DevicePacking::advanceOnHost(bool isUnsure) {
  Status status = readStreams();
  if (status.failed())
    return status;
  auto advanceOne = [&](int64_t index) {
    const device::TilePlace &place = work->placeOf(index);
    const device::SourceTile &tile = work->tile(index);
    if (!place.changed)
      return;
    const uint16_t *at =
        place.isDense ? nullptr : hostOffsets.as<uint16_t>(place.offsetsAt * 2);
    const uint8_t *from = hostValues.as<uint8_t>(place.valuesAt);
    uint32_t count = place.isDense ? tile.numElements : place.changed;
    uint8_t *to = work->snapshotOf(index);
    bool hasMoved =
        tile.elementSize == 2   ? advanceTile<uint16_t>(to, at, from, count)
        : tile.elementSize == 4 ? advanceTile<uint32_t>(to, at, from, count)
                                : advanceTile<uint64_t>(to, at, from, count);
    if (hasMoved && isUnsure)
      hostUnsure[size_t(index)] = 1;
  };
  auto [begin, end] = rounds.getRange(round);
  const int64_t first = begin;
  pool.run(end - begin, AdvanceGrain, [&](int64_t from, int64_t to, uint32_t) {
    for (int64_t i = from; i < to; ++i)
      advanceOne(first + i);
  });
  isUnsureStale |= isUnsure && begin != end;
  return uploadUnsure();
}

/// The snapshot has advanced already: should the copy fail, it is made before
/// anything is compared again.
Status DevicePacking::uploadUnsure() {
  if (!isUnsureStale)
    return {};
  Status status =
      device->copy(unsure.as(), hostUnsure.data(), hostUnsure.size(), stream);
  isUnsureStale = status.failed();
  return status;
}

Status DevicePacking::settle() {
  Status status;
  if (bitmap.isUsed())
    status = bitmap.clear(stream);
  if (status.failed() || !hasUnsure)
    return status;
  std::fill(hostUnsure.begin(), hostUnsure.end(), uint8_t(0));
  hasUnsure = false;
  isUnsureStale = false;
  return device->fill(unsure.as(), 0, unsure.getNumBytes(), stream);
}

void DevicePacking::clear(bool) {
  rounds.clear();
  moved = nullptr;
  extent = Extent::Changed;
}

PackCounts DevicePacking::getCounts() const {
  PackCounts counts = rounds.getCounts();
  const uint32_t numRounds = rounds.getNumRounds();
  counts.launches = compareLaunches;
  if (numRounds == 1) {
    ++counts.launches; // seal
    return counts;
  }
  // Those to come: compare, seal and advance of each round.
  const bool advances =
      snapshot.hasValues() && !snapshot.isUploaded() && extent != Extent::Moved;
  for (uint32_t i = 0; i < numRounds; ++i) {
    auto [begin, end] = rounds.getRange(i);
    counts.launches +=
        countDiffs(begin, end) + 1 + (advances && rounds.getNumSent(i) != 0);
  }
  return counts;
}

Status DevicePacking::sumTerms(const delta_kernels_t &kernels,
                               const std::vector<FingerprintTerm> &terms,
                               std::vector<uint64_t> &out) {
  if (!sums)
    sums = std::make_unique<DeviceFingerprint>(device, kernels);
  return sums->sum(terms, stream, out);
}
