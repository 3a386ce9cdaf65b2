//===- CrossCheckTest.cpp - Right maps pass, each fault is named ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The map of the example is written here from formulas, by hand. The
/// cross-check must agree with it, and must name what each change of it
/// breaks.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/CrossCheck.h"
#include "Example.h"
#include "ListedMap.h"

#include <cstring>
#include <functional>
#include <gtest/gtest.h>

using namespace delta::reference;
using example::info;
using example::ListedMap;

namespace {

std::string layerName(uint32_t layer, const std::string &rest) {
  return "layers." + std::to_string(layer) + "." + rest;
}

std::string neutralName(uint32_t layer, const std::string &rest) {
  return "h." + std::to_string(layer) + "." + rest;
}

/// Trainer parameters of a rank with these layers and experts.
std::vector<delta_param_info_t> trainer(bool first, bool last, int64_t rows,
                                        uint32_t firstLayer, uint32_t layers,
                                        uint32_t firstExpert, uint32_t experts,
                                        int64_t columns) {
  std::vector<delta_param_info_t> params;
  if (first)
    params.push_back(info("first.weight", DELTA_BF16, {rows, 2}));
  if (last)
    params.push_back(info("last.weight", DELTA_BF16, {rows, 2}, DELTA_NONE,
                          DELTA_NONE, true));
  for (uint32_t l = 0; l < layers; ++l) {
    const uint32_t layer = firstLayer + l;
    params.push_back(
        info(layerName(l, "pair") + "\n" + layerName(l, "old_pair"), DELTA_BF16,
             {4, 3}, layer));
    params.push_back(info(layerName(l, "norm"), DELTA_FP32, {3}, layer));
    for (uint32_t e = 0; layer % 2 == 1 && e < experts; ++e)
      params.push_back(info(layerName(l, "expert" + std::to_string(e)),
                            DELTA_BF16, {2, columns}, layer, firstExpert + e));
  }
  return params;
}

std::vector<delta_param_info_t> neutral() {
  std::vector<delta_param_info_t> params = {
      info("embed", DELTA_BF16, {7, 2}),
      info("head", DELTA_BF16, {7, 2}, DELTA_NONE, DELTA_NONE, true)};
  for (uint32_t l = 0; l < 4; ++l) {
    params.push_back(info(neutralName(l, "gate"), DELTA_BF16, {4, 3}, l));
    params.push_back(info(neutralName(l, "up"), DELTA_BF16, {4, 3}, l));
    params.push_back(info(neutralName(l, "norm"), DELTA_FP32, {3}, l));
    if (l % 2 == 1)
      params.push_back(
          info(neutralName(l, "experts"), DELTA_BF16, {4, 4, 2}, l));
  }
  return params;
}

/// Where an element goes: name and index in the neutral layout, and name,
/// index and ranks in the resharded one.
struct Image {
  std::string hf;
  int64_t hfElement;
  std::string to;
  int64_t toElement;
  std::vector<uint32_t> toRanks;
  bool addOne = false;
};

/// The formula of every source parameter, by hand. Empty: padding or a copy.
Image imageOf(uint32_t rank, const delta_param_info_t &param, int64_t element) {
  const std::string name = namesOf(param).front();
  const int64_t t = rank % 2;
  if (name == "first.weight") {
    const int64_t row = 4 * t + element / 2, column = element % 2;
    if (row >= 7)
      return {};
    return {"embed",
            row * 2 + column,
            "first.weight",
            row % 6 * 2 + column,
            {uint32_t(row / 6)}};
  }
  const uint32_t layer = param.layer;
  if (name.find("pair") != std::string::npos) {
    const int64_t row = element / 3, column = element % 3;
    return {neutralName(layer, row < 2 ? "gate" : "up"),
            (2 * t + row % 2) * 3 + column,
            layerName(layer, "pair"),
            element,
            {uint32_t(t)}};
  }
  if (name.find("expert") != std::string::npos) {
    const int64_t row = element / 4, column = element % 4;
    return {neutralName(layer, "experts"),
            (int64_t(param.expert) * 4 + column) * 2 + row,
            layerName(layer, "expert" + std::to_string(param.expert)),
            row * 2 + column % 2,
            {uint32_t(column / 2)}};
  }
  if (name.find("norm") != std::string::npos && t == 0)
    return {neutralName(layer, "norm"),
            element,
            layerName(layer, "norm"),
            element,
            {0, 1},
            true};
  return {};
}

ListedMap makeMap(bool reshard) {
  ListedMap map;
  map.hfDestination = !reshard;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const uint32_t stage = rank / 2, ep = rank % 2;
    map.params[DELTA_SOURCE].push_back(trainer(
        stage == 0, stage == 1, 4, stage * 2, 2, ep * 2, 2, /*columns=*/4));
  }
  map.params[DELTA_HF] = {neutral()};
  if (reshard)
    map.params[DELTA_DESTINATION].assign(
        2, trainer(true, true, 6, 0, 4, 0, 4, /*columns=*/2));
  else
    map.params[DELTA_DESTINATION].assign(2, neutral());
  map.tiles.resize(4);
  for (uint32_t rank = 0; rank < 4; ++rank)
    for (uint32_t p = 0; p < map.params[DELTA_SOURCE][rank].size(); ++p) {
      const delta_param_info_t &param = map.params[DELTA_SOURCE][rank][p];
      ListedMap::Tile tile = {p, {}};
      for (int64_t e = 0; e < param.num_elements; ++e) {
        const Image image = imageOf(rank, param, e);
        if (image.hf.empty())
          continue;
        const delta_value_op_t op =
            image.addOne ? DELTA_VALUE_ADD_ONE : DELTA_VALUE_ID;
        ElementPlaces places = {
            {rank, p, e, DELTA_VALUE_ID, 0},
            {0, map.find(DELTA_HF, 0, image.hf), image.hfElement, op, 0},
            {}};
        const auto deliver = [&](uint32_t to, const std::string &name,
                                 int64_t element, delta_value_op_t op) {
          places.destinations.push_back(
              {to, map.find(DELTA_DESTINATION, to, name), element, op, 0});
        };
        for (uint32_t to = 0; !reshard && to < 2; ++to) {
          deliver(to, image.hf, image.hfElement, op);
          if (image.hf == "embed")
            deliver(to, "head", image.hfElement, op);
        }
        for (const uint32_t to :
             reshard ? image.toRanks : std::vector<uint32_t>()) {
          deliver(to, image.to, image.toElement, DELTA_VALUE_ID);
          if (image.to == "first.weight")
            deliver(to, "last.weight", image.toElement, DELTA_VALUE_ID);
        }
        tile.elements.push_back(places);
      }
      if (!tile.elements.empty())
        map.tiles[rank].push_back(tile);
    }
  return map;
}

