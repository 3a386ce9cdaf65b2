//===- Sender.h - One trainer rank ------------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The sending end: compare, pack, send, and advance the snapshot once all
/// receivers have committed. What touches memory for it is a Packing. Until
/// then the snapshot is untouched, so a failed sync needs no undo; that holds
/// for a full sync too.
///
/// Rounds. What exceeds the capacity is compared again, packed and sent a range
/// of tiles at a time, in `send`. A range that is sent is not kept, so its
/// tiles advance at once. Should the sync fail, they are unsure: what the
/// receivers hold is what the snapshot no longer has. The next sync sends such
/// tiles whole, which is right whatever anyone holds.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_SENDER_H
#define DELTA_RUNTIME_SENDER_H

#include "runtime/Bind.h"
#include "runtime/Fingerprint.h"
#include "runtime/Packing.h"
#include "runtime/Pool.h"

#include <functional>

namespace delta::runtime {

class Sender {
public:
  /// Makes what packs the rows of a shard, with the threads of a pool; both are
  /// borrowed. `keepsSnapshot`: the shard has its snapshot itself.
  struct PackingMaker {
    bool keepsSnapshot = true;
    std::function<Status(Shard &, Pool &, std::unique_ptr<Packing> &)> make;
  };
  /// Packs in memory of the host.
  static PackingMaker onHost();

  /// Borrows tables, kernels and the data of the parameters.
  static Status create(const delta_tables_t &tables,
                       const delta_kernels_t &kernels, uint32_t rank,
                       const delta_param_t *params, uint32_t numParams,
                       uint64_t run, uint32_t numThreads,
                       std::unique_ptr<Sender> &out,
                       const PackingMaker &maker = onHost());

  /// See sender_set_stream of the ABI.
  Status setStream(void *stream);

  /// Fixes the memory of a sync to `elements` changed ones; 0: it grows.
  Status setCapacity(uint64_t elements);
  /// Takes the data of the same parameters from elsewhere.
  Status rebind(const delta_param_t *params, uint32_t numParams);
  Status checkBound(const delta_param_t *params, uint32_t numParams) const {
    return bound.check(rank(), params, numParams);
  }

  /// Packs every element as a full sync to `version`, not before the current
  /// one.
  Status seed(uint64_t version, delta_sync_stats_t *outStats);
  /// Compares, and packs what changed as a delta to `version`, after the
  /// current one.
  Status diff(uint64_t version, delta_sync_stats_t *outStats);
  /// The two halves of it; see sender_compare of the ABI.
  Status compare();
  Status pack(uint64_t version, delta_sync_stats_t *outStats);
  /// `pack` and `acknowledge` in two halves each, of which a caller may launch
  /// the second from a graph; see sender_read of the ABI.
  Status read(uint64_t version, delta_sync_stats_t *outStats);
  Status seal();
  Status confirm(uint64_t version);
  Status advance();
  /// See sender_cast, sender_mark, sender_marks and sender_drop_marks of the
  /// ABI.
  Status cast(uint32_t param, const float *values, int64_t first,
              int64_t count);
  Status mark(uint32_t param);
  Status marks(bool ofExperts, void *&out, uint64_t &outBytes);
  Status dropMarks();
  /// Where the receivers' experts are from now on; see sender_set_placement of
  /// the ABI.
  Status setPlacement(const uint32_t *experts, uint32_t numTables,
                      uint32_t numSlots);
  /// Packs what lies somewhere since the placement changed, as the receivers
  /// hold it elsewhere, at the current version.
  Status beginMoved(delta_sync_stats_t *outStats);
  Status send(const delta_transport_t &transport);
  Status acknowledge(uint64_t version);
  void abort();

  /// See sender_fingerprints of the ABI.
  Status fingerprints(uint32_t destinationRank, uint64_t key, uint64_t *out,
                      uint64_t capacity, uint64_t &outCount);

  /// See sender_replica_sums of the ABI.
  Status replicaSums(uint64_t key, delta_replica_sum_t *out, uint64_t capacity,
                     uint64_t &outCount);

  /// Rounds of what is packed; 0: nothing is.
  uint32_t getNumRounds() const {
    return pending ? packing->getNumRounds() : 0;
  }
  /// Bytes of the buffers of a sync, without the snapshot.
  uint64_t getBufferBytes() const { return packing->getBufferBytes(); }
  const Shard &getShard() const { return *shard; }
  /// Messages of what is packed.
  const Packing &getPacking() const { return *packing; }
  Pool &getPool() { return pool; }

private:
  /// What the messages of a sync carry.
  enum class Kind { Delta, Seed, Moved };

  Sender(const delta_tables_t &tables, const delta_kernels_t &kernels,
         uint64_t run, uint32_t numThreads)
      : tables(tables), kernels(kernels), run(run), pool(numThreads),
        positions(tables) {}
  Status refusePending(const char *call) const;
  Status failure(const char *call, const Status &status) const;
  Status requireSeed(const char *call) const;
  Status refuseDelta(const char *call, uint64_t newVersion) const;
  Status pack(const char *call, uint64_t newVersion, Kind kind,
              double diffSeconds, delta_sync_stats_t *outStats,
              bool seals = true);
  Status waitAndPack(const char *call, uint64_t newVersion,
                     delta_sync_stats_t *outStats, bool seals = true);
  Status acknowledge(const char *call, uint64_t version, bool advances);
  MessageHeader header() const;
  Status packRound(uint32_t round);
  Status sendRound(const delta_transport_t &transport);
  uint32_t rank() const { return shard->getExpansion().rank; }

  const delta_tables_t &tables;
  const delta_kernels_t &kernels;
  uint64_t run;
  Pool pool;
  std::shared_ptr<const Slots> placement; ///< of an engine's experts, or null
  /// By which the receivers hold the version; null: by `placement`.
  std::shared_ptr<const Slots> previous;
  std::unique_ptr<Shard> shard;
  std::unique_ptr<Shard> moved; ///< rows that move, while they are packed
  std::unique_ptr<Packing> packing;
  BoundAddresses bound;
  /// Of the last call of `fingerprints`; its memory is used again.
  std::vector<FingerprintTerm> terms;
  Positions positions;  ///< of the rows of `shard`
  uint64_t version = 0; ///< of the snapshot; 0: there is none
  uint64_t pending = 0; ///< of what is packed; 0: nothing is
  Kind pendingKind = Kind::Delta;
  uint32_t numSent = 0;  ///< rounds, when there are several
  bool isBroken = false; ///< the last of them was not sent to all
  uint64_t capacity = 0;
  double compareSeconds = 0; ///< of the last call of `compare`
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_SENDER_H
