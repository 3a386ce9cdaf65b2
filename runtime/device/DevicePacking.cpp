//===- DevicePacking.cpp - A sender's memory on a device ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/DevicePacking.h"

#include <algorithm>

using namespace delta::runtime;

/// The part of a shard's elements that a round holds, unless told otherwise.
static constexpr uint64_t DefaultShare = 16;

Status DevicePacking::create(std::shared_ptr<Device> device,
                             const delta_tables_t &tables, Shard &shard,
                             Pool &pool, std::unique_ptr<Packing> &out,
                             uint64_t chunkBytes) {
  std::unique_ptr<DevicePacking> made(
      new DevicePacking(std::move(device), tables, pool));
  made->shard = &shard;
  Status status = made->allocate(chunkBytes);
  if (!status.failed())
    out = std::move(made);
  return status;
}

Sender::PackingMaker delta::runtime::onDevice(std::shared_ptr<Device> device,
                                              const delta_tables_t &tables,
                                              uint64_t chunkBytes) {
  return {/*keepsSnapshot=*/false,
          [device = std::move(device), &tables, chunkBytes](
              Shard &shard, Pool &pool, std::unique_ptr<Packing> &out) {
            return DevicePacking::create(device, tables, shard, pool, out,
                                         chunkBytes);
          }};
}

Status DevicePacking::allocate(uint64_t chunkBytes) {
  delta_snapshot_t mode = tables.snapshot;
  Status status = snapshot.create(device, mode, *shard, chunkBytes);
  if (!status.failed())
    status = snapshot.clear(stream);
  if (!status.failed() && mode == DELTA_SNAPSHOT_BITMAP)
    status = bitmap.create(device, tables, *shard, stream);
  if (!status.failed())
    status = makeTables(*shard, /*like=*/nullptr, /*alsoTo=*/{}, work);
  if (!status.failed())
    status = unsure.allocate(device, uint64_t(shard->getNumTiles()));
  if (!status.failed())
    status = device->fill(unsure.as(), 0, unsure.getNumBytes(), stream);
  if (!status.failed())
    status = setCapacity(0);
  return status;
}

const char *DevicePacking::textOf(MemoryKind kind) {
  switch (kind) {
  case MemoryKind::Host:
    return "memory of the host";
  case MemoryKind::Pinned:
    return "pinned memory of the host";
  case MemoryKind::Device:
    return "memory of the current device";
  case MemoryKind::Unknown:
    break;
  }
  return "memory of another kind";
}

