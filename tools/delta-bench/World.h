//===- World.h - The ranks that are in this process ----------- -*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Memory of the ranks of a model, made once and bound by each of its plans.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_WORLD_H
#define DELTA_TOOLS_DELTA_BENCH_WORLD_H

#include "Shards.h"

namespace delta::bench {

/// A receiver's parameters.
struct ReceiverMemory {
  Layout layout;
  Block block;

  std::vector<delta_param_t> bind() const { return layout.bind(block.as()); }
};

class World {
public:
  /// All ranks of both sides where they fit, with a snapshot of as many bytes
  /// as each source rank has where `keepsSnapshot`; else source rank `rank`
  /// alone. Receivers hold zeros.
  World(const delta_plan_api_t &api, Machine &machine, runtime::Pool &pool,
        uint32_t rank, bool keepsSnapshot);

  /// New weights in all sources, nothing in the receivers.
  void fill(uint64_t seed);
  void clearReceivers();

  /// Which ranks are here, and why not all.
  const std::string &describe() const { return description; }
  std::vector<std::unique_ptr<SourceShard>> sources;
  std::vector<ReceiverMemory> receivers;
  size_t measured = 0; ///< place of the rank that is measured in `sources`

private:
  struct Needs {
    uint64_t ofMachine, ofHost;
  };
  static Needs needsOf(const std::vector<Layout> &from,
                       const std::vector<Layout> &to, uint32_t rank,
                       bool keepsSnapshot, bool isDevice);

  Machine &machine;
  Quantiles quantiles;
  std::string description;
};

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_WORLD_H
