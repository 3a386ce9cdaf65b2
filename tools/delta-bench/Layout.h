//===- Layout.h - Where the parameters of a rank lie ---------- -*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The parameters of one rank of a plan, one behind the other in a block of
/// memory.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_LAYOUT_H
#define DELTA_TOOLS_DELTA_BENCH_LAYOUT_H

#include "runtime/delta_abi.h"

#include <string>
#include <vector>

namespace delta::bench {

/// The parameters of a rank as a plan lists them, with places in a block.
class Layout {
public:
  Layout(const delta_plan_api_t &api, delta_side_id_t side, uint32_t rank);

  struct Item {
    delta_param_info_t info;
    std::string name;  ///< the usual one
    uint64_t at;       ///< bytes from the begin of the block
    uint64_t numBytes; ///< of all elements
    uint32_t elementBytes;
    /// What is the same for ranks that hold the same values.
    uint64_t key;
  };
  const std::vector<Item> &getItems() const { return items; }
  uint64_t getNumBytes() const { return numBytes; }
  uint32_t getRank() const { return rank; }
  /// The parameters at a block; names are borrowed from here.
  std::vector<delta_param_t> bind(uint8_t *block) const;
  /// The first parameter that is not the same there; empty: none.
  std::string differenceFrom(const Layout &other) const;

private:
  uint32_t rank;
  std::vector<Item> items;
  uint64_t numBytes = 0;
};

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_LAYOUT_H