Status DevicePacking::checkMemory(const delta_tables_t &tables,
                                  const Shard &of) const {
  const Expansion &expansion = of.getExpansion();
  for (size_t i = 0; i < expansion.params.size(); ++i) {
    MemoryKind kind = device->kindOf(of.getData()[i]);
    if (kind == MemoryKind::Device)
      continue;
    const Side side(tables, DELTA_SOURCE);
    return Status::error(DELTA_BIND_MISMATCH,
                         "rank %u: \"%s\": bind: %s, required: %s",
                         expansion.rank, side.name(expansion.params[i]).c_str(),
                         textOf(kind), textOf(MemoryKind::Device));
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Rows, addresses and sizes
//===----------------------------------------------------------------------===//

/// Tables of the rows of `of`; each keeps the snapshot that it has in `like`.
Status DevicePacking::makeTables(const Shard &of, const SourceTables *like,
                                 const std::vector<uint32_t> &alsoTo,
                                 std::unique_ptr<SourceTables> &out) {
  auto made = std::make_unique<SourceTables>();
  Status status = made->create(device, of, snapshot, like, alsoTo);
  if (!status.failed())
    status = made->upload(bitmap.bitsOf(of), stream);
  // A graph that is launched too early finds that nothing is packed, and the
  // first compare that no mark is taken.
  if (!status.failed())
    status = made->clear(stream);
  if (!status.failed() && bitmap.isUsed())
    status = device->fill(made->numTaken(), 0, sizeof(uint64_t), stream);
  if (!status.failed())
    out = std::move(made);
  return status;
}

Status DevicePacking::replace(Shard &next) {
  Status status = restoreMarks();
  if (!status.failed())
    status = device->wait(stream);
  if (!status.failed())
    status = requireAdvanced();
  std::unique_ptr<SourceTables> made;
  if (!status.failed())
    status = makeTables(next, work.get(), /*alsoTo=*/{}, made);
  if (!status.failed())
    status = reserveStreams(made->getNumSections());
  if (!status.failed() && (hasUnsure || bitmap.isUsed()))
    status = moveUnsure(made->tilesIn(*work));
  if (status.failed())
    return status;
  work = std::move(made);
  shard = &next;
  return {};
}

/// Tile i is now what was tile `from[i]`; so it is where threads note it, for a
/// pageable snapshot.
Status DevicePacking::moveUnsure(const std::vector<int64_t> &from) {
  std::vector<uint8_t> before(from.size()), after(from.size());
  if (from.empty())
    return {};
  Status status = uploadUnsure();
  if (!status.failed())
    status = device->copy(before.data(), unsure.as(), before.size(), stream);
  if (!status.failed())
    status = device->wait(stream);
  if (status.failed())
    return status;
  for (size_t i = 0; i < from.size(); ++i)
    after[i] = before[size_t(from[i])];
  status = device->copy(unsure.as(), after.data(), after.size(), stream);
  if (!status.failed())
    status = device->wait(stream);
  if (!status.failed() && !hostUnsure.empty())
    hostUnsure = std::move(after);
  return status;
}

Status DevicePacking::begin(const Shard &rows) {
  std::unique_ptr<SourceTables> made;
  Status status = makeTables(rows, work.get(), work->getDestinations(), made);
  if (!status.failed())
    status = requireAdvanced();
  if (!status.failed())
    status = reserveStreams(made->getNumSections());
  if (!status.failed())
    moved = std::move(made);
  return status;
}

/// Bits say what was written, not what lies elsewhere: all is marked.
Status DevicePacking::rebind() {
  Status status = work->upload(bitmap.bitsOf(*shard), stream);
  if (bitmap.isUsed())
    for (uint32_t i = 0; i < shard->getData().size() && !status.failed(); ++i)
      status = bitmap.mark(i, stream);
  return status;
}

Status DevicePacking::setStream(void *newStream) {
  // What is captured runs where its graph is launched, which is the caller's
  // business, and while it is captured nobody may wait for anything.
  if (newStream != worked && !device->isCapturing(newStream)) {
    // What is under way on the old one does not wait for the new one.
    Status status = device->wait(worked);
    if (status.failed())
      return status;
    worked = newStream;
  }
  stream = newStream;
  return {};
}

Status DevicePacking::setCapacity(uint64_t elements) {
  if (elements == 0)
    elements = std::max<uint64_t>(
        {(shard->getNumElements() + DefaultShare - 1) / DefaultShare,
         shard->getLargestTile(), 1}); // a rank may have nothing to send
  const uint64_t before = capacity;
  Status status = restoreMarks();
  if (!status.failed())
    status = device->wait(stream);
  if (status.failed())
    return status;
  status = allocateStreams(elements, work->getNumSections());
  // What was given back a moment ago is there again.
  if (status.failed() && before)
    (void)allocateStreams(before, work->getNumSections());
  return status;
}

Status DevicePacking::reserveStreams(uint64_t numSections) {
  if (numSections <= streamSections)
    return {};
  const uint64_t before = streamSections;
  Status status = device->wait(stream);
  if (status.failed())
    return status;
  const uint64_t elements = capacity;
  status = allocateStreams(elements, numSections);
  if (status.failed())
    (void)allocateStreams(elements, before);
  return status;
}

/// The old streams go first, so that both need not fit; with them what was
/// compared and not packed.
Status DevicePacking::allocateStreams(uint64_t elements, uint64_t numSections) {
  capacity = 0;
  work->totals().reserved = 1;
  offsets.release();
  values.release();
  hostOffsets.release();
  hostValues.release();
  const uint64_t room = (numSections + 1) * device::PartAlignment;
  const uint64_t offsetBytes = elements * 2 + room;
  const uint64_t valueBytes = elements * shard->getLargestElement() + room;
  Status status = offsets.allocate(device, offsetBytes);
  if (!status.failed())
    status = values.allocate(device, valueBytes);
  if (status.failed())
    return status;
  if (snapshot.isUploaded()) {
    hostOffsets.grow(offsetBytes);
    hostValues.grow(valueBytes);
    hostUnsure.resize(size_t(shard->getNumTiles()));
  }
  rounds.reserve(shard->getNumElements(), elements);
  capacity = elements;
  streamSections = numSections;
  return {};
}

uint64_t DevicePacking::getBufferBytes() const {
  return offsets.getNumBytes() + values.getNumBytes() + work->getNumBytes() +
         (moved ? moved->getNumBytes() : 0);
}
