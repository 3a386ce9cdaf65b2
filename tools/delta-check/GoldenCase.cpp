//===- GoldenCase.cpp - Trainer parameters of a golden case ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads sources.json and hf.tags or map.tags.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-check/GoldenCase.h"

#include "tools/reference/Moves.h"

#include <algorithm>

namespace delta::check {

using reference::count;

void GoldenSide::add(const Json &line) {
  GoldenParam param;
  const Json &coords = line.at("coords");
  param.rank = line.at("rank").get<int64_t>();
  param.chunk = coords.at("vp_chunk").get<int64_t>();
  param.tp = coords.at("tp").get<int64_t>();
  param.pp = coords.at("pp").get<int64_t>();
  param.name = line.at("name").get<std::string>();
  param.shape = line.at("shape").get<std::vector<int64_t>>();
  param.dtype = line.at("dtype").get<std::string>();
  param.firstTag = line.at("first_tag").get<int64_t>();
  param.replicaOf = line.at("replica_of").get<int64_t>();
  if (int64_t(byRank.size()) <= param.rank)
    byRank.resize(size_t(param.rank) + 1);
  byRank[size_t(param.rank)][{param.chunk, param.name}] = all.size();
  tags = param.firstTag + count(param.shape);
  all.push_back(std::move(param));
}

bool GoldenSide::read(const std::string &directory, std::string &error) {
  const auto geometryFile = readJson(directory + "/geometry.json", error);
  if (!geometryFile)
    return false;
  geometry = *geometryFile;
  const auto sources = readJson(directory + "/sources.json", error);
  if (!sources)
    return false;
  try {
    for (const Json &line : *sources)
      add(line);
    trainer();
  } catch (const Json::exception &exception) {
    error = directory + ": " + exception.what();
    return false;
  }
  if (all.empty())
    error = directory + "/sources.json lists no parameter";
  return !all.empty();
}

Json GoldenSide::trainer() const {
  std::vector<std::string> names;
  for (const GoldenParam &param : all)
    names.push_back(param.name);
  return trainerOf(geometry, names);
}

const GoldenParam &GoldenSide::paramOf(int64_t tag) const {
  const auto next = std::upper_bound(all.begin(), all.end(), tag,
                                     [](int64_t tag, const GoldenParam &param) {
                                       return tag < param.firstTag;
                                     });
  return *std::prev(next);
}

int64_t GoldenSide::canon(int64_t tag) const {
  const GoldenParam &param = paramOf(tag);
  return param.replicaOf + tag - param.firstTag;
}

std::string GoldenSide::describe(int64_t tag) const {
  if (tag < 0 || tag >= tags)
    return "nothing";
  const GoldenParam &param = paramOf(tag);
  std::string text = "rank " + std::to_string(param.rank);
  if (param.chunk)
    text += " chunk " + std::to_string(param.chunk);
  return text + " \"" + param.name + "\" " +
         reference::elementText(param.shape, tag - param.firstTag);
}

std::vector<std::vector<int64_t>> GoldenSide::match(reference::MapSource &map,
                                                    delta_side_id_t side,
                                                    const std::string &label,
                                                    CheckReport &report) const {
  std::vector<std::vector<int64_t>> firstTags(byRank.size());
  if (map.numRanks(side) != byRank.size()) {
    report.add({label, "", std::nullopt,
                std::to_string(byRank.size()) + " ranks",
                std::to_string(map.numRanks(side))});
    return firstTags;
  }
  for (size_t rank = 0; rank < byRank.size(); ++rank) {
    std::map<ParamKey, Described> expected;
    for (const auto &[key, index] : byRank[rank])
      expected[key] = {all[index].shape, all[index].dtype, {}};
    const auto keys =
        matchRank(map, side, uint32_t(rank),
                  label + " rank " + std::to_string(rank), expected, report);
    for (const std::optional<ParamKey> &key : keys)
      firstTags[rank].push_back(key ? all[byRank[rank].at(*key)].firstTag : -1);
  }
  return firstTags;
}

bool readTags(const std::string &path, int64_t size, std::vector<int32_t> &tags,
              std::string &error) {
  const auto bytes = readFile(path, error);
  if (!bytes)
    return false;
  if (int64_t(bytes->size()) != size * 4) {
    error = path + " has " + std::to_string(bytes->size()) +
            " bytes, not 4 * " + std::to_string(size);
    return false;
  }
  tags.resize(size_t(size));
  for (size_t i = 0; i < tags.size(); ++i) {
    uint32_t tag = 0;
    for (size_t b = 0; b < 4; ++b)
      tag |= uint32_t(uint8_t((*bytes)[i * 4 + b])) << (8 * b);
    tags[i] = int32_t(tag);
  }
  return true;
}

} // namespace delta::check
