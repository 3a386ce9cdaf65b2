//===- CompiledModel.h - The map of a small model ---------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compiles a model.json in a temporary folder with the real compiler, opens
/// the plan, and answers where single elements go, by name and index.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_CASES_COMPILEDMODEL_H
#define DELTA_TEST_UNIT_CASES_COMPILEDMODEL_H

#include "runtime/delta_abi.h"

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

namespace delta::test {

using Json = nlohmann::ordered_json;
using Index = std::vector<int64_t>;

/// One element of a tensor of the checkpoint.
struct Element {
  std::string tensor;
  Index index;

  bool operator==(const Element &other) const {
    return tensor == other.tensor && index == other.index;
  }
};

/// One element of a parameter of one rank.
struct Place {
  uint32_t rank;
  uint32_t chunk;
  std::string param;
  Index index;

  bool operator==(const Place &other) const { return key() == other.key(); }
  bool operator<(const Place &other) const { return key() < other.key(); }
  std::tuple<uint32_t, uint32_t, std::string, Index> key() const {
    return {rank, chunk, param, index};
  }
};

std::ostream &operator<<(std::ostream &stream, const Element &element);
std::ostream &operator<<(std::ostream &stream, const Place &place);

/// A parameter or tensor of one rank.
struct ParamDescription {
  std::vector<std::string> names; ///< the usual one first
  uint32_t chunk;
  std::string dtype;
  Index shape;
  bool isCopy;
};

/// Functions that are asked for a rank, parameter or element that the plan does
/// not have throw std::out_of_range, which fails the test.
class CompiledModel {
public:
  /// `family` is a family text to use; empty: the one for the model.
  explicit CompiledModel(const Json &model, const std::string &family = "");
  ~CompiledModel();
  CompiledModel(const CompiledModel &) = delete;
  CompiledModel &operator=(const CompiledModel &) = delete;

  /// 0: there is a plan.
  int exitCode() const { return code; }
  /// What the compiler wrote to stderr, paths cut to the last part.
  const std::string &messages() const { return text; }
  bool wroteNothing() const;

  const delta_plan_api_t &api() const;

  uint32_t numRanks(delta_side_id_t side) const;
  const std::vector<ParamDescription> &params(delta_side_id_t side,
                                              uint32_t rank) const;
  /// Usual names, in the order of the plan.
  std::vector<std::string> names(delta_side_id_t side, uint32_t rank,
                                 uint32_t chunk = 0) const;
  /// The parameter of a rank that has `name` among its names.
  uint32_t find(delta_side_id_t side, uint32_t rank, uint32_t chunk,
                const std::string &name) const;
  Index shapeOf(delta_side_id_t side, uint32_t rank, uint32_t chunk,
                const std::string &name) const;

  /// The tensor element that an element of a trainer rank becomes; nothing when
  /// it has no image.
  std::optional<Element> hfOf(uint32_t rank, uint32_t chunk,
                              const std::string &param,
                              const Index &index) const;
  std::optional<Element> hfOf(uint32_t rank, const std::string &param,
                              const Index &index) const {
    return hfOf(rank, 0, param, index);
  }

  /// The tensor row that a whole row of a matrix becomes, as index {row}:
  /// nothing when no column has an image. Throws when columns are not alike.
  std::optional<Element> rowOf(uint32_t rank, const std::string &param,
                               int64_t row) const;

  /// Every trainer rank that holds a tensor element (copies that are never sent
  /// excepted), ascending.
  std::vector<Place> sourcesOf(const std::string &tensor,
                               const Index &index) const;
  /// How many senders deliver it: 1, or the plan is wrong.
  size_t numSendersOf(const std::string &tensor, const Index &index) const;

  /// Everywhere that a trainer element goes, ascending.
  std::vector<Place> destinationsOf(uint32_t rank, uint32_t chunk,
                                    const std::string &param,
                                    const Index &index) const;

private:
  /// What the ranks that hold the same shard have in common.
  using ShardKey = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>;
  struct Image {
    std::optional<delta_place_t> hf;
    std::vector<delta_place_t> destinations;
    size_t numSenders = 0;
  };
  struct Side {
    std::vector<std::vector<delta_param_info_t>> infos;
    std::vector<std::vector<ParamDescription>> params;
  };

  void compile(const std::string &family);
  void open();
  void readSide(delta_side_id_t side);
  void readTiles();
  ShardKey shardOf(uint32_t rank, const delta_param_info_t &info) const;
  const Image *imageOf(uint32_t rank, uint32_t chunk, const std::string &param,
                       const Index &index) const;
  Place placeOf(delta_side_id_t side, const delta_place_t &place) const;
  Element elementOf(const delta_place_t &place) const;

  std::string folder;
  std::string text;
  int code = -1;
  void *handle = nullptr;
  const delta_plan_api_t *table = nullptr;
  delta_index_t *index = nullptr;
  Side sides[3];
  std::map<ShardKey, std::vector<Image>> images;
};

} // namespace delta::test

#endif // DELTA_TEST_UNIT_CASES_COMPILEDMODEL_H
