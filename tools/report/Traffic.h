//===- Traffic.h - Who sends how much to whom -------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The static routes of a plan as a matrix: which source rank owns how many
/// elements of what each destination rank holds. A delta carries the part of
/// them that changed, so that the same numbers say what a sync sends.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REPORT_TRAFFIC_H
#define DELTA_TOOLS_REPORT_TRAFFIC_H

#include "runtime/delta_abi.h"

#include <string>
#include <vector>

namespace delta::report {

/// From one rank to another. An element that goes to several places of a rank
/// travels once.
struct Flow {
  int64_t elements = 0;
  int64_t bytes = 0; ///< of their values
};

class Traffic {
public:
  /// Expands every source rank. The tables are those that the run time accepts.
  explicit Traffic(const delta_tables_t &tables);

  uint32_t getNumSources() const { return numSources; }
  uint32_t getNumDestinations() const { return numDestinations; }
  const Flow &at(uint32_t source, uint32_t destination) const {
    return flows[size_t(source) * numDestinations + destination];
  }

  /// Sums over the other side.
  std::vector<Flow> bySource() const;
  std::vector<Flow> byDestination() const;

  /// What each source rank packs, however many receivers get it.
  const std::vector<Flow> &owned() const { return packed; }

private:
  uint32_t numSources, numDestinations;
  std::vector<Flow> flows;
  std::vector<Flow> packed;
};

/// Bytes on the wire when a part of the elements changed: its value and the
/// two bytes of its place in a tile. Headers of tiles come on top, which is
/// less than 3 % unless few elements of a tile changed.
int64_t wireBytes(const Flow &flow, double density);

/// How far the largest and the smallest are from the mean, in percent of it.
struct Imbalance {
  double above = 0, below = 0;
};
Imbalance imbalanceOf(const std::vector<Flow> &flows);

/// The matrix as lines, `rank 3 -> 0-7: 1024 elements each, 9: 512`, each after
/// `prefix`, with the sums and their imbalance behind.
std::string trafficText(const Traffic &traffic, const std::string &prefix);

/// Elements of the first `count` tiles of a box.
int64_t elementsOf(const delta_box_t &box, int64_t count);

} // namespace delta::report

#endif // DELTA_TOOLS_REPORT_TRAFFIC_H
