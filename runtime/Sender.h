//===- Sender.h - One trainer rank ------------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The sending end: compare, pack, send, and advance the snapshot once all
/// receivers have committed. Until then the snapshot is untouched, so a failed
/// sync needs no undo; that holds for a full sync too.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_SENDER_H
#define DELTA_RUNTIME_SENDER_H

#include "runtime/Pack.h"

#include <memory>

namespace delta::runtime {

class Sender {
public:
  /// Borrows tables, kernels and the data of the parameters.
  static Status create(const delta_tables_t &tables,
                       const delta_kernels_t &kernels, uint32_t rank,
                       const delta_param_t *params, uint32_t numParams,
                       uint64_t run, uint32_t numThreads,
                       std::unique_ptr<Sender> &out);

  /// Packs every element as a full sync to `version`, not before the current
  /// one.
  Status seed(uint64_t version, delta_sync_stats_t *outStats);
  /// Compares, and packs what changed as a delta to `version`, after the
  /// current one.
  Status diff(uint64_t version, delta_sync_stats_t *outStats);
  Status send(const delta_transport_t &transport);
  Status acknowledge(uint64_t version);
  void abort();

  /// See sender_fingerprints of the ABI.
  Status fingerprints(uint32_t destinationRank, uint64_t key, uint64_t *out,
                      uint64_t capacity, uint64_t &outCount);

  const Shard &getShard() const { return shard; }
  const Packer &getPacker() const { return *packer; }
  Pool &getPool() { return pool; }

private:
  Sender(const delta_tables_t &tables, uint64_t run, uint32_t numThreads)
      : tables(tables), run(run), pool(numThreads) {}
  void pack(uint64_t newVersion, bool seeding, double diffSeconds,
            delta_sync_stats_t *outStats);
  uint32_t rank() const { return shard.getExpansion().rank; }

  const delta_tables_t &tables;
  uint64_t run;
  Pool pool;
  Shard shard;
  std::unique_ptr<Diff> changes;
  std::unique_ptr<Packer> packer;
  uint64_t version = 0; ///< of the snapshot; 0: there is none
  uint64_t pending = 0; ///< of what is packed; 0: nothing is
  bool pendingSeed = false;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_SENDER_H
