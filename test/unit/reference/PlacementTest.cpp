//===- PlacementTest.cpp - Which rank holds what --------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Placement of layers, experts and shards against tables written by hand, and
/// names with holes.
///
//===----------------------------------------------------------------------===//

#include "Example.h"
#include "tools/reference/Interpreter.h"

#include <gtest/gtest.h>

using namespace delta::reference;

namespace {

/// One parameter on every layer, nothing else.
Interpreter layered(std::vector<std::vector<int64_t>> stageLayers,
                    int64_t numLayers) {
  Side side;
  side.numLayers = numLayers;
  side.geometry.pp = int64_t(stageLayers.size());
  side.geometry.vpp = int64_t(stageLayers.front().size());
  side.geometry.stageLayers = std::move(stageLayers);
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < numLayers; ++layer)
    layers.push_back(layer);
  side.params = {example::param("l{layer}", {1}, Stage::Layers, layers, 0)};
  std::string error;
  auto interpreter = Interpreter::create(std::move(side), error);
  EXPECT_TRUE(interpreter) << error;
  return std::move(*interpreter);
}

struct Place {
  int64_t stage, chunk, local;
};

void expectPlaces(const Interpreter &interpreter,
                  const std::vector<Place> &table) {
  const auto &places = interpreter.layerPlaces();
  ASSERT_EQ(places.size(), table.size());
  for (size_t layer = 0; layer < table.size(); ++layer) {
    EXPECT_EQ(places[layer].stage, table[layer].stage) << "layer " << layer;
    EXPECT_EQ(places[layer].chunk, table[layer].chunk) << "layer " << layer;
    EXPECT_EQ(places[layer].local, table[layer].local) << "layer " << layer;
  }
}

TEST(Placement, evenStages) {
  expectPlaces(layered({{2}, {2}}, 4),
               {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {1, 0, 1}});
}

TEST(Placement, unevenStages) {
  expectPlaces(
      layered({{1}, {3}, {2}}, 6),
      {{0, 0, 0}, {1, 0, 0}, {1, 0, 1}, {1, 0, 2}, {2, 0, 0}, {2, 0, 1}});
}

TEST(Placement, virtualStagesNumberTheChunkOutermost) {
  expectPlaces(layered({{2, 2}, {2, 2}}, 8), {{0, 0, 0},
                                              {0, 0, 1},
                                              {1, 0, 0},
                                              {1, 0, 1},
                                              {0, 1, 0},
                                              {0, 1, 1},
                                              {1, 1, 0},
                                              {1, 1, 1}});
}

TEST(Placement, chunkWithoutLayers) {
  const Interpreter interpreter = layered({{0, 2}, {1, 0}}, 3);
  expectPlaces(interpreter, {{1, 0, 0}, {0, 1, 0}, {0, 1, 1}});
  const auto held = interpreter.paramsOf(0);
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[1].layer, 2);
  EXPECT_EQ(held[1].chunk, 1);
  EXPECT_EQ(held[1].names, std::vector<std::string>{"l1"});
}

/// Two stacks after a decoder of virtual stages, of which the first chunk has
/// no layer: numbers go on, local ones restart in each stack.
TEST(Placement, stacksAfterTheDecoder) {
  Side side;
  side.numLayers = 6;
  side.geometry.pp = side.geometry.vpp = 2;
  side.geometry.stageLayers = {{0, 1}, {2, 0}};
  side.geometry.stackLayers = {2, 1};
  side.geometry.stackStages = {Stage::Last, Stage::First};
  side.params = {example::param("l{layer}", {1}, Stage::Layers, {0, 1, 2}, 0),
                 example::param("mtp{layer}", {1}, Stage::Layers, {3, 4}, 1),
                 example::param("vision{layer}", {1}, Stage::Layers, {5}, 2)};
  std::string error;
  const auto interpreter = Interpreter::create(side, error);
  ASSERT_TRUE(interpreter) << error;
  expectPlaces(
      *interpreter,
      {{1, 0, 0}, {1, 0, 1}, {0, 1, 0}, {1, 1, 0}, {1, 1, 1}, {0, 0, 0}});
  std::vector<std::string> names;
  for (const LocalParam &local : interpreter->paramsOf(1))
    names.push_back(local.names.front());
  EXPECT_EQ(names, (std::vector<std::string>{"l0", "l1", "mtp0", "mtp1"}));
  names.clear();
  for (const LocalParam &local : interpreter->paramsOf(0))
    names.push_back(local.names.front());
  EXPECT_EQ(names, (std::vector<std::string>{"l0", "vision0"}));
}

