//===- Snapshot.cpp - What the receivers hold, on a device ----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Snapshot.h"

#include "codegen/device/PackFormat.h"
#include "runtime/device/SourceTables.h"

#include <algorithm>

using namespace delta::runtime;
namespace device = delta::device;
using delta::device::alignPart;

static uint64_t bytesOfTile(const TileRef &tile) {
  return alignPart(uint64_t(tile.numElements()) * tile.elementSize());
}

Snapshot::~Snapshot() {
  if (!device)
    return;
  // Uploads that are under way write to the buffers.
  if (uploads)
    (void)device->wait(uploads);
  for (void *event :
       {begun, uploaded[0], uploaded[1], released[0], released[1]})
    if (event)
      device->destroyEvent(event);
  if (uploads)
    device->destroyStream(uploads);
}

uint64_t Snapshot::bytesOf(const Shard &shard) {
  uint64_t total = 0;
  shard.forEachTile(0, shard.getNumTiles(),
                    [&](const TileRef &tile) { total += bytesOfTile(tile); });
  return total;
}

Status Snapshot::create(std::shared_ptr<Device> on, delta_snapshot_t newMode,
                        const Shard &shard, uint64_t newChunkBytes) {
  device = std::move(on);
  mode = newMode;
  if (!hasValues())
    return {};
  const uint64_t numBytes = bytesOf(shard);
  if (!isUploaded())
    return values.allocate(device, numBytes, mode == DELTA_SNAPSHOT_PINNED);
  // A chunk holds whole tiles, one at least; none is larger than what there is.
  uint64_t largest =
      alignPart(uint64_t(shard.getLargestTile()) * shard.getLargestElement());
  chunkBytes = std::max(std::min(alignPart(newChunkBytes), numBytes), largest);
  pageable.grow(numBytes + device::PartAlignment);
  Status status = buffers.allocate(device, 2 * chunkBytes);
  if (!status.failed())
    status = device->createStream(uploads);
  for (void **event :
       {&begun, &uploaded[0], &uploaded[1], &released[0], &released[1]})
    if (!status.failed())
      status = device->createEvent(*event);
  return status;
}

std::vector<uint8_t *> Snapshot::layOut(const Shard &shard) const {
  std::vector<uint8_t *> places;
  if (!hasValues())
    return places;
  auto *begin = isUploaded() ? pageable.data() : values.as();
  auto at = alignPart(reinterpret_cast<uintptr_t>(begin)) -
            reinterpret_cast<uintptr_t>(begin);
  places.reserve(size_t(shard.getNumTiles()));
  shard.forEachTile(0, shard.getNumTiles(), [&](const TileRef &tile) {
    places.push_back(begin + at);
    at += bytesOfTile(tile);
  });
  return places;
}

Status Snapshot::clear(Stream stream) {
  return mode == DELTA_SNAPSHOT_DEVICE
             ? device->fill(values.as(), 0, values.getNumBytes(), stream)
             : Status();
}

Status Snapshot::beginUploads(Stream stream) {
  wasReleased[0] = wasReleased[1] = false;
  Status status = device->record(begun, stream);
  return status.failed() ? status : device->await(begun, uploads);
}

Status Snapshot::upload(const SourceTables &tables, uint32_t chunk,
                        int64_t begin, int64_t end, Stream stream) {
  Status status;
  if (wasReleased[chunk % 2])
    status = device->await(released[chunk % 2], uploads);
  // Neighbors in the order of the tiles nearly always are neighbors in memory.
  for (int64_t tile = begin; tile < end && !status.failed();) {
    const uint8_t *from = tables.snapshotOf(tile);
    uint8_t *to = tables.tile(tile).snapshot;
    uint64_t numBytes = 0;
    do {
      numBytes += alignPart(uint64_t(tables.tile(tile).numElements) *
                            tables.tile(tile).elementSize);
      ++tile;
    } while (tile < end && tables.snapshotOf(tile) == from + numBytes &&
             tables.tile(tile).snapshot == to + numBytes);
    status = device->copy(to, from, numBytes, uploads);
  }
  if (!status.failed())
    status = device->record(uploaded[chunk % 2], uploads);
  return status.failed() ? status : device->await(uploaded[chunk % 2], stream);
}

Status Snapshot::release(uint32_t chunk, Stream stream) {
  wasReleased[chunk % 2] = true;
  return device->record(released[chunk % 2], stream);
}
