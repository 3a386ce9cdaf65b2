//===- DeviceIntake.cpp - Messages and parameters of a GPU ----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/DeviceIntake.h"

#include <algorithm>
#include <cstring>

using namespace delta::runtime;
namespace device = delta::device;

/// Where the reports begin behind the totals.
static constexpr uint64_t ReportsAt = sizeof(device::StageTotals);
static_assert(ReportsAt % alignof(device::MessageReport) == 0,
              "reports follow the totals");

DeviceIntake::~DeviceIntake() {
  // Nothing is freed that a commit still reads.
  (void)device->wait(stream);
}

static const char *nameOf(MemoryKind kind) {
  return kind == MemoryKind::Host     ? "memory of the host"
         : kind == MemoryKind::Pinned ? "pinned memory of the host"
         : kind == MemoryKind::Device ? "memory of the device"
                                      : "memory of no known kind";
}

Status DeviceIntake::checkMemory(const Landing &landing) {
  for (uint32_t i = 0; i < landing.getData().size(); ++i) {
    MemoryKind kind = MemoryKind::Device;
    if (landing.getNumElements(i) > 0)
      kind = device->kindOf(landing.getData()[i]);
    if (kind != MemoryKind::Device)
      return Status::error(DELTA_BIND_MISMATCH,
                           "rank %u: \"%s\": bind: %s, required: memory of the "
                           "current device",
                           landing.getRank(), landing.paramName(i).c_str(),
                           nameOf(kind));
  }
  return {};
}

Status DeviceIntake::allocate(Room &out) const {
  const uint64_t reports =
      ReportsAt + out.numMessages * sizeof(device::MessageReport);
  const uint64_t numParts = uint64_t(out.numMessages) * out.partsOfMessage;
  Status status = out.results.allocate(device, reports);
  if (!status.failed())
    status = out.parts.allocate(device, numParts * sizeof(device::StagedPart));
  if (!status.failed())
    status = out.segments.allocate(device, out.numSegments *
                                               sizeof(device::SegmentSums));
  if (!status.failed())
    status =
        out.staged.allocate(device, out.numTiles * sizeof(device::StagedTile));
  if (!status.failed() && tables.num_refreshes)
    status = out.reached.allocate(device, out.numTiles);
  if (!status.failed())
    status = out.pinned.allocate(
        device, out.numMessages * sizeof(device::MessagePlace) + reports,
        /*pinned=*/true);
  return status;
}

/// What is staged lists tiles by their numbers, so it stays right where the
/// rows do.
Status DeviceIntake::land(const Landing &landing, const Landing *moved) {
  Room made;
  Status status =
      DeviceLanding::create(device, tables, landing, stream, made.landing);
  made.hasMoved = moved != nullptr;
  if (!status.failed() && moved)
    status = DeviceLanding::create(device, tables, *moved, stream, made.moved);
  if (status.failed())
    return status;
  made.numMessages =
      std::max<uint32_t>(1, uint32_t(landing.getSources().size()));
  made.partsOfMessage = std::max(
      {1u, made.landing.getMostSections(), made.moved.getMostSections()});
  made.numSegments =
      made.landing.getNumSegments() + made.moved.getNumSegments();
  made.numTiles =
      std::max(made.landing.getNumTiles(), made.moved.getNumTiles());
  const bool isSame = numAccepted && made.numTiles == room.numTiles;
  status = allocate(made);
  if (status.failed())
    return status;
  if (isSame) {
    std::swap(made.staged, room.staged);
    std::swap(made.reached, room.reached);
    // Counters that the next launch takes up.
    status =
        device->copy(made.results.as(), room.results.as(), ReportsAt, stream);
    if (!status.failed())
      status = device->wait(stream);
    if (status.failed())
      return status;
  }
  room = std::move(made);
  return {};
}

Status DeviceIntake::setStream(void *next) {
  Status status = device->wait(stream);
  if (!status.failed())
    stream = next;
  return status;
}

