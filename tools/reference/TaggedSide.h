//===- TaggedSide.h - Every element under a number --------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One side of a model, executed with tags for values: every element of every
/// unsharded trainer parameter has a 64-bit number, each rank's shards hold
/// theirs, and the tensors of the neutral layout are put together from the
/// shards. All arrays are in memory, so this is for small models.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_TAGGEDSIDE_H
#define DELTA_TOOLS_REFERENCE_TAGGEDSIDE_H

#include "tools/reference/Interpreter.h"

#include <tuple>

namespace delta::reference {

/// One expanded tensor of the neutral layout.
struct NeutralTensor {
  int64_t tensor = 0; ///< record of the program
  int64_t layer = kNone;
  int64_t expert = kNone; ///< kNone where the experts are stacked
  std::string name;
};

/// All of them, tensor by tensor, then by layer and expert.
std::vector<NeutralTensor> neutralTensors(const Interpreter &interpreter);

/// Numbers the elements of all unsharded parameters, copies left out.
class TagSpace {
public:
  explicit TagSpace(const Interpreter &interpreter);
  uint64_t size() const { return numTags; }
  /// Tag of element 0; a copy has the tags of what it repeats.
  uint64_t first(int64_t param, int64_t layer, int64_t expert) const;
  /// Global name and index in the unsharded parameter.
  std::string describe(uint64_t tag) const;

private:
  using Instance = std::tuple<int64_t, int64_t, int64_t>;
  const Interpreter &interpreter;
  std::map<Instance, uint64_t> firsts;
  std::map<uint64_t, Instance> instances;
  uint64_t numTags = 0;
};

/// Tag of an element of a rank that belongs to no parameter of the program.
constexpr uint64_t kNobody = ~uint64_t(0);

/// The interpreter must outlive it.
class TaggedSide {
public:
  /// False, with `error` set, when no rank holds some shard.
  bool build(const Interpreter &interpreter, std::string &error);

  struct Rank {
    std::vector<LocalParam> params;
    std::vector<Array<uint64_t>> tags; ///< of each of them, as memory has them
  };
  const std::vector<Rank> &ranks() const { return allRanks; }
  const std::vector<NeutralTensor> &tensors() const { return allTensors; }
  /// Tags of each of the tensors.
  const std::vector<Array<uint64_t>> &tensorTags() const { return tags; }
  const TagSpace &space() const { return *tagSpace; }

private:
  void fillRanks(const Interpreter &interpreter);
  void fillPiece(const Interpreter &interpreter, size_t rank, size_t index,
                 const Piece &piece);
  bool join(const Interpreter &interpreter, int64_t param, int64_t layer,
            int64_t expert, Array<uint64_t> &whole, std::string &error);
  bool runGroup(const Interpreter &interpreter, const Group &group,
                std::string &error);

  std::vector<Rank> allRanks;
  std::vector<NeutralTensor> allTensors;
  std::vector<Array<uint64_t>> tags;
  std::map<std::tuple<int64_t, int64_t, int64_t>, size_t> tensorIndex;
  struct Place {
    size_t rank, param;
    int64_t offset;
  };
  /// Lowest holder of (param, layer, expert, way).
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, Place> holders;
  std::optional<TagSpace> tagSpace;
};

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_TAGGEDSIDE_H
