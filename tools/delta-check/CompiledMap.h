//===- CompiledMap.h - A plan made for a comparison -------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compiles a model into a plan in a temporary directory and opens its map.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_CHECK_COMPILEDMAP_H
#define DELTA_TOOLS_CHECK_COMPILEDMAP_H

#include "tools/delta-check/Checks.h"
#include "tools/delta-check/ModelFile.h"
#include "tools/reference/MapSource.h"
#include "tools/reference/PlanFile.h"

#include <map>

namespace delta::check {

class CompiledMap {
public:
  /// `keys` may be null. False, with `error` set, on any failure.
  bool compile(const Json &model, const Json *keys, const std::string &family,
               std::string &error);

  reference::MapSource &map() { return *source; }

private:
  reference::TemporaryDirectory directory;
  std::unique_ptr<reference::PlanFile> plan;
  std::unique_ptr<reference::MapSource> source;
};

/// A parameter or tensor as the data describes it.
struct Described {
  std::vector<int64_t> shape;
  std::string dtype;
  /// Accepted as well; empty: none is.
  std::vector<int64_t> otherShape;
};

/// Chunk and local name.
using ParamKey = std::pair<int64_t, std::string>;

/// Compares the parameters of one rank of a plan with `expected` and reports a
/// mismatch for each that is missing, extra or different. A parameter with
/// alternative names may be expected under any of them. The result has the key
/// of each parameter of the plan, nothing where it has none or differs.
std::vector<std::optional<ParamKey>>
matchRank(reference::MapSource &map, delta_side_id_t side, uint32_t rank,
          const std::string &where,
          const std::map<ParamKey, Described> &expected, CheckReport &report);

} // namespace delta::check

#endif // DELTA_TOOLS_CHECK_COMPILEDMAP_H