/// A free record: for a copy the smallest that is large enough, else the
/// largest; without a copy the smallest.
uint32_t DeviceIntake::findRecord(uint64_t numBytes, bool isCopied) {
  uint32_t found = DELTA_NONE;
  for (uint32_t i = 0; i < records.size(); ++i) {
    if (records[i].isUsed)
      continue;
    if (found == DELTA_NONE) {
      found = i;
      continue;
    }
    uint64_t size = records[i].copy.getNumBytes();
    uint64_t best = records[found].copy.getNumBytes();
    bool fits = isCopied && size >= numBytes, bestFits = best >= numBytes;
    if (!isCopied || (fits && bestFits) ? size < best : size > best)
      found = i;
  }
  if (found == DELTA_NONE) {
    found = uint32_t(records.size());
    records.emplace_back();
  }
  return found;
}

Status DeviceIntake::add(Message &message) {
  const delta_bytes_t from = message.bytes;
  message.isLent &=
      device->kindOf(from.data) == MemoryKind::Device &&
      reinterpret_cast<uintptr_t>(from.data) % device::PartAlignment == 0;
  message.number = findRecord(from.size, !message.isLent);
  Record &record = records[message.number];
  record.isUsed = true;
  record.numBytes = from.size;
  record.bytes = static_cast<const uint8_t *>(from.data);
  if (message.isLent)
    return {};
  Status status;
  if (record.copy.getNumBytes() < from.size || !record.copy.as())
    status = record.copy.allocate(device, from.size + from.size / 4);
  if (!status.failed() && from.size)
    status = device->copy(record.copy.as(), from.data, from.size, stream);
  if (status.failed())
    return status;
  record.bytes = record.copy.as();
  message.bytes = {record.bytes, from.size};
  return {};
}

Status DeviceIntake::launch(DeviceKernel kernel, uint64_t numItems,
                            const void *arguments) {
  uint64_t most =
      uint64_t(device->getNumProcessors()) * shapeOf(kernel).blocksOfProcessor;
  uint64_t numBlocks = std::max<uint64_t>(1, std::min(numItems, most));
  return device->launch(kernel, uint32_t(numBlocks), arguments, stream);
}

Status DeviceIntake::launchStage(Message *const *messages, size_t count) {
  auto *places = room.pinned.as<device::MessagePlace>();
  uint64_t numItems = room.numSegments;
  bool hasSections = false;
  for (size_t i = 0; i < count; ++i) {
    const Record &record = records[messages[i]->number];
    places[i] = {record.bytes, record.numBytes, messages[i]->expectedSource, 0};
    numItems += device::chunksOf(record.numBytes) + room.partsOfMessage;
    hasSections |= record.numBytes > HeaderBytes;
  }
  device::StageArguments arguments = {};
  arguments.messages = places;
  arguments.numMessages = uint32_t(count);
  arguments.partsOfMessage = room.partsOfMessage;
  arguments.landing = room.landing.getTables();
  if (room.hasMoved)
    arguments.moved = room.moved.getTables();
  arguments.reports = room.results.as<device::MessageReport>(ReportsAt);
  arguments.parts = room.parts.as<device::StagedPart>();
  arguments.segments = room.segments.as<device::SegmentSums>();
  arguments.segmentRoom = room.numSegments;
  arguments.staged = room.staged.as<device::StagedTile>() + numAccepted;
  arguments.stagedRoom = room.numTiles - numAccepted;
  arguments.totals = totals();
  Status status = launch(DeviceKernel::Frames, 1, &arguments);
  if (!status.failed() && hasSections)
    status = launch(DeviceKernel::Sections, numItems, &arguments);
  if (!status.failed() && hasSections)
    status = launch(DeviceKernel::Heads, room.numSegments, &arguments);
  if (!status.failed() && hasSections)
    status = launch(DeviceKernel::Offsets, (room.numTiles + 7) / 8, &arguments);
  return status;
}

