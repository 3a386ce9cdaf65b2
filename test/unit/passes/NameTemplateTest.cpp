//===- NameTemplateTest.cpp - Names filled, and names that clash ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/NameTemplate.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

using namespace delta;

namespace {

int owners[8];

NamedInstances entry(int owner, const std::string &name,
                     std::vector<int64_t> layers = {},
                     const std::string &stage = "", int64_t numExperts = 0) {
  return {name, &owners[owner], std::move(layers), stage, numExperts};
}

/// The name that two entries share, or nothing.
std::string clash(const std::vector<NamedInstances> &list) {
  auto result = findClash(list);
  return result ? result->name : "";
}

TEST(NameTemplate, FillsHoles) {
  EXPECT_EQ(fillName("a.{layer}.{expert}.b", 3, 14), "a.3.14.b");
  EXPECT_EQ(fillName("{layer+2}", 9, 0), "11");
  EXPECT_EQ(fillName("{layer-3}.{layer}", 4, 0), "1.4");
  EXPECT_EQ(fillName("{expert+1}{layer}", 1, 0), "11");
  EXPECT_EQ(fillName("no hole", 1, 2), "no hole");
  EXPECT_EQ(fillName("open {layer", 1, 2), "open {layer");
}

TEST(NameTemplate, EqualNamesClash) {
  EXPECT_EQ(clash({entry(0, "w"), entry(1, "w")}), "w");
  EXPECT_EQ(clash({entry(0, "w"), entry(1, "v")}), "");
  // Alternatives of one parameter may agree.
  EXPECT_EQ(clash({entry(0, "w"), entry(0, "w")}), "");
}

TEST(NameTemplate, StagesTellNamesApart) {
  EXPECT_EQ(clash({entry(0, "w", {}, "first"), entry(1, "w", {}, "last")}), "");
  EXPECT_EQ(clash({entry(0, "w", {}, "last"), entry(1, "w", {}, "last")}), "w");
  EXPECT_EQ(clash({entry(0, "w", {}, "first"), entry(1, "w")}), "w");
}

TEST(NameTemplate, OneTemplateClashesWhereLayersMeet) {
  EXPECT_EQ(clash({entry(0, "{layer}.w", {0, 2}), entry(1, "{layer}.w", {1})}),
            "");
  EXPECT_EQ(
      clash({entry(0, "{layer}.w", {0, 2}), entry(1, "{layer}.w", {1, 2})}),
      "2.w");
}

TEST(NameTemplate, OtherTemplatesClashWhereTheyAreFilledAlike) {
  EXPECT_EQ(clash({entry(0, "{layer}.w", {0, 1}), entry(1, "1.w", {}, "last")}),
            "1.w");
  EXPECT_EQ(clash({entry(0, "{layer}.w", {0, 1}), entry(1, "2.w", {}, "last")}),
            "");
  EXPECT_EQ(clash({entry(0, "{layer}.w", {3}), entry(1, "{layer+1}.w", {2})}),
            "3.w");
  EXPECT_EQ(clash({entry(0, "{layer}.w", {3}), entry(1, "{layer+1}.w", {3})}),
            "");
  EXPECT_EQ(clash({entry(0, "w{layer}.{expert}", {1}, "", 4),
                   entry(1, "w{layer}.3", {1})}),
            "w1.3");
}

TEST(NameTemplate, LayersOfAStackAreFilledFromItsFirst) {
  // Decoder layers 0 to 3 and a stack of layers 4 and 5, in the checkpoint.
  std::vector<int64_t> decoder = {0, 1, 2, 3};
  EXPECT_EQ(
      clash({entry(0, "{layer}.w", decoder), entry(1, "{layer}.w", {4, 5})}),
      "");
  EXPECT_EQ(
      clash({entry(0, "{layer}.w", decoder), entry(1, "{layer-2}.w", {4, 5})}),
      "2.w");
  EXPECT_EQ(clash({entry(0, "{layer-4}.w", {4}), entry(1, "{layer-5}.w", {5})}),
            "0.w");
}

TEST(NameTemplate, AnyTwoLayersOfTwoStacksCanMeet) {
  auto inStack = [](int owner, const std::string &name, int64_t layer,
                    int64_t stack) {
    NamedInstances instances = entry(owner, name, {layer});
    instances.stack = stack;
    return instances;
  };
  // Numbers in the model differ; the trainer's restart in each stack.
  EXPECT_EQ(
      clash({inStack(0, "{layer}.w", 4, 1), inStack(1, "{layer}.w", 5, 2)}),
      "{layer}.w");
  EXPECT_EQ(
      clash({inStack(0, "{layer}.w", 4, 1), inStack(1, "{layer}.w", 5, 1)}),
      "");
  EXPECT_EQ(
      clash({inStack(0, "a.{layer}", 4, 1), inStack(1, "b.{layer}", 5, 2)}),
      "");
}

TEST(NameTemplate, HolesThatMeetAreFilled) {
  EXPECT_EQ(clash({entry(0, "w{layer}{expert}", {1, 11}, "", 12)}), "w110");
  EXPECT_EQ(clash({entry(0, "w{layer}{expert}", {1, 2}, "", 10)}), "");
  EXPECT_EQ(clash({entry(0, "w{layer}0{expert}", {1, 10}, "", 2)}), "");
}

TEST(NameTemplate, OpenHolesEndTheSearch) {
  EXPECT_EQ(clash({entry(0, "w{layer"), entry(1, "w{layer")}), "w{layer");
  EXPECT_EQ(clash({entry(0, "w{"), entry(1, "w{layer}")}), "");
}

/// Fills everything: the naive answer.
bool clashes(const std::vector<NamedInstances> &list) {
  std::map<std::string, std::pair<void *, size_t>> seen;
  for (size_t i = 0; i < list.size(); ++i)
    for (int64_t layer : list[i].layers)
      for (int64_t expert = 0;
           expert < std::max<int64_t>(1, list[i].numExperts); ++expert) {
        std::string name = fillName(list[i].name, layer, expert);
        auto [it, isNew] = seen.insert({name, {list[i].owner, i}});
        if (!isNew &&
            (it->second.first != list[i].owner || it->second.second == i))
          return true;
      }
  return false;
}

TEST(NameTemplate, AgreesWithFillingAllNames) {
  std::mt19937 random(7);
  const char *parts[] = {"{layer}", "{layer+1}", "{expert}", "1",
                         "0",       ".",         "w",        "{layer+10}"};
  int found = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<NamedInstances> list;
    for (int owner = 0; owner < 3; ++owner) {
      std::string name;
      for (int part = 0; part < 3; ++part)
        name += parts[random() % 8];
      std::vector<int64_t> layers;
      for (int64_t layer = 0; layer < 12; ++layer)
        if (random() % 3 == 0)
          layers.push_back(layer);
      // What is in layers has a name for each: that is checked before.
      if (name.find("{layer") == std::string::npos)
        name += "{layer}";
      if (layers.empty())
        layers.push_back(0);
      bool experts = name.find("{expert") != std::string::npos;
      list.push_back(entry(owner, name, layers, "", experts ? 12 : 0));
    }
    bool expected = clashes(list);
    auto result = findClash(list);
    ASSERT_EQ(result.has_value(), expected)
        << list[0].name << " " << list[1].name << " " << list[2].name;
    found += expected;
  }
  EXPECT_GT(found, 100);
  EXPECT_LT(found, 2900);
}

} // namespace
