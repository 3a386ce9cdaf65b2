//===- HostIntake.h - Messages and parameters of the host -------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The intake of a plan for the host: a pool of threads over staged tiles.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_HOSTINTAKE_H
#define DELTA_RUNTIME_HOSTINTAKE_H

#include "runtime/Intake.h"

namespace delta::runtime {

class HostIntake : public Intake {
public:
  /// Borrows the pool.
  explicit HostIntake(Pool &pool) : pool(pool) {}

  Status checkMemory(const Landing &) override { return {}; }
  Status land(const Landing &, const Landing *) override { return {}; }
  Status setStream(void *stream) override;
  bool readsTogether() const override { return false; }
  Status add(Message &message) override;
  Status read(Message *const *, size_t) override { return {}; }
  bool peek(const Message &message, MessageHeader &outHeader) override;
  Status readFrame(Message &message, MessageHeader &outHeader) override;
  Status readSections(Message &message, const MessageHeader &header,
                      const Landing &to, StagedSpan &out) override;
  Status accept(Message &message) override;
  void drop(Message &message) override;
  void clear() override;
  Status commit(const Landing &to, bool isSeed, bool listsRows) override;
  Status finish() override { return {}; }
  Status getReached(std::vector<uint8_t> &outRows) override;
  Status compare(const Landing &to, uint64_t &outMismatches,
                 Difference &outFirst) override;
  Status listTiles(const Landing &,
                   const std::vector<StagedTile> *&out) override;
  Status compareElements(const std::vector<ElementPair> &pairs,
                         std::vector<uint8_t> &outDiffer) override;
  Status sumTerms(const delta_kernels_t &,
                  const std::vector<FingerprintTerm> &terms,
                  std::vector<uint64_t> &out) override {
    out = sumFingerprints(pool, terms);
    return {};
  }

private:
  template <typename Visit>
  void forEachImage(const Landing &to, const Visit &visit);

  Pool &pool;
  std::vector<SectionView> views; ///< of the message last asked for
  std::vector<StagedTile> tiles;  ///< of accepted messages, and of that one
  size_t numAccepted = 0;
  std::vector<uint8_t> reached; ///< by row
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_HOSTINTAKE_H
