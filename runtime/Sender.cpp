//===- Sender.cpp - One trainer rank --------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Sender.h"

#include <algorithm>
#include <chrono>

using namespace delta::runtime;

static double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

static unsigned long long number(uint64_t value) { return value; }

Status Sender::create(const delta_tables_t &tables,
                      const delta_kernels_t &kernels, uint32_t rank,
                      const delta_param_t *params, uint32_t numParams,
                      uint64_t run, uint32_t numThreads,
                      std::unique_ptr<Sender> &out) {
  Status status = checkTables(tables);
  if (status.failed())
    return status;
  std::unique_ptr<Sender> sender(new Sender(tables, kernels, run, numThreads));
  Expander expander(tables);
  sender->placement = expander.getDestination().getSlots();
  Work &work = sender->work;
  work.shard = std::make_unique<Shard>();
  status =
      Shard::create(expander, kernels, rank, params, numParams, *work.shard);
  if (status.failed())
    return status;
  sender->bound.take(params, numParams);
  work.changes = std::make_unique<Diff>(*work.shard, sender->pool);
  work.packer = std::make_unique<Packer>(*work.shard, sender->pool);
  out = std::move(sender);
  return {};
}

/// What is packed waits for its acknowledgement.
Status Sender::refusePending(const char *call) const {
  return Status::error(
      DELTA_REFUSED,
      "rank %u: %s: version %llu is neither acknowledged nor aborted", rank(),
      call, number(pending));
}

/// Both buffers hold `elements` changes; a tile is sent in one piece.
Status Sender::setCapacity(uint64_t elements) {
  if (pending)
    return refusePending("capacity");
  const Shard &shard = *work.shard;
  if (elements && elements < shard.getLargestTile())
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: capacity: %llu elements, required are %u: "
                         "the largest tile",
                         rank(), number(elements), shard.getLargestTile());
  // More than all elements is never needed.
  capacity = std::min(elements, shard.getNumElements());
  work.changes->setCapacity(capacity);
  work.packer->setCapacity(capacity);
  return {};
}

/// The rows are the same, in other sets; each keeps its snapshot. All is made
/// before anything is replaced.
Status Sender::setPlacement(const uint32_t *experts, uint32_t numTables,
                            uint32_t numSlots) {
  if (pending)
    return refusePending("set_placement");
  std::shared_ptr<const Slots> next;
  Status status = Slots::create(tables, experts, numTables, numSlots, next);
  if (status.failed())
    return Status::error(status.getCode(), "rank %u: set_placement: %s", rank(),
                         status.getText().c_str());
  if (next->getFingerprint() == placement->getFingerprint())
    return {};
  Expander expander(tables, next);
  Work made;
  made.shard = std::make_unique<Shard>();
  status = Shard::createLike(*work.shard, expander, kernels, *made.shard);
  if (status.failed())
    return status;
  made.changes = std::make_unique<Diff>(*made.shard, pool);
  made.packer = std::make_unique<Packer>(*made.shard, pool);
  made.changes->setCapacity(capacity);
  made.packer->setCapacity(capacity);
  const std::vector<Row> &rows = made.shard->getExpansion().rows;
  const std::vector<Row> &old = work.shard->getExpansion().rows;
  const std::vector<size_t> places = made.shard->rowsIn(*work.shard);
  for (size_t i = 0; i < rows.size(); ++i)
    for (int64_t tile = 0; tile < rows[i].numTiles(); ++tile)
      if (work.changes->isUnsureTile(old[places[i]].firstTile + tile))
        made.changes->setUnsure(rows[i].firstTile + tile);
  made.shard->adoptSnapshot(*work.shard);
  // The packer and the compare refer to their shard, so they go first.
  work.packer = std::move(made.packer);
  work.changes = std::move(made.changes);
  work.shard = std::move(made.shard);
  if (version && !previous)
    previous = placement;
  placement = std::move(next);
  // Back to where the receivers were: nothing has moved.
  if (previous && previous->getFingerprint() == placement->getFingerprint())
    previous = nullptr;
  return {};
}

