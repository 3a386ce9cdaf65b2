//===- DeviceAdvance.cpp - The snapshot of a device follows ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The part of DevicePacking that follows a send: by a kernel, called or from a
/// graph of the caller, or by threads for a pageable snapshot.
///
//===----------------------------------------------------------------------===//

#include "runtime/device/DevicePacking.h"

#include <algorithm>
#include <cstring>

using namespace delta::runtime;
namespace device = delta::device;

/// An advance that the caller was to launch, and did not in time: the streams
/// have other changes by now. What follows is right after a full sync.
Status DevicePacking::requireAdvanced() const {
  return work->orders().mayAdvance
             ? Status::error(DELTA_REFUSED,
                             "the advance of the version before was not "
                             "launched; a full sync is required")
             : Status();
}

/// A graph may have been launched at the wrong time.
Status DevicePacking::requireSame(const SourceTables &rows) const {
  return rows.totals().reserved
             ? Status()
             : Status::error(DELTA_REFUSED,
                             "what is packed was overwritten by a compare");
}

device::AdvanceArguments DevicePacking::advanceArguments(bool asks) const {
  device::AdvanceArguments out = work->advanceArguments(asks);
  out.tileEnd = work->getNumTiles();
  out.offsets = offsets.as<const uint16_t>();
  out.values = values.as<const uint8_t>();
  return out;
}

Status DevicePacking::advance(bool isUnsure) {
  Status status = requireSame(*work);
  if (status.failed() || work->totals().sent == 0)
    return status;
  if (!snapshot.hasValues())
    return isUnsure && extent == Extent::Changed
               ? enqueueRestore(/*isSent=*/true)
               : Status();
  hasUnsure |= isUnsure;
  if (snapshot.isUploaded())
    return advanceOnHost(isUnsure);
  device::AdvanceArguments arguments = advanceArguments(/*asks=*/false);
  std::tie(arguments.tileBegin, arguments.tileEnd) = rounds.getRange(round);
  arguments.moved = isUnsure ? unsure.as() : nullptr;
  return launch(DeviceKernel::Advance,
                uint64_t(arguments.tileEnd - arguments.tileBegin), &arguments);
}

Status DevicePacking::letAdvance() {
  if (!advancesByKernel())
    return advance(/*isUnsure=*/false);
  Status status = requireSame(*work);
  if (!status.failed() && work->totals().sent)
    work->orders().mayAdvance = 1;
  return status;
}

Status DevicePacking::advanceIfMay() {
  if (!advancesByKernel())
    return {};
  Status status = work->sendOrders(stream);
  const device::AdvanceArguments arguments = advanceArguments(/*asks=*/true);
  return status.failed() ? status
                         : launch(DeviceKernel::Advance,
                                  uint64_t(arguments.tileEnd), &arguments);
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

/// Marks that were set meanwhile stay. What a compare has taken that came too
/// early has another number, so it is not forgotten with the rest.
Status DevicePacking::settle() {
  Status status = requireSame(*work);
  if (status.failed())
    return status;
  work->orders().confirmed = takenNumber;
  if (!(hasUnsure || bitmap.isUsed()))
    return {};
  std::fill(hostUnsure.begin(), hostUnsure.end(), uint8_t(0));
  hasUnsure = false;
  isUnsureStale = false;
  return device->fill(unsure.as(), 0, unsure.getNumBytes(), stream);
}
