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
  switch (of) {
  case Extent::Whole:
  case Extent::Replay:
    return device::DiffWhole;
  case Extent::Moved:
    return device::DiffSnapshot;
  case Extent::Changed:
    break;
  }
  return snapshot.hasValues() ? device::DiffDelta : device::DiffBits;
}

/// Whether a launch has a part for each chunk: it reads what is uploaded.
bool DevicePacking::isChunked(Extent of) const {
  return snapshot.isUploaded() && modeOf(of) != device::DiffWhole;
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
  if (!status.failed())
    status = takeMarks(of, begin, end);
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
    status = enqueueRestore(/*isSent=*/false);
  if (!status.failed())
    status = enqueueDiff(*work, Extent::Changed, 0, work->getNumTiles());
  compareLaunches = numLaunches;
  return status;
}

/// What was copied down is used; what is copied down later comes from a graph.
void DevicePacking::noteRead(SourceTables &rows) {
  rows.totals().reserved = 1;
  takenNumber = rows.takenBack().number;
}

/// A launched graph leaves no other trace than what it copied down.
Status DevicePacking::wait() {
  Status status = device->wait(stream);
  if (status.failed())
    return status;
  if (work->totals().reserved)
    return Status::error(DELTA_INVALID_ARGUMENT, "nothing was compared");
  noteRead(*work);
  return requireAdvanced();
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
  Status status = restoreMarks();
  if (status.failed())
    return status;
  wholeLaunches = numLaunches;
  if (rows.getShard().getNumElements() > capacity) {
    // compareRound is to find what is launched from now on.
    status = device->wait(stream);
    noteRead(rows);
    if (!status.failed())
      rounds.cut(rows, /*isWhole=*/true, capacity);
    return status;
  }
  status = enqueueDiff(rows, extent, 0, rows.getNumTiles());
  wholeLaunches = numLaunches;
  if (!status.failed())
    status = device->wait(stream);
  noteRead(rows);
  if (!status.failed())
    rounds.takeOne(rows);
  return status;
}

Status DevicePacking::compareRound(uint32_t number, uint64_t &outSent) {
  SourceTables &rows = active();
  auto [begin, end] = rounds.getRange(number);
  Status status;
  // What a compare in between has taken must not be cleared.
  if (bitmap.isUsed())
    status = device->wait(stream);
  if (!status.failed())
    status = requireSame(rows);
  if (status.failed())
    return status;
  status = enqueueDiff(rows, extent, begin, end);
  if (!status.failed())
    status = device->wait(stream);
  noteRead(rows);
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

Status DevicePacking::order(uint32_t number, const MessageHeader &header) {
  round = number;
  device::SyncOrders &orders = active().orders();
  orders.header = header;
  orders.isSealed = orders.mayAdvance = 0;
  orders.header.round = round;
  orders.header.numRounds = rounds.getNumRounds();
  return {};
}

/// The launch depends on the memory of a sync, not on what is packed in it.
Status DevicePacking::seal() {
  if (!rounds.getNumRounds() && !device->isCapturing(stream))
    return Status::error(DELTA_INVALID_ARGUMENT, "nothing is packed");
  device::SealArguments arguments = active().sealArguments();
  arguments.offsets = offsets.as<const uint16_t>();
  arguments.values = values.as<const uint8_t>();
  const uint64_t numBytes =
      active().getHeadBytes() + offsets.getNumBytes() + values.getNumBytes();
  // A thread sums 64 bytes of a small section.
  return launch(DeviceKernel::Seal,
                numBytes / (64 * shapeOf(DeviceKernel::Seal).numThreads) + 1,
                &arguments);
}

Status DevicePacking::finish() {
  Status status = device->wait(stream);
  if (!status.failed())
    status = requireSame(active());
  if (!status.failed() && !active().orders().isSealed)
    status = Status::error(DELTA_REFUSED, "what is packed is not sealed");
  return status;
}

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

void DevicePacking::clear(bool) {
  rounds.clear();
  moved = nullptr;
  extent = Extent::Changed;
}

PackCounts DevicePacking::getCounts() const {
  PackCounts counts = rounds.getCounts();
  const uint32_t numRounds = rounds.getNumRounds();
  counts.launches = extent == Extent::Changed ? compareLaunches : wholeLaunches;
  if (numRounds == 1) {
    ++counts.launches; // seal
    return counts;
  }
  // Those to come: compare, seal, and advance or take of each round.
  const bool advances = snapshot.hasValues()
                            ? advancesByKernel() && extent != Extent::Moved
                            : extent == Extent::Changed;
  for (uint32_t i = 0; i < numRounds; ++i) {
    auto [begin, end] = rounds.getRange(i);
    counts.launches += countDiffs(begin, end) + 1 +
                       (advances && rounds.getNumSent(i) != 0) +
                       takesMarks(extent);
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