/// What is packed holds values and no addresses.
Status Sender::rebind(const delta_param_t *params, uint32_t numParams) {
  Status status = work.shard->rebind(tables, params, numParams);
  if (!status.failed())
    bound.take(params, numParams);
  return status;
}

MessageHeader Sender::header() const {
  MessageHeader header;
  header.run = run;
  header.plan[0] = tables.fingerprint[0];
  header.plan[1] = tables.fingerprint[1];
  header.base = pendingKind == Kind::Seed ? 0 : version;
  header.version = pending;
  header.source = rank();
  header.flags = pendingKind == Kind::Seed    ? SeedFlag
                 : pendingKind == Kind::Moved ? MovedFlag
                                              : 0;
  header.placement = placement ? placement->getFingerprint() : 0;
  if (pendingKind == Kind::Moved)
    header.previous = (previous ? previous : placement)->getFingerprint();
  return header;
}

void Sender::pack(uint64_t newVersion, Kind kind, double diffSeconds,
                  delta_sync_stats_t *outStats) {
  double begin = now();
  pendingKind = kind;
  const Diff &changes = *active().changes;
  Packer &packer = *active().packer;
  packer.plan(changes);
  pending = newVersion;
  numSent = 0;
  uint32_t numRounds = packer.getNumRounds();
  if (numRounds == 1)
    packer.pack(changes, 0, header());
  if (!outStats)
    return;
  *outStats = {};
  outStats->elements = active().shard->getNumElements();
  outStats->changed = changes.getNumChanged();
  outStats->tiles = packer.getNumTiles();
  outStats->dense_tiles = packer.getNumDenseTiles();
  outStats->message_bytes = packer.getMessageBytes();
  // Copy and seal; before them a compare, once more for each of many rounds.
  outStats->launches = packer.getNumTiles() ? 2 * numRounds : 0;
  if (kind == Kind::Delta)
    outStats->launches += 1 + (numRounds > 1 ? numRounds : 0);
  outStats->diff_seconds = diffSeconds;
  outStats->pack_seconds = now() - begin;
}

Status Sender::seed(uint64_t newVersion, delta_sync_stats_t *outStats) {
  if (pending)
    return refusePending("seed");
  if (newVersion == 0 || newVersion < version)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: seed: version %llu, the current one is %llu",
                         rank(), number(newVersion), number(version));
  work.changes->markAll();
  pack(newVersion, Kind::Seed, /*diffSeconds=*/0, outStats);
  return {};
}

Status Sender::diff(uint64_t newVersion, delta_sync_stats_t *outStats) {
  if (version == 0)
    return Status::error(DELTA_NOT_SEEDED,
                         "rank %u: diff: no full sync was acknowledged yet",
                         rank());
  if (pending)
    return refusePending("diff");
  if (previous)
    return Status::error(DELTA_REFUSED,
                         "rank %u: diff: experts moved since version %llu; "
                         "they, or a full sync, have to be sent before",
                         rank(), number(version));
  if (newVersion <= version)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: diff: version %llu, the current one is %llu",
                         rank(), number(newVersion), number(version));
  double begin = now();
  work.changes->run();
  pack(newVersion, Kind::Delta, now() - begin, outStats);
  return {};
}

/// Receivers get what they would hold if the expert had been there all along:
/// the snapshot, whatever the parameters are by now.
Status Sender::beginMoved(delta_sync_stats_t *outStats) {
  if (!placement)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: begin_moved: the plan has no slots of "
                         "experts",
                         rank());
  if (version == 0)
    return Status::error(
        DELTA_NOT_SEEDED,
        "rank %u: begin_moved: no full sync was acknowledged yet", rank());
  if (pending)
    return refusePending("begin_moved");
  Expander expander(tables, placement, previous ? previous : placement);
  Work made;
  made.shard = std::make_unique<Shard>();
  Status status =
      Shard::createLike(*work.shard, expander, kernels, *made.shard);
  if (status.failed())
    return status;
  made.changes = std::make_unique<Diff>(*made.shard, pool);
  made.changes->markAll();
  made.packer = std::make_unique<Packer>(*made.shard, pool,
                                         work.packer->getDestinations());
  made.packer->setCapacity(capacity);
  moved = std::move(made);
  pack(version, Kind::Moved, /*diffSeconds=*/0, outStats);
  return {};
}

