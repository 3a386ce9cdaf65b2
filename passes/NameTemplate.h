//===- NameTemplate.h - Names with holes ------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_PASSES_NAMETEMPLATE_H
#define DELTA_PASSES_NAMETEMPLATE_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace delta {

/// Fills `{layer}`, `{layer+N}`, `{layer-N}` and `{expert}`.
std::string fillName(const std::string &name, int64_t layer, int64_t expert);

/// A name template and the instances it stands for.
struct NamedInstances {
  std::string name;
  void *owner; ///< two names of one owner are alternatives, not a clash
  std::vector<int64_t> layers; ///< empty: not in a layer
  std::string stage;           ///< where it is, if not in a layer
  int64_t numExperts;          ///< 0: none
  int64_t stack = 0; ///< of a trainer's layers: 0 is the decoder itself
};

/// Two entries, or twice the same, that stand for one name.
struct Clash {
  size_t first, second;
  std::string name;
};

/// Finds two entries of different owners, or two instances of one entry, that
/// give one name. Names are
/// compared as templates first, and filled only where two templates could
/// agree, so that the cost does not grow with layers and experts. Entries on
/// different stages that are not in layers count as one place only if their
/// stages are equal or empty.
std::optional<Clash> findClash(const std::vector<NamedInstances> &list);

} // namespace delta

#endif // DELTA_PASSES_NAMETEMPLATE_H
