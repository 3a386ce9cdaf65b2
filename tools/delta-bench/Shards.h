//===- Shards.h - Parameters of ranks ------------------------- -*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What the ranks of a plan hold, each in one block of memory of the machine,
/// and a copy of the trainer's on the host, where changes are made.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_SHARDS_H
#define DELTA_TOOLS_DELTA_BENCH_SHARDS_H

#include "Layout.h"
#include "Machine.h"
#include "Values.h"

#include <functional>

namespace delta::bench {

/// A trainer rank: memory that plans are bound to, and its copy on the host.
class SourceShard {
public:
  SourceShard(Machine &machine, runtime::Pool &pool, Layout layout);
  ~SourceShard();
  SourceShard(const SourceShard &) = delete;

  /// N(0, 0.02), uploaded.
  void fill(const Quantiles &quantiles, uint64_t seed);
  /// One ulp of each element with probability `share`, other ones for each
  /// seed; on the host alone. Returns the number of changes. Ranks that hold
  /// the same parameter change it alike.
  uint64_t change(double share, uint64_t seed);
  /// Copies what `change` reached since the last call.
  void upload();

  /// Called with a parameter, its first element and fp32 values of the machine.
  using Cast = std::function<void(uint32_t param, const float *values,
                                  int64_t first, int64_t count)>;
  /// Instead of `upload`: hands all 16-bit floating point values over as fp32,
  /// in pieces, and uploads the others.
  void castAll(const Cast &cast);

  const Layout &getLayout() const { return layout; }
  std::vector<delta_param_t> bind() const { return layout.bind(block.as()); }
  const uint8_t *onHost() const { return host.get(); }
  const uint8_t *onMachine() const { return block.as(); }

private:
  /// A part of a parameter, changed as one.
  struct Piece {
    uint64_t at;
    int64_t count;
    uint32_t elementBytes;
    delta_dtype_t dtype;
    uint64_t key;
    bool isChanged = true;
  };
  void eachPiece(const std::function<void(Piece &)> &body);

  Machine &machine;
  runtime::Pool &pool;
  Layout layout;
  Block block;
  std::unique_ptr<uint8_t, void (*)(void *)> host;
  bool isPinned;
  std::vector<Piece> pieces;
  Block wide, wideOnHost; ///< of castAll
};

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_SHARDS_H
