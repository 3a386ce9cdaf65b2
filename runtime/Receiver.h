//===- Receiver.h - One rollout rank ----------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The receiving end: messages are staged, i.e. checked and kept, and written
/// by one commit when every source's message of one version is there. Until
/// then the old weights serve.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_RECEIVER_H
#define DELTA_RUNTIME_RECEIVER_H

#include "runtime/Bind.h"
#include "runtime/Fingerprint.h"
#include "runtime/Intake.h"

#include <memory>

namespace delta::runtime {

class Receiver {
public:
  /// Borrows tables, kernels and the data of the parameters. `intake` is what
  /// touches memory; null: the host's.
  static Status create(const delta_tables_t &tables,
                       const delta_kernels_t &kernels, uint32_t rank,
                       const delta_param_t *params, uint32_t numParams,
                       uint64_t run, uint32_t numThreads,
                       std::unique_ptr<Receiver> &out,
                       std::unique_ptr<Intake> intake = nullptr);
  ~Receiver() { discard(); }

  /// See receiver_set_stream of the ABI.
  Status setStream(void *stream);

  /// Takes the data of the same parameters from elsewhere; the caller has moved
  /// the values.
  Status rebind(const delta_param_t *params, uint32_t numParams);
  Status checkBound(const delta_param_t *params, uint32_t numParams) const {
    return bound.check(landing.getRank(), params, numParams);
  }

  /// Where this engine's experts are from now on; see receiver_set_placement of
  /// the ABI.
  Status setPlacement(const uint32_t *experts, uint32_t numTables,
                      uint32_t numSlots);

  /// Checks a message and keeps a copy of it.
  Status stage(delta_bytes_t message);
  /// Receives and stages all rounds of every source that sends here; keeps the
  /// transport's bytes until commit or discard. On failure nothing is staged.
  Status receive(const delta_transport_t &transport);
  Status commit();
  void discard();
  /// Compares a few elements of each parameter with a staged full sync; refuses
  /// the first parameter of which more than `share` of them differ.
  Status checkLayout(double share);
  /// What the last commit asks for, by refresh and parameter.
  Status getRefreshes(const std::vector<delta_refresh_call_t> *&out);
  /// Compares what is staged with memory and drops it.
  Status compare(uint64_t &outMismatches, Status &outFirst);
  uint64_t getVersion() const { return version; }

  /// See receiver_fingerprints of the ABI.
  Status fingerprints(uint32_t sourceRank, uint64_t key, uint64_t *out,
                      uint64_t capacity, uint64_t &outCount);

  const Landing &getLanding() const { return landing; }

private:
  /// A staged message, and what lent it.
  struct Held {
    Message message;
    delta_transport_t transport = {}; ///< without release: nothing is lent
    delta_bytes_t lent = {nullptr, 0};
    uint32_t source = 0; ///< its position
  };
  /// What a call of `receive` knows of a source.
  struct Incoming {
    uint32_t rank = 0;
    uint32_t left = 1; ///< messages that should still come
    bool isFirst = true;
    Status failure;
  };
  /// What is staged of a source.
  struct Progress {
    uint32_t round = 0;     ///< the next one
    uint32_t numRounds = 0; ///< 0: nothing is staged
    uint64_t numTiles = 0;
    LandedTile last;

    bool isComplete() const { return numRounds && round == numRounds; }
  };

  Receiver(const delta_tables_t &tables, const delta_kernels_t &kernels,
           uint64_t run, uint32_t numThreads)
      : tables(tables), kernels(kernels), run(run), pool(numThreads),
        positions(tables) {}
  /// Where the tiles of a message of this kind go.
  const Landing &landingOf(const MessageHeader &header) const {
    return header.isMoved() ? *moved : landing;
  }
  Status expandMoved(const std::shared_ptr<const Slots> &to,
                     const std::shared_ptr<const Slots> &from,
                     std::optional<Landing> &out) const;
  Status readyForMoved(const MessageHeader &header);
  Status failure(const char *call, const Status &status) const;
  Status land(const char *call, const Landing &to,
              const std::optional<Landing> &toMoved);
  Status stageHeld(Held &held);
  Status check(Message &message, MessageHeader &header, Progress &known,
               std::string &outFrom);
  void receiveRound(std::vector<Incoming> &sources,
                    const delta_transport_t &transport, bool &outIsOver);
  Status take(Incoming &source, const delta_transport_t &transport,
              Held &outHeld);
  void stageBatch(std::vector<Held> &batch, std::vector<Incoming *> &sources);
  void finish(Incoming &source, Held &message);
  void release(Held &message);
  Status checkIdentity(const MessageHeader &header) const;
  Status checkVersion(const MessageHeader &header);
  Status checkRound(const MessageHeader &header) const;
  Status checkOrder(const MessageHeader &header, const StagedSpan &span,
                    Progress &progress) const;
  Status requireAll(const char *call) const;
  Status findRefreshes();
  Status describe(const Difference &difference) const;

  const delta_tables_t &tables;
  const delta_kernels_t &kernels;
  uint64_t run;
  Pool pool;
  std::shared_ptr<const Slots> placement; ///< of an engine's experts, or null
  /// The placement before; null: there was none since the first full sync.
  std::shared_ptr<const Slots> previous;
  bool isMoving = false; ///< what moved from there is not committed yet
  Landing landing;
  std::optional<Landing> moved; ///< what moves here from `previous`
  std::unique_ptr<Intake> intake;
  BoundAddresses bound;
  /// Of the last call of `fingerprints`; its memory is used again.
  std::vector<FingerprintTerm> terms;
  Positions positions; ///< of the rows of `landing`
  uint64_t version = 0;

  std::vector<Held> held;                      ///< staged messages
  std::vector<Progress> progress;              ///< by position of the source
  MessageHeader staged;                        ///< of the first of them
  std::vector<delta_refresh_call_t> refreshes; ///< of the last commit
  bool isRefreshed = false; ///< ... which was not asked for its rows yet
  bool wasMoved = false;    ///< ... and wrote to `moved`
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_RECEIVER_H
