//===- RolloutCase.h - Parameters of a running engine -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One case of what an engine's own loader did: the tensors of a checkpoint,
/// whose elements are numbered by tags, and the parameters of all ranks, with
/// the tag of each element.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_CHECK_ROLLOUTCASE_H
#define DELTA_TOOLS_CHECK_ROLLOUTCASE_H

#include "tools/delta-check/ModelFile.h"

#include <map>

namespace delta::check {

/// One line of tensors.json.
struct RolloutTensor {
  std::vector<int64_t> shape;
  int64_t firstTag = 0;
  /// The tensor with one number for each block of this one, or none. `suffix`
  /// is what its name adds to this one's.
  const RolloutTensor *grid = nullptr;
  std::string suffix;
};

/// One line of params.json. Of a second name for storage only `aliasOf` is
/// known.
struct RolloutParam {
  std::vector<int64_t> shape;
  std::vector<int64_t> stride;
  int64_t offset = 0; ///< of its first tag
  int64_t mapped = 0; ///< elements that come from a tensor
  std::string aliasOf;
  std::string valueOp;
};

class RolloutCase {
public:
  bool read(const std::string &directory, std::string &error);

  /// The "rollout" of a model.json.
  Json rollout() const;
  /// What the compiler is told of the checkpoint: all but block grids.
  Json keys() const;

  /// By name; null where the checkpoint has none.
  const RolloutTensor *tensor(const std::string &name) const;
  /// By name, of each rank.
  const std::vector<std::map<std::string, RolloutParam>> &ranks() const {
    return params;
  }
  /// Name and index of the tensor element with a tag, for people.
  std::string describe(int64_t tag) const;

  std::vector<int32_t> tags; ///< of all parameters, -1: no tensor's
  /// Sizes of a quantization block; empty where there is none.
  std::vector<int64_t> block;

private:
  void addParam(const Json &line);
  void findGrids();

  std::map<std::string, RolloutTensor> tensors;
  std::vector<std::string> order; ///< names of tensors by tag
  std::vector<std::map<std::string, RolloutParam>> params;
  Json layout;
};

} // namespace delta::check

#endif // DELTA_TOOLS_CHECK_ROLLOUTCASE_H
