//===- Packing.h - What touches the memory of a sender ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A sender decides what is sent and when; a packing reads the parameters,
/// keeps the snapshot, and holds what is packed. There is one for the host
/// (HostPacking.h) and one for GPUs (device/DevicePacking.h), with the same
/// bytes.
///
/// Order of the calls of a sync:
///
///   compare, wait     what changed; not for Whole and Moved
///   plan              cuts the sync into rounds
///   [compareRound]    once a round, where there are several
///   order             what the messages of a round say
///   seal, finish      they are there
///   advance           the snapshot follows what is packed
///   settle            all receivers have committed
///   clear
///
/// Of a sync of one round, `compare`, `seal` and an advance by `advanceIfMay`
/// do the same at every sync, so that they can be captured in CUDA graphs and
/// launched from these; the other calls are made as ever.
///
/// Texts of failures say what failed, not for which rank and call.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_PACKING_H
#define DELTA_RUNTIME_PACKING_H

#include "runtime/Fingerprint.h"
#include "runtime/Shard.h"
#include "runtime/Wire.h"

#include <memory>

namespace delta::runtime {

/// What is packed of which rows.
enum class Extent {
  Changed, ///< what differs from the snapshot
  Whole,   ///< all elements, as the parameters have them
  Replay,  ///< the same, to receivers that hold the version: no mark is taken
  Moved    ///< all elements of the rows that moved, as the snapshot has them
};

/// Sums over all rounds of a sync.
struct PackCounts {
  uint64_t elements = 0; ///< looked at
  uint64_t changed = 0;
  uint64_t tiles = 0; ///< with changes, dense ones included
  uint64_t denseTiles = 0;
  uint64_t messageBytes = 0;
  uint64_t launches = 0; ///< those to come in `seal` and between rounds too
};

class Packing {
public:
  virtual ~Packing() = default;

  /// Whether data can be read, as the shard has it bound now. The text of a
  /// failure is complete.
  virtual Status checkMemory(const delta_tables_t &tables,
                             const Shard &shard) const = 0;
  /// `next` has the rows of the shard before, in other sets; from now on it is
  /// the one that is worked on. Borrowed. On failure all is as it was.
  virtual Status replace(Shard &next) = 0;
  /// The rows that move, with the data of the shard; borrowed until `clear`.
  virtual Status begin(const Shard &moved) = 0;
  /// The data of the shard lies elsewhere since the last call.
  virtual Status rebind() = 0;
  /// Where work is enqueued from now on; the host takes null alone.
  virtual Status setStream(void *stream) = 0;
  /// Elements that a round holds, at least the largest tile; 0: what the
  /// implementation thinks best.
  virtual Status setCapacity(uint64_t elements) = 0;

  /// Compares all tiles; may only enqueue it.
  virtual Status compare() = 0;
  /// Waits for a compare since the last wait; fails where there was none.
  virtual Status wait() = 0;
  virtual Status plan(Extent extent) = 0;
  /// Compares the tiles of a round again; what is sent of them now.
  virtual Status compareRound(uint32_t round, uint64_t &outSent) = 0;
  /// Says what the messages of a round are to say; `header` holds all but what
  /// a message decides itself.
  virtual Status order(uint32_t round, const MessageHeader &header) = 0;
  /// Makes the messages of the last order; may only enqueue it.
  virtual Status seal() = 0;
  /// Waits for `seal`; fails where there was none since the last order.
  virtual Status finish() = 0;
  /// The snapshot takes what is packed. `isUnsure`: the sync is not over; until
  /// `settle`, tiles that changed count as changed in all elements.
  virtual Status advance(bool isUnsure) = 0;
  /// The same as two calls, for a sync of one round: what can be launched from
  /// a graph is left to `advanceIfMay`, which does nothing unless the last call
  /// of the two was `letAdvance`.
  virtual Status letAdvance() = 0;
  virtual Status advanceIfMay() = 0;
  /// The receivers hold what the snapshot has.
  virtual Status settle() = 0;
  /// Drops what is packed, and the rows that moved; `release` gives memory back
  /// that only a full sync needs.
  virtual void clear(bool release) = 0;

  virtual uint32_t getNumRounds() const = 0;
  /// Elements that a round sends, as planned.
  virtual uint64_t getNumSent(uint32_t round) const = 0;
  virtual PackCounts getCounts() const = 0;
  /// Destination ranks, ascending.
  virtual const std::vector<uint32_t> &getDestinations() const = 0;
  /// The message of destination number `index`, in parts; valid until the next
  /// call.
  virtual const std::vector<delta_bytes_t> &message(uint32_t index) const = 0;
  /// Bytes of the buffers of a sync, without the snapshot.
  virtual uint64_t getBufferBytes() const = 0;
  /// Whether the snapshot has values, which experts that move need.
  virtual bool hasValues() const { return true; }

  /// See sender_cast, sender_mark, sender_marks and sender_drop_marks of the
  /// ABI.
  virtual Status cast(uint32_t param, const float *values, int64_t first,
                      int64_t count) = 0;
  virtual Status mark(uint32_t param) = 0;
  virtual Status marks(bool ofExperts, void *&out, uint64_t &outBytes) = 0;
  virtual Status dropMarks() = 0;

  /// Sums of bits x a(row) x b(column), as Fingerprint.h says; waits for them.
  virtual Status sumTerms(const delta_kernels_t &kernels,
                          const std::vector<FingerprintTerm> &terms,
                          std::vector<uint64_t> &out) = 0;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_PACKING_H
