//===- EngineRecordsTest.cpp - What engines may say -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Records of an engine survive print and parse, those that do not fit are
/// refused by name, and each rank has the parameters of a table.
///
//===----------------------------------------------------------------------===//

#include "EngineExample.h"
#include "tools/reference/Interpreter.h"

#include <functional>
#include <gtest/gtest.h>

using namespace delta::reference;

namespace {

TEST(EngineRecords, survivesPrintAndParse) {
  const std::string text = print(example::toEngine());
  std::string error;
  const auto parsed = parse(text, error);
  ASSERT_TRUE(parsed) << error;
  EXPECT_EQ(print(*parsed), text);
  ASSERT_TRUE(parsed->destination);
  const Side &side = *parsed->destination;
  EXPECT_EQ(side.engine, "example");
  EXPECT_EQ(side.unheld, std::vector<std::string>{"draft."});
  EXPECT_EQ(side.geometry.slots, example::engineSide().geometry.slots);
  EXPECT_EQ(side.params[3].slotOf, 2);
  EXPECT_EQ(side.params[3].slot, 1);
  EXPECT_EQ(side.params[2].extra, 2);
  EXPECT_EQ(side.params[4].form, "neg_exp");
  EXPECT_EQ(side.params[6].view, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(side.ops[2].sectionWays, (std::vector<int64_t>{4, 2}));
  EXPECT_TRUE(side.tensors[7].also);
  EXPECT_FALSE(side.tensors[2].also);
}

TEST(EngineRecords, trainersSayNothingOfIt) {
  const std::string text = print(example::program());
  for (const char *key : {"engine", "unheld", "slot", "extra", "form", "view",
                          "sectionWays", "also"})
    EXPECT_EQ(text.find("\"" + std::string(key)), std::string::npos) << key;
}

TEST(EngineRecords, badRecordsAreRefusedByName) {
  const auto errorOf = [](const std::function<void(Side &)> &change) {
    Side side = example::engineSide();
    change(side);
    std::string error;
    return Interpreter::create(side, error) ? "created" : error;
  };
  EXPECT_EQ(errorOf([](Side &) {}), "created");
  EXPECT_EQ(errorOf([](Side &s) { s.geometry.slotBegins = {0, 5}; }),
            "geometry: slotBegins [0, 5] must ascend from 0, one more than ep "
            "of size 2");
  EXPECT_EQ(errorOf([](Side &s) { s.geometry.slots[1] = {2, 1, 0, 1}; }),
            "geometry: slots[1] has 4 slots, slotBegins ends with 5");
  EXPECT_EQ(errorOf([](Side &s) { s.geometry.slots[1] = {2, 1, 2, 1, 1}; }),
            "geometry: slots[1] has no slot for expert 0");
  EXPECT_EQ(errorOf([](Side &s) { s.geometry.slots[0][2] = 3; }),
            "geometry: slots[0] has expert 3 of 3");
  EXPECT_EQ(errorOf([](Side &s) { s.geometry.slots.resize(3); }),
            "geometry: slots has 3 tables, required 1 or one for each of 2 "
            "layers");
  EXPECT_EQ(errorOf([](Side &s) { s.engine.clear(); }),
            "geometry: has slots, which are an engine's");
  EXPECT_EQ(errorOf([](Side &s) { s.params[4].form = "exp"; }),
            "params[4]: form \"exp\" is neither \"neg_exp\" nor \"add_one\"");
  EXPECT_EQ(errorOf([](Side &s) { s.params[6].view = {0, 0}; }),
            "params[6]: view [0, 0] is none of 2 dimensions");
  EXPECT_EQ(errorOf([](Side &s) { s.params[3].slot = 2; }),
            "params[3]: slot 2 is outside the 2 extra ones of params[2]");
  EXPECT_EQ(errorOf([](Side &s) { s.params[3].slotOf = 1; }),
            "params[3]: slotOf 1 is not a stacked parameter");
  EXPECT_EQ(errorOf([](Side &s) { s.ops[5].ways = 1; }),
            "params[3]: differs from params[2], in a slot of which it lies, in "
            "dtype, layers or the shape of a shard");
  EXPECT_EQ(errorOf([](Side &s) { s.params[2].stack = false; }),
            "params[2]: is an expert's; an engine with slots stacks them");
  EXPECT_EQ(errorOf([](Side &s) { s.params[5].extra = 1; }),
            "params[5]: has 1 extra slots and is not stacked");
  EXPECT_EQ(errorOf([](Side &s) { s.ops[2].sectionWays = {4}; }),
            "ops[2] (unshard): has ways for 1 of 2 sections");
  EXPECT_EQ(errorOf([](Side &s) { s.ops[2].sectionWays = {4, 3}; }),
            "ops[2] (unshard): section ways 3 do not divide 4 ways");
  EXPECT_EQ(errorOf([](Side &s) { s.ops[7].axis = "pp"; }),
            "ops[7] (unshard): axis \"pp\" does not shard params[6], \"tp\", "
            "\"etp\" and \"stage\" do");
  EXPECT_EQ(errorOf([](Side &s) { s.tensors[7].name = "h.{layer}.z"; }),
            "tensors[7]: is kept a second time; required an engine and a "
            "tensor \"h.{layer}.z\" before it");
}

TEST(EngineRecords, trainersHaveNoneOfIt) {
  const auto errorOf = [](const std::function<void(Side &)> &change) {
    Side side = example::engineSource();
    change(side);
    std::string error;
    return Interpreter::create(side, error) ? "created" : error;
  };
  EXPECT_EQ(errorOf([](Side &) {}), "created");
  EXPECT_EQ(errorOf([](Side &s) { s.params[5].form = "neg_exp"; }),
            "params[5]: is held in a way that only engines have");
  EXPECT_EQ(errorOf([](Side &s) { s.ops[0].axis = "stage"; }),
            "ops[0] (unshard): axis \"stage\" does not shard params[1], "
            "\"tp\" does");
  EXPECT_EQ(errorOf([](Side &s) {
              s.ops[0].sections = {4, 4};
              s.ops[0].sectionWays = {2, 1};
            }),
            "ops[0] (unshard): has sectionWays, which are an engine's");
}

//===--- placement --------------------------------------------------------===//

TEST(EngineRecords, parametersOfARank) {
  std::string error;
  const auto engine = Interpreter::create(example::engineSide(), error);
  ASSERT_TRUE(engine) << error;
  const std::vector<LocalParam> held = engine->paramsOf(2);
  std::vector<std::string> names;
  for (const LocalParam &param : held)
    names.push_back(param.names.front());
  EXPECT_EQ(names, (std::vector<std::string>{
                       "table", "m.0.qk", "m.1.qk", "m.0.w", "m.1.w", "m.0.A",
                       "m.1.A", "m.0.norm", "m.1.norm", "m.0.kc", "m.1.kc",
                       "m.0.scale", "m.1.scale"}));
  const LocalParam &stack = held[4];
  EXPECT_EQ(stack.shape, (Shape{4, 2, 3}));
  EXPECT_EQ(stack.expert, kNone);
  ASSERT_EQ(stack.pieces.size(), 3u); // the spare slot holds nothing
  EXPECT_EQ(stack.pieces[0].expert, 1);
  EXPECT_EQ(stack.pieces[1].expert, 1);
  EXPECT_EQ(stack.pieces[1].offset, 6);
  EXPECT_EQ(stack.pieces[1].way, 0);
  EXPECT_EQ(stack.pieces[2].param, 3);
  EXPECT_EQ(stack.pieces[2].offset, 18);
  EXPECT_EQ(held[9].shape, (Shape{1, 3}));
  EXPECT_EQ(held[9].pieces[0].way, 2);
}

/// The engine on the second of two stages: names keep the layer's number, which
/// begins anew in a stack.
TEST(EngineRecords, layersKeepTheirNumbers) {
  Side side = example::engineSide();
  side.numLayers = 3;
  side.geometry.pp = 2;
  side.geometry.stageLayers = {{1}, {1}};
  side.geometry.stackLayers = {1};
  side.geometry.stackStages = {Stage::Last};
  side.geometry.slots.push_back({0, 1, 2, 0, 1});
  side.params.push_back(
      example::param("v.{layer}", {2}, Stage::Layers, {2}, 30));
  std::string error;
  const auto engine = Interpreter::create(side, error);
  ASSERT_TRUE(engine) << error;
  EXPECT_EQ(engine->paramsOf(4).front().names.front(), "m.1.qk");
  EXPECT_EQ(engine->paramsOf(4).back().names.front(), "v.0");
}

} // namespace
