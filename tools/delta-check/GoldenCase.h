//===- GoldenCase.h - Trainer parameters of a golden case -------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One trainer side of a golden case: its geometry and the parameters of all
/// ranks, whose elements are numbered by tags.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_CHECK_GOLDENCASE_H
#define DELTA_TOOLS_CHECK_GOLDENCASE_H

#include "tools/delta-check/CompiledMap.h"

namespace delta::check {

/// One line of sources.json.
struct GoldenParam {
  int64_t rank = 0, chunk = 0, tp = 0, pp = 0;
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype;
  int64_t firstTag = 0;
  int64_t replicaOf = 0;
};

class GoldenSide {
public:
  /// Reads geometry.json and sources.json of a folder.
  bool read(const std::string &directory, std::string &error);

  /// The side as the "trainer" of a model.json.
  Json trainer() const;

  const std::vector<GoldenParam> &params() const { return all; }
  int64_t numRanks() const { return int64_t(byRank.size()); }
  int64_t numTags() const { return tags; }

  /// The parameter that holds a tag, which must be below numTags().
  const GoldenParam &paramOf(int64_t tag) const;
  /// The tag of the lowest replica.
  int64_t canon(int64_t tag) const;
  /// Rank, name and index, for people.
  std::string describe(int64_t tag) const;

  /// Compares the names, shapes and dtypes of all ranks of a plan's side. The
  /// result has the first tag of each parameter of each rank, -1 where the
  /// data has no such parameter.
  std::vector<std::vector<int64_t>> match(reference::MapSource &map,
                                          delta_side_id_t side,
                                          const std::string &label,
                                          CheckReport &report) const;

private:
  void add(const Json &line);

  Json geometry;
  std::vector<GoldenParam> all; ///< in tag order
  std::vector<std::map<ParamKey, size_t>> byRank;
  int64_t tags = 0;
};

/// Little-endian 32-bit numbers; `size` of them are required.
bool readTags(const std::string &path, int64_t size, std::vector<int32_t> &tags,
              std::string &error);

} // namespace delta::check

#endif // DELTA_TOOLS_CHECK_GOLDENCASE_H
