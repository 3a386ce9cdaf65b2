//===- Sender.cpp - One trainer rank --------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Sender.h"

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
  std::unique_ptr<Sender> sender(new Sender(tables, run, numThreads));
  status =
      Shard::create(tables, kernels, rank, params, numParams, sender->shard);
  if (status.failed())
    return status;
  sender->changes = std::make_unique<Diff>(sender->shard, sender->pool);
  sender->packer = std::make_unique<Packer>(sender->shard, sender->pool);
  out = std::move(sender);
  return {};
}

void Sender::pack(uint64_t newVersion, bool seeding, double diffSeconds,
                  delta_sync_stats_t *outStats) {
  double begin = now();
  MessageHeader header;
  header.run = run;
  header.plan[0] = tables.fingerprint[0];
  header.plan[1] = tables.fingerprint[1];
  header.base = seeding ? 0 : version;
  header.version = newVersion;
  header.source = rank();
  header.flags = seeding ? SeedFlag : 0;
  packer->pack(*changes, header);
  pending = newVersion;
  pendingSeed = seeding;
  if (!outStats)
    return;
  *outStats = {};
  outStats->elements = shard.getNumElements();
  outStats->changed = changes->getNumChanged();
  outStats->tiles = packer->getNumTiles();
  outStats->dense_tiles = packer->getNumDenseTiles();
  outStats->message_bytes = packer->getMessageBytes();
  outStats->launches = packer->getNumLaunches() + (seeding ? 0 : 1);
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

Status Sender::send(const delta_transport_t &transport) {
  if (!pending)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: send: nothing is packed", rank());
  const std::vector<uint32_t> &destinations = packer->getDestinations();
  for (uint32_t i = 0; i < destinations.size(); ++i) {
    std::vector<delta_bytes_t> parts = packer->message(i);
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

Status Sender::acknowledge(uint64_t acknowledged) {
  if (!pending || acknowledged != pending)
    return Status::error(
        DELTA_REFUSED,
        "rank %u: acknowledge: version %llu, packed is version %llu", rank(),
        number(acknowledged), number(pending));
  packer->advanceSnapshot();
  version = pending;
  abort();
  return {};
}

/// A full sync's buffer is as large as the shard: it is not kept.
void Sender::abort() {
  packer->clear(/*release=*/pendingSeed);
  pending = 0;
  pendingSeed = false;
}
