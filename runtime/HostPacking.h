//===- HostPacking.h - A sender's memory on the host ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares and packs with the threads of the sender: Diff.h, then Pack.h.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_HOSTPACKING_H
#define DELTA_RUNTIME_HOSTPACKING_H

#include "runtime/Pack.h"
#include "runtime/Packing.h"

namespace delta::runtime {

class HostPacking : public Packing {
public:
  /// Borrows both; the shard has its snapshot.
  HostPacking(Shard &shard, Pool &pool);

  Status checkMemory(const delta_tables_t &, const Shard &) const override {
    return {};
  }
  Status replace(Shard &next) override;
  Status begin(const Shard &moved) override;
  Status rebind() override { return {}; }
  Status setStream(void *stream) override;
  Status setCapacity(uint64_t elements) override;
  Status compare() override;
  Status wait() override;
  Status plan(Extent extent) override;
  Status compareRound(uint32_t round, uint64_t &outSent) override;
  Status order(uint32_t round, const MessageHeader &header) override;
  Status seal() override;
  Status finish() override;
  Status advance(bool isUnsure) override;
  Status letAdvance() override { return advance(/*isUnsure=*/false); }
  Status advanceIfMay() override { return {}; }
  Status settle() override;
  void clear(bool release) override;
  uint32_t getNumRounds() const override {
    return active().packer->getNumRounds();
  }
  uint64_t getNumSent(uint32_t round) const override {
    return active().packer->getNumSent(round);
  }
  PackCounts getCounts() const override;
  const std::vector<uint32_t> &getDestinations() const override {
    return active().packer->getDestinations();
  }
  const std::vector<delta_bytes_t> &message(uint32_t index) const override {
    return active().packer->message(index);
  }
  uint64_t getBufferBytes() const override {
    return work.changes->getListBytes() + work.packer->getPackedBytes();
  }
  Status cast(uint32_t, const float *, int64_t, int64_t) override;
  Status mark(uint32_t) override;
  Status marks(bool ofExperts, void *&out, uint64_t &outBytes) override;
  Status dropMarks() override;
  Status sumTerms(const delta_kernels_t &,
                  const std::vector<FingerprintTerm> &terms,
                  std::vector<uint64_t> &out) override {
    out = sumFingerprints(pool, terms);
    return {};
  }

private:
  /// What is done with some rows.
  struct Work {
    const Shard *shard = nullptr;
    std::unique_ptr<Diff> changes;
    std::unique_ptr<Packer> packer;
  };
  const Work &active() const { return extent == Extent::Moved ? moved : work; }

  Pool &pool;
  Shard *shard; ///< of `work`
  Work work, moved;
  Extent extent = Extent::Changed;
  bool isCompared = false;
  bool isOrdered = false, isSealed = false;
  uint32_t round = 0;   ///< of the last order
  MessageHeader header; ///< likewise
  uint64_t capacity = 0;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_HOSTPACKING_H