/// Totals and reports of a batch, behind the messages in pinned memory.
Status DeviceIntake::fetchResults(size_t count) {
  const uint64_t at = room.numMessages * sizeof(device::MessagePlace);
  Status status =
      device->copy(room.pinned.as(at), room.results.as(),
                   ReportsAt + count * sizeof(device::MessageReport), stream);
  return status.failed() ? status : device->wait(stream);
}

Status DeviceIntake::read(Message *const *messages, size_t count) {
  if (count == 0)
    return {};
  batchSize = count;
  numBatchAccepted = 0;
  batchTiles = 0;
  Status status = launchStage(messages, count);
  if (!status.failed())
    status = fetchResults(count);
  if (status.failed())
    return status;
  const uint64_t at = room.numMessages * sizeof(device::MessagePlace);
  const auto *reports = room.pinned.as<device::MessageReport>(at + ReportsAt);
  for (size_t i = 0; i < count; ++i)
    records[messages[i]->number].report = reports[i];
  batchTiles = room.pinned.as<device::StageTotals>(at)->numStaged;
  return {};
}

Status DeviceIntake::fetch(const void *from, void *to, uint64_t numBytes) {
  Status status = device->copy(to, from, numBytes, stream);
  return status.failed() ? status : device->wait(stream);
}

bool DeviceIntake::peek(const Message &message, MessageHeader &outHeader) {
  if (message.bytes.size < HeaderBytes)
    return false;
  if (message.number != DELTA_NONE) {
    outHeader = records[message.number].report.header;
    return true;
  }
  if (device->kindOf(message.bytes.data) != MemoryKind::Device) {
    outHeader = readHeader(static_cast<const uint8_t *>(message.bytes.data));
    return true;
  }
  return !fetch(message.bytes.data, &outHeader, sizeof(outHeader)).failed();
}

/// Copies a message to the host.
Status DeviceIntake::explain(Message &message) {
  const Record &record = records[message.number];
  message.copy.grow(record.numBytes + 1);
  return record.numBytes
             ? fetch(record.bytes, message.copy.data(), record.numBytes)
             : Status();
}

Status DeviceIntake::readFrame(Message &message, MessageHeader &outHeader) {
  Record &record = records[message.number];
  outHeader = record.report.header;
  if (!isRefused(message))
    return {};
  Status status = explain(message);
  if (status.failed())
    return status;
  record.views.clear();
  return runtime::readFrame(message.copy.data(), record.numBytes, outHeader,
                            record.views);
}

Status DeviceIntake::readSections(Message &message, const MessageHeader &header,
                                  const Landing &to, StagedSpan &out) {
  Record &record = records[message.number];
  if (isRefused(message)) {
    explained.clear();
    return runtime::readSections(pool, to, header, record.views, explained,
                                 out);
  }
  // Its tables were made after it was read.
  if (record.report.flags & device::UnlandedMessage) {
    Message *again = &message;
    Status status = read(&again, 1);
    MessageHeader ignored;
    if (!status.failed() && record.report.flags)
      status = readFrame(message, ignored);
    if (status.failed())
      return status;
    if (isRefused(message))
      return readSections(message, header, to, out);
  }
  isMoved = header.isMoved();
  const DeviceLanding &tables = landingOf(isMoved);
  out = {};
  out.numTiles = record.report.numTiles;
  if (out.numTiles) {
    out.first = tables.tileOf(to, record.report.firstTile);
    out.last = tables.tileOf(to, record.report.lastTile);
  }
  return {};
}

/// The tiles of a batch are staged when all of its messages are: where one is
/// not, the receiver drops them all.
Status DeviceIntake::accept(Message &message) {
  if (records[message.number].report.flags)
    return Status::error(DELTA_INTERNAL,
                         "the device refuses what the host takes");
  if (++numBatchAccepted == batchSize)
    numAccepted += batchTiles;
  return {};
}

void DeviceIntake::drop(Message &message) {
  if (message.number != DELTA_NONE)
    records[message.number].isUsed = false;
  message.number = DELTA_NONE;
  message.copy.release();
}

void DeviceIntake::clear() {
  numAccepted = 0;
  listed.clear();
}
