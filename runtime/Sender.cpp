//===- Sender.cpp - One trainer rank --------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Sender.h"

#include "runtime/HostPacking.h"

#include <algorithm>
#include <chrono>

using namespace delta::runtime;

static double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

static unsigned long long number(uint64_t value) { return value; }

Sender::PackingMaker Sender::onHost() {
  return {/*keepsSnapshot=*/true,
          [](Shard &shard, Pool &pool, std::unique_ptr<Packing> &out) {
            out = std::make_unique<HostPacking>(shard, pool);
            return Status();
          }};
}

Status Sender::create(const delta_tables_t &tables,
                      const delta_kernels_t &kernels, uint32_t rank,
                      const delta_param_t *params, uint32_t numParams,
                      uint64_t run, uint32_t numThreads,
                      std::unique_ptr<Sender> &out, const PackingMaker &maker) {
  Status status = checkTables(tables);
  if (status.failed())
    return status;
  std::unique_ptr<Sender> sender(new Sender(tables, kernels, run, numThreads));
  Expander expander(tables);
  sender->placement = expander.getDestination().getSlots();
  sender->shard = std::make_unique<Shard>();
  Shard &shard = *sender->shard;
  status = Shard::create(expander, kernels, rank, params, numParams, shard,
                         maker.keepsSnapshot);
  if (status.failed())
    return status;
  sender->bound.take(params, numParams);
  status = maker.make(shard, sender->pool, sender->packing);
  if (status.failed())
    return sender->failure("sender_create", status);
  status = sender->packing->checkMemory(tables, shard);
  if (status.failed())
    return status;
  out = std::move(sender);
  return {};
}

/// Puts rank and call before the text of a packing.
Status Sender::failure(const char *call, const Status &status) const {
  if (!status.failed())
    return status;
  return Status::error(status.getCode(), "rank %u: %s: %s", rank(), call,
                       status.getText().c_str());
}

/// What is packed waits for its acknowledgement.
Status Sender::refusePending(const char *call) const {
  return Status::error(
      DELTA_REFUSED,
      "rank %u: %s: version %llu is neither acknowledged nor aborted", rank(),
      call, number(pending));
}

Status Sender::setStream(void *stream) {
  return failure("set_stream", packing->setStream(stream));
}

/// A tile is sent in one piece.
Status Sender::setCapacity(uint64_t elements) {
  if (pending)
    return refusePending("capacity");
  if (elements && elements < shard->getLargestTile())
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: capacity: %llu elements, required are %u: "
                         "the largest tile",
                         rank(), number(elements), shard->getLargestTile());
  // More than all elements is never needed.
  uint64_t most = std::min(elements, shard->getNumElements());
  Status status = packing->setCapacity(most);
  if (!status.failed())
    capacity = most;
  return failure("sender_set_capacity", status);
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
    return failure("set_placement", status);
  if (next->getFingerprint() == placement->getFingerprint())
    return {};
  Expander expander(tables, next);
  auto made = std::make_unique<Shard>();
  status = Shard::createLike(*shard, expander, kernels, *made);
  if (status.failed())
    return status;
  status = packing->replace(*made);
  if (status.failed())
    return failure("sender_set_placement", status);
  shard = std::move(made);
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
  const std::vector<void *> before = shard->getData();
  Status status = shard->rebind(tables, params, numParams);
  if (status.failed())
    return status;
  status = packing->checkMemory(tables, *shard);
  if (!status.failed())
    status = failure("sender_rebind", packing->rebind());
  if (status.failed()) {
    shard->rebind(before);
    return status;
  }
  bound.take(params, numParams);
  return {};
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

Status Sender::pack(const char *call, uint64_t newVersion, Kind kind,
                    double diffSeconds, delta_sync_stats_t *outStats,
                    bool seals) {
  double begin = now();
  const Extent whole = newVersion == version ? Extent::Replay : Extent::Whole;
  Status status = packing->plan(kind == Kind::Seed    ? whole
                                : kind == Kind::Moved ? Extent::Moved
                                                      : Extent::Changed);
  pendingKind = kind;
  pending = newVersion;
  numSent = 0;
  const bool isOneRound = packing->getNumRounds() == 1;
  if (!status.failed() && isOneRound)
    status = packing->order(0, header());
  if (!status.failed() && isOneRound && seals)
    status = packing->seal();
  if (status.failed()) {
    abort();
    return failure(call, status);
  }
  if (!outStats)
    return {};
  *outStats = {};
  const PackCounts counts = packing->getCounts();
  outStats->elements = counts.elements;
  outStats->changed = counts.changed;
  outStats->tiles = counts.tiles;
  outStats->dense_tiles = counts.denseTiles;
  outStats->message_bytes = counts.messageBytes;
  outStats->launches = counts.launches;
  outStats->diff_seconds = diffSeconds;
  outStats->pack_seconds = now() - begin;
  return {};
}