/// Compares the tiles of a round again, since only their number was kept.
Status Sender::packRound(uint32_t round) {
  Packer &packer = *active().packer;
  Diff &changes = *active().changes;
  if (pendingKind == Kind::Delta) {
    auto [begin, end] = packer.getRange(round);
    changes.run(begin, end);
    uint64_t found = packer.countSent(changes, round);
    if (found != packer.getNumSent(round))
      return Status::error(
          DELTA_REFUSED,
          "rank %u: send: parameters changed since diff: round %u of %u has "
          "%llu elements, was %llu",
          rank(), round, packer.getNumRounds(), number(found),
          number(packer.getNumSent(round)));
  }
  packer.pack(changes, round, header());
  return {};
}

Status Sender::sendRound(const delta_transport_t &transport) {
  const Packer &packer = *active().packer;
  const std::vector<uint32_t> &destinations = packer.getDestinations();
  for (uint32_t i = 0; i < destinations.size(); ++i) {
    const std::vector<delta_bytes_t> &parts = packer.message(i);
    char text[512] = "";
    delta_status_t code =
        transport.send(transport.context, rank(), destinations[i], parts.data(),
                       uint32_t(parts.size()), {text, sizeof(text)});
    if (code != DELTA_OK)
      return Status::error(code, "rank %u: send to destination rank %u: %s",
                           rank(), destinations[i], text);
  }
  return {};
}

Status Sender::send(const delta_transport_t &transport) {
  if (!pending)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: send: nothing is packed", rank());
  uint32_t numRounds = active().packer->getNumRounds();
  if (numRounds == 1)
    return sendRound(transport);
  if (numSent)
    return Status::error(DELTA_REFUSED,
                         "rank %u: send: %u of %u rounds were sent already",
                         rank(), numSent, numRounds);
  for (uint32_t round = 0; round < numRounds; ++round) {
    Status status = packRound(round);
    // A round that fails half-way was sent to someone.
    numSent = round + 1;
    if (!status.failed())
      status = sendRound(transport);
    if (status.failed()) {
      isBroken = true;
      return status;
    }
    if (pendingKind != Kind::Moved)
      work.packer->advanceSnapshot(
          [this](int64_t tile) { work.changes->setUnsure(tile); });
  }
  return {};
}

Status Sender::acknowledge(uint64_t acknowledged) {
  if (!pending || acknowledged != pending)
    return Status::error(
        DELTA_REFUSED,
        "rank %u: acknowledge: version %llu, packed is version %llu", rank(),
        number(acknowledged), number(pending));
  uint32_t numRounds = active().packer->getNumRounds();
  if (numRounds > 1 && (isBroken || numSent != numRounds))
    return Status::error(
        DELTA_REFUSED,
        "rank %u: acknowledge: version %llu: %u of %u rounds are sent", rank(),
        number(pending), numSent - isBroken, numRounds);
  if (pendingKind != Kind::Moved) {
    if (numRounds == 1)
      work.packer->advanceSnapshot();
    version = pending;
    work.changes->clearUnsure();
  }
  previous = nullptr; // what moved was sent, or everything
  abort();
  return {};
}

/// A full sync's buffer is as large as the shard: it is not kept, unless it is
/// the capacity.
void Sender::abort() {
  work.packer->clear(/*release=*/pendingKind == Kind::Seed && !capacity);
  moved = {};
  pending = 0;
  pendingKind = Kind::Delta;
  numSent = 0;
  isBroken = false;
}
