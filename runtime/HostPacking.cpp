//===- HostPacking.cpp - A sender's memory on the host --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/HostPacking.h"

using namespace delta::runtime;

HostPacking::HostPacking(Shard &shard, Pool &pool) : pool(pool), shard(&shard) {
  work.shard = &shard;
  work.changes = std::make_unique<Diff>(shard, pool);
  work.packer = std::make_unique<Packer>(shard, pool);
}

/// Each row keeps its snapshot. All is made before anything is replaced.
Status HostPacking::replace(Shard &next) {
  Work made;
  made.shard = &next;
  made.changes = std::make_unique<Diff>(next, pool);
  made.packer = std::make_unique<Packer>(next, pool);
  made.changes->setCapacity(capacity);
  made.packer->setCapacity(capacity);
  const std::vector<Row> &rows = next.getExpansion().rows;
  const std::vector<Row> &old = shard->getExpansion().rows;
  const std::vector<size_t> places = next.rowsIn(*shard);
  for (size_t i = 0; i < rows.size(); ++i)
    for (int64_t tile = 0; tile < rows[i].numTiles(); ++tile)
      if (work.changes->isUnsureTile(old[places[i]].firstTile + tile))
        made.changes->setUnsure(rows[i].firstTile + tile);
  next.adoptSnapshot(*shard);
  work = std::move(made);
  shard = &next;
  isCompared = false;
  return {};
}

Status HostPacking::begin(const Shard &rows) {
  Work made;
  made.shard = &rows;
  made.changes = std::make_unique<Diff>(rows, pool);
  made.packer =
      std::make_unique<Packer>(rows, pool, work.packer->getDestinations());
  made.packer->setCapacity(capacity);
  moved = std::move(made);
  return {};
}

Status HostPacking::setStream(void *stream) {
  if (!stream)
    return {};
  return Status::error(DELTA_INVALID_ARGUMENT,
                       "a stream, required for a plan of the host: null");
}

Status HostPacking::setCapacity(uint64_t elements) {
  capacity = elements;
  work.changes->setCapacity(elements);
  work.packer->setCapacity(elements);
  isCompared = false;
  return {};
}

Status HostPacking::compare() {
  work.changes->run();
  isCompared = true;
  return {};
}

Status HostPacking::wait() {
  if (!isCompared)
    return Status::error(DELTA_INVALID_ARGUMENT, "nothing was compared");
  isCompared = false;
  return {};
}

Status HostPacking::plan(Extent newExtent) {
  extent = newExtent;
  isCompared = false;
  const Work &rows = active();
  if (extent != Extent::Changed)
    rows.changes->markAll();
  rows.packer->plan(*rows.changes);
  return {};
}

/// Only the number of changes was kept of each tile.
Status HostPacking::compareRound(uint32_t round, uint64_t &outSent) {
  const Work &rows = active();
  if (extent == Extent::Changed) {
    auto [begin, end] = rows.packer->getRange(round);
    rows.changes->run(begin, end);
  }
  outSent = rows.packer->countSent(*rows.changes, round);
  return {};
}

Status HostPacking::order(uint32_t newRound, const MessageHeader &newHeader) {
  round = newRound;
  header = newHeader;
  isOrdered = true;
  isSealed = false;
  return {};
}

Status HostPacking::seal() {
  // Several rounds are ordered one by one, by who sends them.
  if (!isOrdered)
    return getNumRounds() > 1
               ? Status()
               : Status::error(DELTA_INVALID_ARGUMENT, "nothing is packed");
  active().packer->pack(*active().changes, round, header);
  isSealed = true;
  return {};
}

Status HostPacking::finish() {
  return isSealed
             ? Status()
             : Status::error(DELTA_REFUSED, "what is packed is not sealed");
}

Status HostPacking::advance(bool isUnsure) {
  if (isUnsure)
    work.packer->advanceSnapshot(
        [this](int64_t tile) { work.changes->setUnsure(tile); });
  else
    work.packer->advanceSnapshot();
  return {};
}

Status HostPacking::settle() {
  work.changes->clearUnsure();
  return {};
}

void HostPacking::clear(bool release) {
  work.packer->clear(release);
  moved = {};
  extent = Extent::Changed;
  isOrdered = isSealed = false;
}

PackCounts HostPacking::getCounts() const {
  const Packer &packer = *active().packer;
  uint32_t numRounds = packer.getNumRounds();
  PackCounts counts;
  counts.elements = active().shard->getNumElements();
  counts.changed = active().changes->getNumChanged();
  counts.tiles = packer.getNumTiles();
  counts.denseTiles = packer.getNumDenseTiles();
  counts.messageBytes = packer.getMessageBytes();
  // Copy and seal; before them a compare, once more for each of many rounds.
  counts.launches = packer.getNumTiles() ? 2 * numRounds : 0;
  if (extent == Extent::Changed)
    counts.launches += 1 + (numRounds > 1 ? numRounds : 0);
  return counts;
}

static Status needsBitmap() {
  return Status::error(DELTA_INVALID_ARGUMENT,
                       "the plan is for the host, required: one for CUDA with "
                       "sync.snapshot \"bitmap\"");
}

Status HostPacking::cast(uint32_t, const float *, int64_t, int64_t) {
  return needsBitmap();
}

Status HostPacking::mark(uint32_t) { return needsBitmap(); }

Status HostPacking::marks(bool, void *&, uint64_t &) { return needsBitmap(); }

Status HostPacking::dropMarks() { return needsBitmap(); }