Status Sender::seed(uint64_t newVersion, delta_sync_stats_t *outStats) {
  if (pending)
    return refusePending("seed");
  if (newVersion == 0 || newVersion < version)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: seed: version %llu, the current one is %llu",
                         rank(), number(newVersion), number(version));
  return pack("sender_seed", newVersion, Kind::Seed, /*diffSeconds=*/0,
              outStats);
}

Status Sender::requireSeed(const char *call) const {
  if (version)
    return {};
  return Status::error(DELTA_NOT_SEEDED,
                       "rank %u: %s: no full sync was acknowledged yet", rank(),
                       call);
}

/// What keeps a delta to a version from being packed.
Status Sender::refuseDelta(const char *call, uint64_t newVersion) const {
  Status status = requireSeed(call);
  if (status.failed())
    return status;
  if (pending)
    return refusePending(call);
  if (previous)
    return Status::error(DELTA_REFUSED,
                         "rank %u: %s: experts moved since version %llu; "
                         "they, or a full sync, have to be sent before",
                         rank(), call, number(version));
  if (newVersion <= version)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: %s: version %llu, the current one is %llu",
                         rank(), call, number(newVersion), number(version));
  return {};
}

Status Sender::diff(uint64_t newVersion, delta_sync_stats_t *outStats) {
  Status status = refuseDelta("diff", newVersion);
  if (status.failed())
    return status;
  double begin = now();
  status = packing->compare();
  compareSeconds = now() - begin;
  if (status.failed())
    return failure("sender_diff", status);
  return waitAndPack("sender_diff", newVersion, outStats);
}

Status Sender::compare() {
  // Any version after the current one may follow.
  Status status = refuseDelta("compare", version + 1);
  if (status.failed())
    return status;
  double begin = now();
  status = packing->compare();
  compareSeconds = now() - begin;
  return failure("sender_compare", status);
}

Status Sender::pack(uint64_t newVersion, delta_sync_stats_t *outStats) {
  Status status = refuseDelta("pack", newVersion);
  return status.failed() ? status
                         : waitAndPack("sender_pack", newVersion, outStats);
}

Status Sender::read(uint64_t newVersion, delta_sync_stats_t *outStats) {
  Status status = refuseDelta("read", newVersion);
  return status.failed() ? status
                         : waitAndPack("sender_read", newVersion, outStats,
                                       /*seals=*/false);
}

/// Also where nothing is packed: while a graph is captured.
Status Sender::seal() { return failure("sender_seal", packing->seal()); }

Status Sender::waitAndPack(const char *call, uint64_t newVersion,
                           delta_sync_stats_t *outStats, bool seals) {
  double begin = now();
  Status status = packing->wait();
  if (status.failed())
    return failure(call, status);
  double diffSeconds = compareSeconds + (now() - begin);
  compareSeconds = 0;
  return pack(call, newVersion, Kind::Delta, diffSeconds, outStats, seals);
}

Status Sender::cast(uint32_t param, const float *values, int64_t first,
                    int64_t count) {
  return failure("cast", packing->cast(param, values, first, count));
}

Status Sender::mark(uint32_t param) {
  return failure("mark", packing->mark(param));
}

Status Sender::marks(bool ofExperts, void *&out, uint64_t &outBytes) {
  return failure("marks", packing->marks(ofExperts, out, outBytes));
}

Status Sender::dropMarks() {
  return failure("drop_marks", packing->dropMarks());
}

/// Receivers get what they would hold if the expert had been there all along:
/// the snapshot, whatever the parameters are by now.
Status Sender::beginMoved(delta_sync_stats_t *outStats) {
  if (!placement)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: begin_moved: the plan has no slots of "
                         "experts",
                         rank());
  Status status = requireSeed("begin_moved");
  if (status.failed())
    return status;
  if (pending)
    return refusePending("begin_moved");
  if (!packing->hasValues())
    return Status::error(DELTA_REFUSED,
                         "rank %u: begin_moved: a bitmap has no values of "
                         "version %llu; a full sync is required",
                         rank(), number(version));
  Expander expander(tables, placement, previous ? previous : placement);
  auto made = std::make_unique<Shard>();
  status = Shard::createLike(*shard, expander, kernels, *made);
  if (status.failed())
    return status;
  status = packing->begin(*made);
  if (status.failed())
    return failure("sender_begin_moved", status);
  moved = std::move(made);
  return pack("sender_begin_moved", version, Kind::Moved, /*diffSeconds=*/0,
              outStats);
}

/// A full sync's buffer is as large as the shard: it is not kept, unless it is
/// the capacity.
void Sender::abort() {
  packing->clear(/*release=*/pendingKind == Kind::Seed && !capacity);
  moved = nullptr;
  pending = 0;
  pendingKind = Kind::Delta;
  numSent = 0;
  isBroken = false;
}
