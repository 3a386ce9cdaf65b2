//===- Pull.h - Where one element comes from --------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The ops of a reference program backwards, for single elements: each op has
/// a rule here that is written apart from the one that moves arrays
/// (Moves.cpp), so that the two can be held against each other, and so that
/// models of any size can be sampled.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_PULL_H
#define DELTA_TOOLS_REFERENCE_PULL_H

#include "tools/reference/Program.h"

#include <map>

namespace delta::reference {

/// An element of an unsharded trainer parameter.
struct Origin {
  int64_t param = 0;    ///< record of the program
  int64_t element = 0;  ///< flat
  bool shifted = false; ///< went through an add_scalar

  bool operator==(const Origin &o) const {
    return param == o.param && element == o.element && shifted == o.shifted;
  }
};

/// Backward rules of one side, whose records fit each other.
class Puller {
public:
  explicit Puller(const Side &side);

  /// Where an element of a tensor record comes from; `element` is flat, in the
  /// slice of one expert where the tensor stacks them.
  Origin pull(int64_t tensor, int64_t element) const;

  /// Flat index in the unsharded parameter of an element of shard `way`.
  int64_t unsharded(int64_t param, int64_t way, int64_t element) const;

  /// Whether shard `way` has an element of the unsharded parameter.
  bool isIn(int64_t param, int64_t way, int64_t element) const;

  /// Number of ways and the axis ("" if whole) of a parameter; a copy has
  /// those of its original.
  int64_t ways(int64_t param) const;
  const std::string &axis(int64_t param) const;

private:
  /// A part of a sharded dimension that is cut by itself.
  struct Section {
    int64_t size, share, part; ///< `part`: the share that a way has
  };
  std::vector<Section> sectionsOf(const Op &op, int64_t size,
                                  int64_t way) const;
  const Op *unshardOf(int64_t param) const;

  const Side &side;
  std::map<int64_t, std::vector<int64_t>> shapes;          ///< of every value
  std::map<int64_t, std::pair<const Op *, size_t>> makers; ///< op, result
  std::map<int64_t, int64_t> paramOfValue;
};

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_PULL_H