/// tp 2, cp 2, dp 3, etp 3, ep 4, edp 1, pp 2: 24 ranks.
TEST(Placement, denseAndExpertCoordinates) {
  Side side;
  side.numLayers = 2;
  side.geometry = {2, 2, 3, 4, 3, 1, 2, 1, {{1}, {1}}, {}, {}, {}, {}};
  std::string error;
  const auto interpreter = Interpreter::create(side, error);
  ASSERT_TRUE(interpreter) << error;
  EXPECT_EQ(interpreter->numRanks(), 24);
  const Coordinates at = interpreter->coordinates(12 + 7);
  EXPECT_EQ(at.pp, 1);
  EXPECT_EQ(at.tp, 1); // 7 = 1 + 2*(1 + 2*1)
  EXPECT_EQ(at.cp, 1);
  EXPECT_EQ(at.dp, 1);
  EXPECT_EQ(at.etp, 1); // 7 = 1 + 3*(2 + 4*0)
  EXPECT_EQ(at.ep, 2);
  EXPECT_EQ(at.edp, 0);
}

TEST(Placement, exampleByHand) {
  std::string error;
  const auto interpreter =
      Interpreter::create(example::program().source, error);
  ASSERT_TRUE(interpreter) << error;
  // Rank 3: tp 1, ep 1, stage 1: layers 2 and 3, experts 2 and 3.
  const auto held = interpreter->paramsOf(3);
  std::vector<std::string> names;
  for (const LocalParam &local : held) {
    names.push_back(local.names.front());
    EXPECT_EQ(local.chunk, 0);
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "layers.0.pair", "layers.1.pair", "last.weight",
                       "layers.1.expert0", "layers.1.expert1", "layers.0.norm",
                       "layers.1.norm"}));
  EXPECT_EQ(held[0].names[1], "layers.0.old_pair");
  EXPECT_EQ(held[0].layer, 2);
  EXPECT_EQ(held[0].pieces[0].way, 1);
  EXPECT_EQ(held[3].layer, 3);
  EXPECT_EQ(held[3].expert, 2);
  EXPECT_EQ(held[3].pieces[0].way, 0);
  EXPECT_EQ(interpreter->globalName(3, 3, 2), "layers.3.expert2");
  EXPECT_EQ(interpreter->localShape(2), (Shape{4, 2}));
}

/// Two ways over four ranks: each is held twice, by neighbors.
TEST(Placement, fewerWaysThanRanks) {
  Side side;
  side.geometry.tp = 4;
  side.geometry.edp = 4;
  side.geometry.stageLayers = {{0}};
  side.params = {example::param("w", {6}, Stage::First, {}, 0)};
  side.ops = {example::unshard(0, 1, 0, "tp", 2)};
  std::string error;
  const auto interpreter = Interpreter::create(side, error);
  ASSERT_TRUE(interpreter) << error;
  for (int64_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(interpreter->paramsOf(rank)[0].pieces[0].way, rank / 2);
  EXPECT_EQ(interpreter->localShape(0), Shape{3});
}

TEST(Placement, lastIsTheLastChunkOfTheLastStage) {
  Side side;
  side.numLayers = 0;
  side.geometry.pp = 2;
  side.geometry.vpp = 3;
  side.geometry.stageLayers = {{0, 0, 0}, {0, 0, 0}};
  side.params = {example::param("w", {1}, Stage::Last, {}, 0)};
  std::string error;
  const auto interpreter = Interpreter::create(side, error);
  ASSERT_TRUE(interpreter) << error;
  EXPECT_TRUE(interpreter->paramsOf(0).empty());
  ASSERT_EQ(interpreter->paramsOf(1).size(), 1u);
  EXPECT_EQ(interpreter->paramsOf(1)[0].chunk, 2);
}

TEST(ExpandName, fillsHoles) {
  EXPECT_EQ(expandName("a.{layer}.b{expert}.c", 3, 5), "a.3.b5.c");
  EXPECT_EQ(expandName("{layer+61}.{expert-1}", 2, 5), "63.4");
  EXPECT_EQ(expandName("plain", kNone, kNone), "plain");
}

} // namespace
