//===- EngineTest.cpp - Engines as destinations ---------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The map to the example's engine is written here from formulas, by hand. All
/// three checks must agree with it, and must name what each change breaks.
///
//===----------------------------------------------------------------------===//

#include "EngineExample.h"
#include "ListedMap.h"
#include "tools/reference/CrossCheck.h"
#include "tools/reference/Interpreter.h"
#include "tools/reference/NanProbe.h"
#include "tools/reference/SampleCheck.h"

#include <functional>

using namespace delta::reference;
using example::info;
using example::ListedMap;

namespace {

constexpr uint32_t kReplicas = 2, kRanks = 4;
/// Experts of ep rank 0 and 1, slot by slot, in each layer.
const std::vector<std::vector<std::vector<uint32_t>>> slots = {
    {{0, 1, 2}, {0, 2}}, {{2, 1, 0}, {1, 1}}};

std::string in(const std::string &prefix, uint32_t layer,
               const std::string &rest) {
  return prefix + std::to_string(layer) + "." + rest;
}

/// Parameters of one rank get their class from their place in this list.
class Rank {
public:
  void add(uint32_t classIndex, delta_param_info_t info) {
    info.class_index = classIndex;
    params.push_back(info);
  }
  std::vector<delta_param_info_t> params;
};

std::vector<delta_param_info_t> sourceRank() {
  Rank rank;
  rank.add(0, info("table", DELTA_BF16, {7, 2}));
  for (uint32_t l = 0; l < 2; ++l) {
    rank.add(1, info(in("l", l, "q"), DELTA_BF16, {4, 3}, l));
    rank.add(2, info(in("l", l, "k"), DELTA_BF16, {2, 3}, l));
    for (uint32_t e = 0; e < 3; ++e)
      rank.add(3, info(in("l", l, "up" + std::to_string(e)), DELTA_BF16, {4, 3},
                       l, e));
    rank.add(4, info(in("l", l, "shared"), DELTA_BF16, {4, 3}, l));
    rank.add(5, info(in("l", l, "log"), DELTA_FP32, {4}, l));
    rank.add(6, info(in("l", l, "norm"), DELTA_BF16, {3}, l));
  }
  rank.add(7, info("draft", DELTA_BF16, {2}));
  return rank.params;
}

std::vector<delta_param_info_t> neutral() {
  Rank rank;
  rank.add(0, info("table", DELTA_BF16, {7, 2}));
  for (uint32_t l = 0; l < 2; ++l) {
    rank.add(1, info(in("h.", l, "q"), DELTA_BF16, {8, 3}, l));
    rank.add(2, info(in("h.", l, "k"), DELTA_BF16, {4, 3}, l));
    for (uint32_t e = 0; e < 3; ++e)
      rank.add(3, info(in("h.", l, "up." + std::to_string(e)), DELTA_BF16,
                       {4, 3}, l, e));
    rank.add(4, info(in("h.", l, "shared"), DELTA_BF16, {4, 3}, l));
    rank.add(5, info(in("h.", l, "log"), DELTA_BF16, {4}, l));
    rank.add(6, info(in("h.", l, "norm"), DELTA_BF16, {3}, l));
  }
  rank.add(7, info("draft.x", DELTA_BF16, {2}));
  return rank.params;
}

std::vector<delta_param_info_t> engineRank(uint32_t r) {
  Rank rank;
  rank.add(0, info("table", DELTA_BF16, {2, 2}));
  for (uint32_t l = 0; l < 2; ++l) {
    const auto numSlots = int64_t(slots[l][r / 2].size()) + 2;
    rank.add(1, info(in("m.", l, "qk"), DELTA_BF16, {4, 3}, l));
    rank.add(2, info(in("m.", l, "w"), DELTA_BF16, {numSlots, 2, 3}, l));
    rank.add(3, info(in("m.", l, "A"), DELTA_FP32, {1}, l));
    rank.add(4, info(in("m.", l, "norm"), DELTA_BF16, {3}, l));
    delta_param_info_t kc = info(in("m.", l, "kc"), DELTA_BF16, {3, 1}, l);
    kc.stride[0] = 1;
    kc.stride[1] = 3;
    rank.add(5, kc);
    rank.add(6, info(in("m.", l, "scale"), DELTA_BF16, {2}, l));
  }
  return rank.params;
}

/// Where one element of a tensor lies in the engine.
struct Place {
  uint32_t rank;
  std::string name;
  int64_t element;
  delta_value_op_t op = DELTA_VALUE_ID;
};

/// By hand, of the element (row, column) of a tensor of `layer`.
std::vector<Place> placesOf(const std::string &tensor, uint32_t layer,
                            uint32_t expert, int64_t row, int64_t column) {
  std::vector<Place> places;
  const auto half = uint32_t(row / 2), low = uint32_t(row % 2);
  const int64_t inSlot = low * 3 + column;
  if (tensor == "table")
    places = {{half, "table", low * 2 + column}};
  if (tensor == "q")
    places = {{half, in("m.", layer, "qk"), inSlot}};
  if (tensor == "k") {
    places = {{2 * half, in("m.", layer, "qk"), 6 + inSlot},
              {2 * half + 1, in("m.", layer, "qk"), 6 + inSlot},
              {uint32_t(row), in("m.", layer, "kc"), column}};
  }
  if (tensor == "up" || tensor == "shared")
    for (uint32_t ep = 0; ep < 2; ++ep) {
      const std::vector<uint32_t> &own = slots[layer][ep];
      for (size_t s = 0; s <= own.size() + 1; ++s)
        if (tensor == "shared" ? s == own.size() + 1
                               : s < own.size() && own[s] == expert)
          places.push_back(
              {ep * 2 + half, in("m.", layer, "w"), int64_t(s) * 6 + inSlot});
    }
  if (tensor == "log")
    places = {{uint32_t(row), in("m.", layer, "A"), 0,
               DELTA_VALUE_VIA(DELTA_BF16) | DELTA_VALUE_NEG_EXP}};
  for (uint32_t r = 0; tensor == "norm" && r < kRanks; ++r)
    places.push_back({r, in("m.", layer, "norm"), row, DELTA_VALUE_PLUS_ONE});
  return places;
}

/// Rows of a tensor from a source parameter of rank `t`.
void addTile(ListedMap &map, uint32_t t, const std::string &from,
             const std::string &hf, const std::string &tensor, uint32_t layer,
             uint32_t expert, int64_t rows, int64_t columns, int64_t firstRow) {
  ListedMap::Tile tile = {map.find(DELTA_SOURCE, t, from), {}};
  for (int64_t e = 0; e < rows * columns; ++e) {
    const int64_t row = firstRow + e / columns, column = e % columns;
    ElementPlaces places = {{t, tile.param, e, DELTA_VALUE_ID, 0},
                            {0, map.find(DELTA_HF, 0, hf),
                             row * columns + column, DELTA_VALUE_ID, 0},
                            {}};
    for (uint32_t replica = 0; replica < kReplicas; ++replica)
      for (const Place &place : placesOf(tensor, layer, expert, row, column))
        places.destinations.push_back(
            {replica * kRanks + place.rank,
             map.find(DELTA_DESTINATION, place.rank, place.name), place.element,
             place.op, 0});
    tile.elements.push_back(places);
  }
  map.tiles[t].push_back(tile);
}

ListedMap makeMap() {
  ListedMap map;
  map.hfDestination = false;
  map.params[DELTA_SOURCE].assign(2, sourceRank());
  map.params[DELTA_HF] = {neutral()};
  for (uint32_t r = 0; r < kReplicas * kRanks; ++r)
    map.params[DELTA_DESTINATION].push_back(engineRank(r % kRanks));
  map.tiles.resize(2);
  addTile(map, 0, "table", "table", "table", 0, 0, 7, 2, 0);
  for (uint32_t l = 0; l < 2; ++l) {
    for (uint32_t t = 0; t < 2; ++t) {
      addTile(map, t, in("l", l, "q"), in("h.", l, "q"), "q", l, 0, 4, 3,
              4 * t);
      addTile(map, t, in("l", l, "k"), in("h.", l, "k"), "k", l, 0, 2, 3,
              2 * t);
    }
    for (uint32_t e = 0; e < 3; ++e)
      addTile(map, e % 2, in("l", l, "up" + std::to_string(e)),
              in("h.", l, "up." + std::to_string(e)), "up", l, e, 4, 3, 0);
    addTile(map, 1, in("l", l, "shared"), in("h.", l, "shared"), "shared", l, 0,
            4, 3, 0);
    addTile(map, 0, in("l", l, "log"), in("h.", l, "log"), "log", l, 0, 4, 1,
            0);
    addTile(map, 1, in("l", l, "norm"), in("h.", l, "norm"), "norm", l, 0, 3, 1,
            0);
  }
  addTile(map, 0, "draft", "draft.x", "draft", 0, 0, 2, 1, 0);
  return map;
}

using Change = std::function<void(ListedMap &)>;

/// The three checks of a changed map, as sentences; empty where all is right.
struct Findings {
  std::string cross, sample, probe;
  int64_t mismatches = 0, elements = 0;
};

std::string textOf(const std::optional<Report> &report,
                   const std::string &error) {
  if (!report)
    return "error: " + error;
  return report->first ? toText(*report->first) : "";
}

Findings check(const Change &change = {},
               const Program &program = example::toEngine()) {
  ListedMap map = makeMap();
  if (change)
    change(map);
  Findings findings;
  std::string error;
  const auto cross = crossCheck(program, map, error);
  findings.cross = textOf(cross, error);
  findings.mismatches = cross ? cross->mismatches : -1;
  findings.elements = cross ? cross->elements : 0;
  findings.sample = textOf(sampleCheck(program, map, /*seed=*/3, error), error);
  findings.probe = textOf(nanProbe(
                              program, map,
                              [](int64_t param, int64_t, int64_t expert,
                                 int64_t element) -> std::optional<uint32_t> {
                                return uint32_t(0x1000000 + param * 65536 +
                                                expert * 4096 + element);
                              },
                              error),
                          error);
  return findings;
}

/// The tile of a parameter that rank `t` sends, by name.
ListedMap::Tile &tileOf(ListedMap &map, uint32_t t, const std::string &name) {
  const uint32_t param = map.find(DELTA_SOURCE, t, name);
  for (ListedMap::Tile &tile : map.tiles[t])
    if (tile.param == param)
      return tile;
  ADD_FAILURE() << "rank does not send " << name;
  return map.tiles[t].front();
}

TEST(Engine, handWrittenMap) {
  const Findings findings = check();
  EXPECT_EQ(findings.cross, "");
  EXPECT_EQ(findings.sample, "");
  EXPECT_EQ(findings.probe, "");
  // The tensors once, and at each replica: the table, and for each layer q, k
  // twice and once more, five expert slots, the shared expert on both ep ranks,
  // A, and the norm four times.
  const int64_t tensors = 14 + 2 * (24 + 12 + 3 * 12 + 12 + 4 + 3) + 2;
  const int64_t engine = 14 + 2 * (24 + 3 * 12 + 5 * 12 + 2 * 12 + 4 + 4 * 3);
  EXPECT_EQ(findings.elements, tensors + kReplicas * engine);
}

TEST(Engine, oneReplicaOfAPartLeftOut) {
  const Findings findings = check([](ListedMap &map) {
    auto &places = tileOf(map, 1, "l1.k").elements[4].destinations;
    places.erase(places.begin() + 1);
  });
  EXPECT_EQ(findings.cross, "receiver 3 \"m.1.qk\" [3, 1]: expected \"l1.k\" "
                            "[3, 1], found nothing");
  EXPECT_EQ(findings.mismatches, 1);
  EXPECT_NE(findings.probe, "");
}

TEST(Engine, secondSlotOfAnExpertLeftOut) {
  const Findings findings = check([](ListedMap &map) {
    for (auto &element : tileOf(map, 1, "l1.up1").elements)
      element.destinations.erase(element.destinations.begin() + 1);
  });
  EXPECT_EQ(findings.mismatches, 12);
  EXPECT_EQ(findings.cross, "receiver 2 \"m.1.w\" [0, 0, 0]: expected "
                            "\"l1.up1\" [0, 0], found nothing");
  EXPECT_NE(findings.sample.find("places"), std::string::npos)
      << findings.sample;
}

TEST(Engine, slotsOfAnotherLayer) {
  const Findings findings = check([](ListedMap &map) {
    auto &own = tileOf(map, 1, "l1.up1").elements;
    const auto &other = tileOf(map, 1, "l0.up1").elements;
    for (size_t e = 0; e < own.size(); ++e)
      for (size_t p = 0; p < other[e].destinations.size(); ++p)
        own[e].destinations[p].element = other[e].destinations[p].element + 6;
  });
  EXPECT_GT(findings.mismatches, 0);
  EXPECT_NE(findings.sample, "");
}

TEST(Engine, paddingWritten) {
  const Findings findings = check([](ListedMap &map) {
    auto &places = tileOf(map, 0, "table").elements[0].destinations;
    places.push_back(places[0]);
    places.back().rank = 3;
    places.back().element = 2;
  });
  EXPECT_EQ(findings.cross,
            "receiver 3 \"table\" [1, 0]: expected nothing, for "
            "it is padding, found \"table\" [0, 0]");
  EXPECT_NE(findings.sample, "");
}

TEST(Engine, spareSlotWritten) {
  const Findings findings = check([](ListedMap &map) {
    auto &places = tileOf(map, 1, "l0.shared").elements[0].destinations;
    places[0].element -= 6;
  });
  EXPECT_EQ(findings.cross,
            "receiver 0 \"m.0.w\" [3, 0, 0]: expected nothing, for it is "
            "padding, found \"l0.shared\" [0, 0]");
  EXPECT_EQ(findings.sample, "destination rank 0: expected \"m.0.w\" with "
                             "slots left alone, found element 18");
}

TEST(Engine, transposedCopyInTheWrongOrder) {
  const Findings findings = check([](ListedMap &map) {
    auto &kc = map.params[DELTA_DESTINATION][1][5];
    ASSERT_STREQ(kc.name, "m.0.kc");
    kc.stride[0] = 1;
    kc.stride[1] = 1;
  });
  EXPECT_EQ(findings.cross, "receiver 1 \"m.0.kc\": expected strides [1, 3], "
                            "found strides [1, 1]");
}

TEST(Engine, copyOfAnotherRank) {
  const Findings findings = check([](ListedMap &map) {
    tileOf(map, 0, "l0.k").elements[0].destinations[2].rank = 1;
  });
  // A wrong value, the right one after it, and none on rank 0.
  EXPECT_EQ(findings.mismatches, 3);
  EXPECT_NE(findings.sample, "");
  EXPECT_NE(findings.probe, "");
}

TEST(Engine, valueOps) {
  const auto withOp = [](const std::string &name, delta_value_op_t op) {
    return check([&](ListedMap &map) {
      const uint32_t rank = name == "l0.log" ? 0 : 1;
      for (auto &element : tileOf(map, rank, name).elements)
        for (delta_place_t &place : element.destinations)
          place.value_op = op;
    });
  };
  const Findings log = withOp("l0.log", DELTA_VALUE_NEG_EXP);
  EXPECT_EQ(log.cross, "receiver 0 \"m.0.A\" [0]: expected value op via bf16 "
                       "-exp, found value op -exp");
  EXPECT_NE(log.sample.find("found value op -exp"), std::string::npos)
      << log.sample;
  EXPECT_EQ(withOp("l0.norm", DELTA_VALUE_ID).cross,
            "receiver 0 \"m.0.norm\" [0]: expected value op engine's +1, found "
            "no value op");
  EXPECT_EQ(withOp("l0.norm", DELTA_VALUE_ADD_ONE).cross,
            "receiver 0 \"m.0.norm\" [0]: expected value op engine's +1, found "
            "value op +1");
}

TEST(Engine, neverFilledParameterWritten) {
  const Findings findings = check([](ListedMap &map) {
    auto &places = tileOf(map, 1, "l0.norm").elements[0].destinations;
    places.push_back(places[0]);
    places.back().param = map.find(DELTA_DESTINATION, 0, "m.0.scale");
    places.back().value_op = DELTA_VALUE_ID;
  });
  EXPECT_EQ(findings.cross, "receiver 0 \"m.0.scale\" [0]: expected nothing, "
                            "for it is padding, found \"l0.norm\" [0]");
}

/// What the engine does not hold may be sent nowhere, or not at all.
TEST(Engine, tensorThatTheEngineDoesNotHold) {
  const Findings findings = check([](ListedMap &map) {
    const uint32_t param = map.find(DELTA_SOURCE, 0, "draft");
    ASSERT_EQ(map.tiles[0].back().param, param);
    map.tiles[0].pop_back();
  });
  EXPECT_EQ(findings.cross, "");
  EXPECT_EQ(findings.sample, "");
  EXPECT_EQ(findings.probe, "");
}

TEST(Engine, tensorsOfBothSidesMustBeTheSame) {
  Program program = example::toEngine();
  program.destination->unheld = {"drafts."};
  EXPECT_EQ(check({}, program).cross, "error: \"draft.x\" is not held by "
                                      "example, which does not say so");
  EXPECT_EQ(check({}, program).sample,
            "destination: expected \"draft.x\" to be held, found no such "
            "tensor");
  program = example::toEngine();
  program.destination->tensors[1].name = "h.{layer}.query";
  EXPECT_EQ(check({}, program).cross,
            "error: \"h.0.query\" is not the same tensor on both sides");
}

} // namespace
