//===- Reshard.cpp - Against trainer -> trainer maps ----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares a plan to another trainer geometry with a map that was composed
/// from two exports. An element without an entry needs nothing; it must not
/// receive an element that belongs elsewhere.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-check/GoldenCase.h"
#include "tools/reference/Moves.h"

#include <filesystem>

namespace delta::check {
namespace {

class ReshardCheck {
public:
  ReshardCheck(const std::string &directory, CheckReport &report)
      : directory(directory), report(report) {}

  bool read(std::string &error);
  bool compile(const std::string &family, std::string &error);
  void compare();

private:
  void collect();
  void deliver(const delta_place_t &place, int64_t tag);
  void compareElement(int64_t destinationTag);

  const std::string directory;
  CheckReport &report;
  GoldenSide source, destination;
  std::vector<int32_t> map;   ///< source tag of each destination tag, or -1
  std::vector<bool> hasImage; ///< of each source tag
  CompiledMap compiled;
  std::vector<std::vector<int64_t>> sourceTags, destinationTags;
  std::vector<int64_t> found; ///< source tag of each destination tag, or -1
};

bool ReshardCheck::read(std::string &error) {
  if (!source.read(directory + "/source", error) ||
      !destination.read(directory + "/destination", error) ||
      !readTags(directory + "/map.tags", destination.numTags(), map, error))
    return false;
  hasImage.assign(size_t(source.numTags()), false);
  for (const int32_t tag : map) {
    if (tag >= source.numTags()) {
      error = directory + "/map.tags: " + std::to_string(tag) + " is no tag";
      return false;
    }
    if (tag >= 0)
      hasImage[size_t(source.canon(tag))] = true;
  }
  return true;
}

bool ReshardCheck::compile(const std::string &family, std::string &error) {
  Json model;
  model["config"] = std::filesystem::absolute(directory + "/config.json");
  model["trainer"] = source.trainer();
  model["rollout"] = destination.trainer();
  model["rollout"]["engine"] = "megatron";
  return compiled.compile(model, /*keys=*/nullptr, family, error);
}

void ReshardCheck::deliver(const delta_place_t &place, int64_t tag) {
  const bool known = place.rank < destinationTags.size() &&
                     place.param < destinationTags[place.rank].size();
  const int64_t first =
      known ? destinationTags[place.rank][place.param] : int64_t(-1);
  if (known && first < 0)
    return; // The parameter differs, which is reported already.
  const int64_t at = first + place.element;
  if (!known || place.element < 0 || at >= destination.numTags() ||
      &destination.paramOf(at) != &destination.paramOf(first)) {
    report.add({"", "", std::nullopt, "a place for " + source.describe(tag),
                "element " + std::to_string(place.element) + " of parameter " +
                    std::to_string(place.param) + " of rank " +
                    std::to_string(place.rank)});
    return;
  }
  if (found[size_t(at)] >= 0)
    report.add({"", "", std::nullopt,
                source.describe(found[size_t(at)]) + " alone",
                "also " + source.describe(tag)});
  found[size_t(at)] = tag;
  if (place.value_op != DELTA_VALUE_ID)
    report.add({"", "", std::nullopt, "the value of " + source.describe(tag),
                "a value op"});
}

void ReshardCheck::collect() {
  reference::MapSource &plan = compiled.map();
  reference::ElementPlaces places;
  for (uint32_t rank = 0; rank < sourceTags.size(); ++rank)
    for (uint64_t t = 0, end = plan.numTiles(rank); t < end; ++t) {
      delta_tile_info_t tile = {};
      bool good = plan.tile(rank, t, tile);
      for (uint32_t e = 0; good && e < tile.num_elements; ++e) {
        good = plan.element(rank, t, e, places);
        const uint32_t param = places.source.param;
        if (!good || param >= sourceTags[rank].size() ||
            sourceTags[rank][param] < 0)
          continue;
        for (const delta_place_t &place : places.destinations)
          deliver(place, sourceTags[rank][param] + places.source.element);
      }
      if (!good)
        report.add({"source rank " + std::to_string(rank), "", std::nullopt,
                    "tile " + std::to_string(t), "an error of the plan"});
    }
}

void ReshardCheck::compareElement(int64_t destinationTag) {
  const int64_t wanted = map[size_t(destinationTag)];
  const int64_t tag = found[size_t(destinationTag)];
  const int64_t canon = tag < 0 ? -1 : source.canon(tag);
  if (wanted >= 0 ? canon == source.canon(wanted)
                  : canon < 0 || !hasImage[size_t(canon)])
    return;
  const GoldenParam &param = destination.paramOf(destinationTag);
  report.add({"destination rank " + std::to_string(param.rank), param.name,
              reference::indexOf(param.shape, destinationTag - param.firstTag),
              source.describe(wanted), source.describe(tag)});
}

void ReshardCheck::compare() {
  sourceTags = source.match(compiled.map(), DELTA_SOURCE, "source", report);
  destinationTags = destination.match(compiled.map(), DELTA_DESTINATION,
                                      "destination", report);
  found.assign(size_t(destination.numTags()), -1);
  collect();
  report.tensors = int64_t(destination.params().size());
  report.elements = destination.numTags();
  for (int64_t tag = 0; tag < destination.numTags(); ++tag)
    compareElement(tag);
}

} // namespace

bool checkReshard(const std::string &directory, const std::string &family,
                  CheckReport &report, std::string &error) {
  ReshardCheck check(directory, report);
  if (!check.read(error) || !check.compile(family, error))
    return false;
  check.compare();
  return true;
}

} // namespace delta::check