Report check(bool reshard,
             const std::function<void(ListedMap &)> &change = {}) {
  ListedMap map = makeMap(reshard);
  if (change)
    change(map);
  std::string error;
  const auto report = crossCheck(
      reshard ? example::resharded() : example::program(), map, error);
  EXPECT_TRUE(report) << error;
  return report.value_or(Report());
}

std::string firstOf(const Report &report) {
  return report.first ? toText(*report.first) : "no mismatch";
}

TEST(CrossCheck, handWrittenMapOfTheNeutralLayout) {
  const Report report = check(false);
  EXPECT_EQ(report.mismatches, 0) << firstOf(report);
  // Neutral once and two receivers: 14 + 4*(12+12+3) + 2*32 elements, and the
  // second name of the table at the receivers.
  EXPECT_EQ(report.elements, 3 * (14 + 108 + 64) + 2 * 14);
}

TEST(CrossCheck, handWrittenMapOfAnotherGeometry) {
  const Report report = check(true);
  EXPECT_EQ(report.mismatches, 0) << firstOf(report);
}

TEST(CrossCheck, twoElementsSwapped) {
  const Report report = check(false, [](ListedMap &map) {
    auto &elements = map.tiles[1][0].elements;
    std::swap(elements[0].source, elements[1].source);
  });
  EXPECT_EQ(report.mismatches, 2 * 5);
  EXPECT_EQ(firstOf(report),
            "tensor \"embed\" [4, 0]: expected \"first.weight\" [4, 0], found "
            "\"first.weight\" [4, 1]");
}

