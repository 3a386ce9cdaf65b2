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
  status =
      Shard::create(expander, kernels, rank, params, numParams, sender->shard);
  if (status.failed())
    return status;
  sender->bound.take(params, numParams);
  sender->changes = std::make_unique<Diff>(sender->shard, sender->pool);
  sender->packer = std::make_unique<Packer>(sender->shard, sender->pool);
  out = std::move(sender);
  return {};
}

/// Both buffers hold `elements` changes; a tile is sent in one piece.
Status Sender::setCapacity(uint64_t elements) {
  if (pending)
    return Status::error(
        DELTA_REFUSED,
        "rank %u: capacity: version %llu is neither acknowledged nor aborted",
        rank(), number(pending));
  if (elements && elements < shard.getLargestTile())
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: capacity: %llu elements, required are %u: "
                         "the largest tile",
                         rank(), number(elements), shard.getLargestTile());
  // More than all elements is never needed.
  elements = std::min(elements, shard.getNumElements());
  hasCapacity = elements != 0;
  changes->setCapacity(elements);
  packer->setCapacity(elements);
  return {};
}

/// What is packed holds values and no addresses.
Status Sender::rebind(const delta_param_t *params, uint32_t numParams) {
  Status status = shard.rebind(tables, params, numParams);
  if (!status.failed())
    bound.take(params, numParams);
  return status;
}

MessageHeader Sender::header() const {
  MessageHeader header;
  header.run = run;
  header.plan[0] = tables.fingerprint[0];
  header.plan[1] = tables.fingerprint[1];
  header.base = pendingSeed ? 0 : version;
  header.version = pending;
  header.source = rank();
  header.flags = pendingSeed ? SeedFlag : 0;
  header.placement = placement ? placement->getFingerprint() : 0;
  return header;
}

void Sender::pack(uint64_t newVersion, bool seeding, double diffSeconds,
                  delta_sync_stats_t *outStats) {
  double begin = now();
  packer->plan(*changes);
  pending = newVersion;
  pendingSeed = seeding;
  numSent = 0;
  uint32_t numRounds = packer->getNumRounds();
  if (numRounds == 1)
    packer->pack(*changes, 0, header());
  if (!outStats)
    return;
  *outStats = {};
  outStats->elements = shard.getNumElements();
  outStats->changed = changes->getNumChanged();
  outStats->tiles = packer->getNumTiles();
  outStats->dense_tiles = packer->getNumDenseTiles();
  outStats->message_bytes = packer->getMessageBytes();
  // Copy and seal; before them a compare, once more for each of many rounds.
  outStats->launches = packer->getNumTiles() ? 2 * numRounds : 0;
  if (!seeding)
    outStats->launches += 1 + (numRounds > 1 ? numRounds : 0);
  outStats->diff_seconds = diffSeconds;
  outStats->pack_seconds = now() - begin;
}

Status Sender::seed(uint64_t newVersion, delta_sync_stats_t *outStats) {
  if (pending)
    return Status::error(
        DELTA_REFUSED,
        "rank %u: seed: version %llu is neither acknowledged nor aborted",
        rank(), number(pending));
  if (newVersion == 0 || newVersion < version)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: seed: version %llu, the current one is %llu",
                         rank(), number(newVersion), number(version));
  changes->markAll();
  pack(newVersion, /*seeding=*/true, /*diffSeconds=*/0, outStats);
  return {};
}

Status Sender::diff(uint64_t newVersion, delta_sync_stats_t *outStats) {
  if (version == 0)
    return Status::error(DELTA_NOT_SEEDED,
                         "rank %u: diff: no full sync was acknowledged yet",
                         rank());
  if (pending)
    return Status::error(
        DELTA_REFUSED,
        "rank %u: diff: version %llu is neither acknowledged nor aborted",
        rank(), number(pending));
  if (newVersion <= version)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: diff: version %llu, the current one is %llu",
                         rank(), number(newVersion), number(version));
  double begin = now();
  changes->run();
  pack(newVersion, /*seeding=*/false, now() - begin, outStats);
  return {};
}

/// Compares the tiles of a round again, since only their number was kept.
Status Sender::packRound(uint32_t round) {
  if (!pendingSeed) {
    auto [begin, end] = packer->getRange(round);
    changes->run(begin, end);
    uint64_t found = packer->countSent(*changes, round);
    if (found != packer->getNumSent(round))
      return Status::error(
          DELTA_REFUSED,
          "rank %u: send: parameters changed since diff: round %u of %u has "
          "%llu elements, was %llu",
          rank(), round, packer->getNumRounds(), number(found),
          number(packer->getNumSent(round)));
  }
  packer->pack(*changes, round, header());
  return {};
}

Status Sender::sendRound(const delta_transport_t &transport) {
  const std::vector<uint32_t> &destinations = packer->getDestinations();
  for (uint32_t i = 0; i < destinations.size(); ++i) {
    const std::vector<delta_bytes_t> &parts = packer->message(i);
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
  uint32_t numRounds = packer->getNumRounds();
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
    packer->advanceSnapshot([this](int64_t tile) { changes->setUnsure(tile); });
  }
  return {};
}

Status Sender::acknowledge(uint64_t acknowledged) {
  if (!pending || acknowledged != pending)
    return Status::error(
        DELTA_REFUSED,
        "rank %u: acknowledge: version %llu, packed is version %llu", rank(),
        number(acknowledged), number(pending));
  uint32_t numRounds = packer->getNumRounds();
  if (numRounds == 1)
    packer->advanceSnapshot();
  else if (isBroken || numSent != numRounds)
    return Status::error(
        DELTA_REFUSED,
        "rank %u: acknowledge: version %llu: %u of %u rounds are sent", rank(),
        number(pending), numSent - isBroken, numRounds);
  version = pending;
  changes->clearUnsure();
  abort();
  return {};
}

/// A full sync's buffer is as large as the shard: it is not kept, unless it is
/// the capacity.
void Sender::abort() {
  packer->clear(/*release=*/pendingSeed && !hasCapacity);
  pending = 0;
  pendingSeed = false;
  numSent = 0;
  isBroken = false;
}
