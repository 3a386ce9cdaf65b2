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

#include "runtime/Buffer.h"
#include "runtime/Stage.h"

#include <memory>

namespace delta::runtime {

class Receiver {
public:
  /// Borrows tables, kernels and the data of the parameters.
  static Status create(const delta_tables_t &tables,
                       const delta_kernels_t &kernels, uint32_t rank,
                       const delta_param_t *params, uint32_t numParams,
                       uint64_t run, uint32_t numThreads,
                       std::unique_ptr<Receiver> &out);
  ~Receiver() { discard(); }

  /// Checks a message and keeps a copy of it.
  Status stage(delta_bytes_t message);
  /// Receives and stages one message from every source that has one; keeps the
  /// transport's bytes until commit or discard. On failure nothing is staged.
  Status receive(const delta_transport_t &transport);
  Status commit();
  void discard();
  /// Compares what is staged with memory and drops it.
  Status compare(uint64_t &outMismatches, Status &outFirst);
  uint64_t getVersion() const { return version; }

  /// See receiver_fingerprints of the ABI.
  Status fingerprints(uint32_t sourceRank, uint64_t key, uint64_t *out,
                      uint64_t capacity, uint64_t &outCount);

  const Landing &getLanding() const { return landing; }

private:
  /// A staged message: a copy, or lent by a transport.
  struct Held {
    Buffer copy;
    delta_transport_t transport = {};
    delta_bytes_t lent = {nullptr, 0};
  };

  Receiver(const delta_tables_t &tables, uint64_t run, uint32_t numThreads)
      : tables(tables), run(run), pool(numThreads) {}
  Status stageHeld(Held &message, uint32_t expectedSource);
  Status receiveFrom(uint32_t source, const delta_transport_t &transport,
                     bool &outReceived);
  Status checkIdentity(const MessageHeader &header) const;
  Status checkVersion(const MessageHeader &header) const;
  Status readSections(const MessageHeader &header,
                      const std::vector<SectionView> &views);
  Status requireAll(const char *call) const;
  Status describe(const StagedTile &tile, const LandingImage &image,
                  uint32_t index) const;

  const delta_tables_t &tables;
  uint64_t run;
  Pool pool;
  Landing landing;
  uint64_t version = 0;

  /// Staged messages by position of their source.
  std::vector<Held> held;
  std::vector<bool> isStaged;
  uint32_t numStaged = 0;
  MessageHeader staged; ///< of the first of them
  std::vector<StagedTile> tiles;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_RECEIVER_H
