//===- Golden.cpp - Against trainer -> neutral maps -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares a plan to the neutral layout with what a real converter exported.
/// Some exports hold more rows of a table than the vocabulary has; the
/// published checkpoint does not, so a plan that leaves them out is right. The
/// rows must then be the padded ones, in order.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-check/GoldenCase.h"
#include "tools/reference/Moves.h"

#include <algorithm>
#include <filesystem>

namespace delta::check {
namespace {

using reference::count;

/// One line of tensors.json.
struct GoldenTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype;
  bool addOne = false;
  int64_t offset = 0;
};

/// What the plan delivers to one tensor.
struct Delivered {
  std::vector<int64_t> tags; ///< -1: nothing
  std::vector<uint8_t> valueOps;
};

class GoldenCheck {
public:
  GoldenCheck(const std::string &directory, CheckReport &report)
      : directory(directory), report(report) {}

  bool read(std::string &error);
  bool compile(const std::string &family, std::string &error);
  void compare();

private:
  void readTensors(const Json &lines);
  int64_t trimmedRows(const GoldenTensor &tensor) const;
  void collect(const std::vector<std::vector<int64_t>> &firstTags);
  void deliver(const reference::ElementPlaces &places, int64_t tag);
  void compareTensor(const GoldenTensor &tensor, const Delivered &delivered);
  void comparePadding(const GoldenTensor &tensor, int64_t begin);

