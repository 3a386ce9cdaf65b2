//===- EngineCluster.h - All ranks of the engine's plan ---------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Memory, senders and receivers of EnginePlan. What a rank should hold follows
/// from the lines at the head of that file; no code of the run time takes part
/// in it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_RUNTIME_ENGINECLUSTER_H
#define DELTA_TEST_UNIT_RUNTIME_ENGINECLUSTER_H

#include "Cluster.h"
#include "EnginePlan.h"

#include <optional>

namespace delta::test {

/// All ranks of the plan with their memory.
class EngineCluster {
public:
  static constexpr uint32_t NumSources = 4, NumRanks = 4, NumReceivers = 8;

  explicit EngineCluster(const EnginePlan &plan);

  /// Fills the sources with the values of `generation`; an element whose hash
  /// is above `share` has its value of generation 0.
  void fill(uint64_t generation, double share = 1);
  /// Sends what is packed, and commits it everywhere.
  void deliver();
  void acknowledge(uint64_t version);

  /// Experts in the slots of the receivers, one table or one a layer.
  std::vector<std::vector<uint32_t>> placement;
  /// Elements that are not what they should be; text of the first.
  uint64_t countMismatches(std::string &outFirst) const;
  /// Elements of engine parameters that have a source.
  uint64_t numHeld(uint32_t rank) const;

  const EnginePlan &plan;
  std::shared_ptr<runtime::Device> device; ///< of the receivers, or null
  std::vector<std::unique_ptr<RankMemory>> sourceMemory, memory;
  runtime::Inproc inproc; ///< lends what the receivers have staged
  std::vector<std::unique_ptr<runtime::Sender>> senders;
  std::vector<std::unique_ptr<runtime::Receiver>> receivers;

  /// Bits of a trained element, in the type of the source.
  uint64_t value(uint32_t tensor, uint32_t layer, uint32_t expert,
                 int64_t element) const;
  /// Bits that a rank should hold; none: not of any tensor.
  std::optional<uint64_t> expected(uint32_t rank, const runtime::Param &param,
                                   int64_t element) const;

private:
  uint64_t generation = 0;
  double share = 1;
};

/// What no tensor fills is this at first.
constexpr uint64_t Untouched = 0x3e3e3e3e3e3e3e3e;

} // namespace delta::test

#endif // DELTA_TEST_UNIT_RUNTIME_ENGINECLUSTER_H