TEST(CrossCheck, elementSentTwice) {
  const Report report = check(false, [](ListedMap &map) {
    auto &elements = map.tiles[0][0].elements;
    elements.push_back(elements[3]);
  });
  EXPECT_EQ(firstOf(report),
            "tensor \"embed\" [1, 1]: expected one value, found another one, "
            "from \"first.weight\" [1, 1]");
}

TEST(CrossCheck, elementOfOneReplicaMissing) {
  const Report report = check(false, [](ListedMap &map) {
    map.tiles[0][0].elements[3].destinations.pop_back();
  });
  EXPECT_EQ(report.mismatches, 1);
  EXPECT_EQ(firstOf(report), "receiver 1 \"head\" [1, 1]: expected "
                             "\"first.weight\" [1, 1], found nothing");
}

TEST(CrossCheck, paddingWritten) {
  const Report report = check(true, [](ListedMap &map) {
    auto &places = map.tiles[0][0].elements[0].destinations;
    places.push_back(places[0]);
    places.back().rank = 1;
    places.back().element = 2 * 2;
  });
  EXPECT_EQ(report.mismatches, 1);
  EXPECT_EQ(firstOf(report),
            "receiver 1 \"first.weight\" [2, 0]: expected nothing, for it is "
            "padding, found \"first.weight\" [0, 0]");
}

TEST(CrossCheck, wrongExpert) {
  const Report report = check(true, [](ListedMap &map) {
    for (auto &tile : map.tiles[0])
      for (auto &element : tile.elements)
        if (element.source.param ==
            map.find(DELTA_SOURCE, 0, "layers.1.expert0"))
          element.source.param = map.find(DELTA_SOURCE, 0, "layers.1.expert1");
  });
  EXPECT_GT(report.mismatches, 0);
  EXPECT_EQ(report.first->where, "rank 0") << firstOf(report);
}

TEST(CrossCheck, wrongValueOp) {
  const Report report = check(false, [](ListedMap &map) {
    for (auto &tile : map.tiles[0])
      for (auto &element : tile.elements)
        element.hf.value_op = DELTA_VALUE_ID;
  });
  EXPECT_EQ(report.mismatches, 2 * 3);
  EXPECT_EQ(firstOf(report), "tensor \"h.0.norm\" [0]: expected value op +1, "
                             "found no value op");
}

TEST(CrossCheck, parametersThatDiffer) {
  const auto of = [](const std::function<void(delta_param_info_t &)> &change,
                     uint32_t param = 0) {
    return firstOf(check(false, [&](ListedMap &map) {
      change(map.params[DELTA_SOURCE][2][param]);
    }));
  };
  EXPECT_EQ(
      of([](auto &info) { info.shape[0] = 5; }),
      "rank 2 \"last.weight\": expected shape [4, 2], found shape [5, 2]");
  EXPECT_EQ(of([](auto &info) { info.dtype = DELTA_FP32; }),
            "rank 2 \"last.weight\": expected dtype bf16, found fp32");
  EXPECT_EQ(of([](auto &info) { info.is_copy = 0; }),
            "rank 2 \"last.weight\": expected a copy, found values of its own");
  EXPECT_EQ(of([](auto &info) { info.chunk = 1; }),
            "rank 2 \"last.weight\": expected no such name, found chunk 1");
  EXPECT_EQ(of([](auto &info) { info.layer = 3; }, 1),
            "rank 2 \"layers.0.pair\": expected layer 2, expert -1, found "
            "layer 3, expert -1");
  EXPECT_EQ(of([](auto &info) { std::strcpy(info.name, "layers.0.pair"); }, 1),
            "rank 2 \"layers.0.pair\": expected 2 names, found other "
            "alternative names");
}

TEST(CrossCheck, copyThatIsSent) {
  const Report report = check(false, [](ListedMap &map) {
    map.tiles[2].push_back({0, {map.tiles[0][0].elements[0]}});
    map.tiles[2].back().elements[0].source = {2, 0, 0, 0, 0};
  });
  EXPECT_EQ(firstOf(report), "rank 2 \"last.weight\" [0, 0]: expected a copy, "
                             "never sent, found a tile");
}

TEST(CrossCheck, rankMissing) {
  const Report report = check(
      false, [](ListedMap &map) { map.params[DELTA_DESTINATION].pop_back(); });
  EXPECT_EQ(firstOf(report), "destination: expected 2 ranks, found 1");
}

} // namespace