  const std::string directory;
  CheckReport &report;
  GoldenSide side;
  std::vector<GoldenTensor> tensors;
  std::vector<int32_t> tags;
  int64_t vocabulary = -1; ///< -1: not known
  CompiledMap compiled;
  std::vector<Delivered> delivered; ///< of each parameter of receiver 0
};

bool GoldenCheck::read(std::string &error) {
  const auto lines = readJson(directory + "/tensors.json", error);
  if (!lines || !side.read(directory, error))
    return false;
  try {
    readTensors(*lines);
  } catch (const Json::exception &exception) {
    error = directory + "/tensors.json: " + exception.what();
    return false;
  }
  int64_t size = 0;
  for (const GoldenTensor &tensor : tensors)
    size = std::max(size, tensor.offset + count(tensor.shape));
  if (!readTags(directory + "/hf.tags", size, tags, error))
    return false;
  for (const int32_t tag : tags)
    if (tag < 0 || tag >= side.numTags()) {
      error = directory + "/hf.tags: " + std::to_string(tag) + " is no tag";
      return false;
    }
  std::string unused;
  const Json config =
      readJson(directory + "/config.json", unused).value_or(Json::object());
  for (const Json *part :
       {&config,
        config.contains("text_config") ? &config["text_config"] : &config})
    if (part->contains("vocab_size") && (*part)["vocab_size"].is_number())
      vocabulary = (*part)["vocab_size"].get<int64_t>();
  return true;
}

void GoldenCheck::readTensors(const Json &lines) {
  for (const Json &line : lines) {
    GoldenTensor tensor;
    tensor.name = line.at("name").get<std::string>();
    tensor.shape = line.at("shape").get<std::vector<int64_t>>();
    tensor.dtype = line.at("dtype").get<std::string>();
    tensor.addOne = line.value("value_op", "") == "add_one";
    tensor.offset = line.at("offset").get<int64_t>();
    tensors.push_back(std::move(tensor));
  }
}

/// Rows of the tensor without vocabulary padding: fewer than it has only where
/// it has exactly as many rows as the padded table.
int64_t GoldenCheck::trimmedRows(const GoldenTensor &tensor) const {
  const int64_t rows = tensor.shape.empty() ? 0 : tensor.shape[0];
  const Json trainer = side.trainer();
  const int64_t multiple =
      trainer["vocab_multiple"].get<int64_t>() * trainer["tp"].get<int64_t>();
  if (vocabulary <= 0 || multiple <= 0)
    return rows;
  const int64_t padded = (vocabulary + multiple - 1) / multiple * multiple;
  return rows == padded ? vocabulary : rows;
}

bool GoldenCheck::compile(const std::string &family, std::string &error) {
  std::vector<Key> keys;
  for (const GoldenTensor &tensor : tensors) {
    keys.push_back({tensor.name, tensor.shape, tensor.dtype});
    if (!tensor.shape.empty())
      keys.back().shape[0] = trimmedRows(tensor);
  }
  const Json list = keyList(keys);
  Json model;
  model["config"] = std::filesystem::absolute(directory + "/config.json");
  model["trainer"] = side.trainer();
  model["rollout"] = {{"engine", "hf"}};
  return compiled.compile(model, &list, family, error);
}

void GoldenCheck::deliver(const reference::ElementPlaces &places, int64_t tag) {
  bool neutralIsOne = false;
  for (const delta_place_t &place : places.destinations) {
    neutralIsOne |= place.param == places.hf.param &&
                    place.element == places.hf.element &&
                    place.value_op == places.hf.value_op;
    if (place.param >= delivered.size() || place.element < 0 ||
        place.element >= int64_t(delivered[place.param].tags.size())) {
      report.add({"", "", std::nullopt, "a place in a tensor",
                  "element " + std::to_string(place.element) +
                      " of parameter " + std::to_string(place.param)});
      continue;
    }
    Delivered &to = delivered[place.param];
    int64_t &slot = to.tags[size_t(place.element)];
    if (slot >= 0)
      report.add({"", "", std::nullopt, side.describe(slot) + " alone",
                  "also " + side.describe(tag)});
    slot = tag;
    to.valueOps[size_t(place.element)] = uint8_t(place.value_op);
  }
  if (!neutralIsOne)
    report.add({"", "", std::nullopt,
                "the neutral place among those of " + side.describe(tag),
                "another"});
}

/// Walks all tiles of all ranks.
void GoldenCheck::collect(const std::vector<std::vector<int64_t>> &firstTags) {
  reference::MapSource &map = compiled.map();
  reference::ElementPlaces places;
  for (uint32_t rank = 0; rank < firstTags.size(); ++rank)
    for (uint64_t t = 0, end = map.numTiles(rank); t < end; ++t) {
      delta_tile_info_t tile = {};
      bool good = map.tile(rank, t, tile);
      for (uint32_t e = 0; good && e < tile.num_elements; ++e) {
        good = map.element(rank, t, e, places);
        const delta_place_t &from = places.source;
        if (good && from.param < firstTags[rank].size() &&
            firstTags[rank][from.param] >= 0)
          deliver(places, firstTags[rank][from.param] + from.element);
      }
      if (!good)
        report.add({"rank " + std::to_string(rank), "", std::nullopt,
                    "tile " + std::to_string(t), "an error of the plan"});
    }
}

void GoldenCheck::compareTensor(const GoldenTensor &tensor,
                                const Delivered &found) {
  const auto size = int64_t(found.tags.size());
  const auto op = tensor.addOne ? DELTA_VALUE_ADD_ONE : DELTA_VALUE_ID;
  bool opsAgree = true;
  ++report.tensors;
  report.elements += size;
  for (int64_t e = 0; e < size; ++e) {
    const int64_t wanted = tags[size_t(tensor.offset + e)];
    const int64_t tag = found.tags[size_t(e)];
    if (tag < 0 || side.canon(tag) != side.canon(wanted))
      report.add({"", tensor.name, reference::indexOf(tensor.shape, e),
                  side.describe(wanted), side.describe(tag)});
    else if (opsAgree && found.valueOps[size_t(e)] != op) {
      opsAgree = false;
      report.add({"", tensor.name, std::nullopt,
                  "value op " + std::to_string(op),
                  "value op " + std::to_string(found.valueOps[size_t(e)])});
    }
  }
  if (size != count(tensor.shape))
    comparePadding(tensor, size);
}

/// Elements from `begin` on must be the rows of the padded table that follow:
/// those of the parameter that the tensor begins with, tensor rank by rank.
void GoldenCheck::comparePadding(const GoldenTensor &tensor, int64_t begin) {
  const GoldenParam &start = side.paramOf(tags[size_t(tensor.offset)]);
  std::map<int64_t, const GoldenParam *> shards; // by tensor rank
  for (const GoldenParam &param : side.params())
    if (param.name == start.name && param.chunk == start.chunk &&
        param.pp == start.pp)
      shards.emplace(param.tp, &param);
  const int64_t perShard = count(start.shape);
  for (int64_t e = begin, end = count(tensor.shape); e < end; ++e) {
    const auto shard = shards.find(e / perShard);
    const int64_t wanted =
        shard == shards.end() ? -1 : shard->second->firstTag + e % perShard;
    const int64_t found = tags[size_t(tensor.offset + e)];
    if (wanted >= 0 && side.canon(wanted) == side.canon(found))
      ++report.bridgePadding;
    else
      report.add({"", tensor.name, reference::indexOf(tensor.shape, e),
                  "padding in order, " + side.describe(wanted),
                  side.describe(found)});
  }
}

void GoldenCheck::compare() {
  reference::MapSource &map = compiled.map();
  const auto firstTags = side.match(map, DELTA_SOURCE, "source", report);
  std::map<ParamKey, Described> expected;
  std::map<std::string, const GoldenTensor *> byName;
  for (const GoldenTensor &tensor : tensors) {
    Described &described = expected[{0, tensor.name}];
    described = {tensor.shape, tensor.dtype, {}};
    if (!tensor.shape.empty()) {
      described.otherShape = tensor.shape;
      described.otherShape[0] = trimmedRows(tensor);
    }
    byName[tensor.name] = &tensor;
  }
  const auto keys = matchRank(map, DELTA_DESTINATION, 0, "", expected, report);
  delivered.resize(keys.size());
  for (uint32_t p = 0; p < keys.size(); ++p) {
    delta_param_info_t info = {};
    map.param(DELTA_DESTINATION, 0, p, info);
    delivered[p].tags.assign(size_t(info.num_elements), -1);
    delivered[p].valueOps.assign(size_t(info.num_elements), DELTA_VALUE_ID);
  }
  collect(firstTags);
  for (uint32_t p = 0; p < keys.size(); ++p)
    if (keys[p])
      compareTensor(*byName.at(keys[p]->second), delivered[p]);
}

} // namespace

bool checkGolden(const std::string &directory, const std::string &family,
                 CheckReport &report, std::string &error) {
  GoldenCheck check(directory, report);
  if (!check.read(error) || !check.compile(family, error))
    return false;
  check.compare();
  return true;
}

} // namespace delta::check
