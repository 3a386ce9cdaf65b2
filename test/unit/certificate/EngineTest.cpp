//===- EngineTest.cpp - Plans into engines that the checker must refuse ---===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What an engine has and a trainer has not: replicas inside of a tensor, slots
/// of experts and slots behind them, tensors that are held twice or not at all,
/// orders of memory, forms of values. A fault is planted in the lowered plan
/// and the certificate is written from that, so that both agree about it.
///
//===----------------------------------------------------------------------===//

#include "Compiled.h"

#include <gtest/gtest.h>

#include <functional>

using namespace delta;
using namespace delta::test;

namespace {

/// Experts in slots of four ranks, three of them twice; key/value heads on two
/// ranks each.
const char slotted[] = R"({"config": {"model_type": "qwen3_moe",
    "hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 2, "num_experts": 4, "moe_intermediate_size": 4,
    "num_hidden_layers": 2, "vocab_size": 10},
    "trainer": {"tp": 1, "ep": 2, "vocab_multiple": 4},
    "rollout": {"engine": "vllm", "tp": 4, "ep": 4, "redundant_experts": 3}})";

/// A tensor that is held twice, the second time in another order of memory, and
/// an expert behind the others on each rank.
const char absorbed[] = R"({"config": {"model_type": "deepseek_v3",
    "hidden_size": 4, "intermediate_size": 4, "moe_intermediate_size": 2,
    "num_attention_heads": 2, "q_lora_rank": 3, "kv_lora_rank": 2,
    "qk_rope_head_dim": 2, "qk_nope_head_dim": 3, "v_head_dim": 1,
    "n_routed_experts": 2, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "num_hidden_layers": 2, "vocab_size": 9, "num_nextn_predict_layers": 1},
    "trainer": {"tp": 1, "mtp_layers": 1, "vocab_multiple": 4},
    "rollout": {"engine": "sglang", "tp": 2, "fuse_shared_experts": true}})";

/// -exp(x) in fp32 where the tensor has x.
const char mixers[] = R"({"config": {"model_type": "nemotron_h",
    "hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 2, "intermediate_size": 8, "num_hidden_layers": 2,
    "vocab_size": 10, "hybrid_override_pattern": "M-", "mamba_num_heads": 4,
    "mamba_head_dim": 2, "n_groups": 2, "ssm_state_size": 3,
    "conv_kernel": 4}, "trainer": {"tp": 2, "vocab_multiple": 4},
    "rollout": {"engine": "vllm", "tp": 2}})";

using Plant = std::function<void(LoweredPlan &)>;

/// What the checker says of a model after `plant` changed its plan.
std::string said(const char *model, const Plant &plant) {
  Compiled compiled(model);
  for (const std::string &name : passNames)
    EXPECT_TRUE(compiled.run(name)) << name;
  std::optional<LoweredPlan> plan = compiled.lower();
  if (!plan)
    return "not lowered";
  plant(*plan);
  return checkerError(compiled.certificate(*plan), *plan);
}

/// The destination class whose first name ends so.
uint32_t classOf(const LoweredPlan &plan, const std::string &end) {
  const auto &classes = plan.destination.classes;
  for (uint32_t i = 0; i < classes.size(); ++i) {
    const std::string &name = classes[i].names[0];
    if (name.size() >= end.size() &&
        name.compare(name.size() - end.size(), end.size(), end) == 0)
      return i;
  }
  ADD_FAILURE() << "no class \"" << end << "\"";
  return 0;
}

/// The first box with an image in the class, and that image.
std::pair<LoweredBox *, size_t> imageOf(LoweredPlan &plan, uint32_t number) {
  for (LoweredBox &box : plan.boxes)
    for (size_t i = 0; i < box.images.size(); ++i)
      if (box.images[i].class_index == number)
        return {&box, i};
  ADD_FAILURE() << "no image in class " << number;
  return {&plan.boxes[0], 0};
}

#define EXPECT_SAYS(text, part)                                                \
  do {                                                                         \
    const std::string found = text;                                            \
    EXPECT_NE(found.find(part), std::string::npos) << found;                   \
  } while (false)

TEST(Engine, PlansAreAccepted) {
  for (const char *model : {slotted, absorbed, mixers})
    EXPECT_EQ(said(model, [](LoweredPlan &) {}), "") << model;
}

TEST(Engine, SlotsHoldEveryExpert) {
  auto slots = [&](std::vector<uint32_t> experts) {
    return said(slotted, [&](LoweredPlan &plan) {
      ASSERT_EQ(plan.slots.tables.size(), 1u);
      plan.slots.tables[0] = experts;
    });
  };
  // The last three may be any.
  EXPECT_EQ(slots({0, 1, 2, 3, 0, 1, 2}), "");
  EXPECT_EQ(slots({0, 1, 2, 3, 3, 3, 0}), "");
  EXPECT_EQ(slots({0, 1, 2, 3, 0, 1, 4}), "slot 6 holds no expert");
  // The experts' own rows are their first slots.
  EXPECT_EQ(slots({1, 0, 2, 3, 0, 1, 2}),
            "destination expert 1 is out of place");
  EXPECT_EQ(slots({0, 1, 2, 2, 0, 1, 2}), "table 0 has no slot for expert 3");
}

TEST(Engine, EveryLayersTableHoldsEveryExpert) {
  auto second = [&](std::vector<uint32_t> table) {
    return said(slotted,
                [&](LoweredPlan &plan) { plan.slots.tables.push_back(table); });
  };
  EXPECT_EQ(second({3, 3, 3, 2, 1, 0, 0}), "");
  EXPECT_EQ(second({3, 3, 3, 2, 0, 0, 0}), "table 1 has no slot for expert 1");
  EXPECT_EQ(said(slotted,
                 [](LoweredPlan &plan) {
                   plan.slots.tables.assign(3, plan.slots.tables[0]);
                 }),
            "the slots have tables for other layers");
}

TEST(Engine, RanksHaveSlotsInOrder) {
  auto first = [&](std::vector<uint32_t> begins) {
    return said(slotted, [&](LoweredPlan &plan) {
      ASSERT_EQ(plan.slots.first, (std::vector<uint32_t>{0, 2, 4, 6, 7}));
      plan.slots.first = begins;
    });
  };
  EXPECT_EQ(first({0, 4, 2, 6, 7}),
            "the slots of the ranks do not follow one another");
  EXPECT_EQ(first({1, 2, 4, 6, 7}),
            "the slots of the ranks do not follow one another");
  // Another rank's, or more than the parameter has.
  EXPECT_SAYS(first({0, 1, 3, 5, 7}), "expert 1 is out of place");
  EXPECT_SAYS(
      said(slotted,
           [](LoweredPlan &plan) { plan.slots.first = {0, 2, 4, 4, 7}; }),
      "has slices that do not fill it");
}

TEST(Engine, EveryReplicaGetsItsElements) {
  // Keys are held by two ways each: one of them is left out.
  EXPECT_SAYS(said(slotted,
                   [](LoweredPlan &plan) {
                     uint32_t qkv = classOf(plan, "qkv_proj.weight");
                     for (LoweredBox &box : plan.boxes)
                       for (delta_image_t &image : box.images)
                         if (image.class_index == qkv && image.way_begin == 0 &&
                             image.way_end == 2)
                           image.way_end = 1;
                   }),
              "way 1: 16 of 48 elements are covered");
  // A neighbor that holds another head.
  EXPECT_SAYS(said(slotted,
                   [](LoweredPlan &plan) {
                     uint32_t qkv = classOf(plan, "qkv_proj.weight");
                     for (LoweredBox &box : plan.boxes)
                       for (delta_image_t &image : box.images)
                         if (image.class_index == qkv && image.way_begin == 0 &&
                             image.way_end == 2)
                           image.way_end = 3;
                   }),
              "lands where the destination holds another element");
}

TEST(Engine, PaddingIsNotWritten) {
  EXPECT_SAYS(said(slotted,
                   [](LoweredPlan &plan) {
                     auto [box, i] =
                         imageOf(plan, classOf(plan, "embed_tokens.weight"));
                     box->images[i].offset += 8;
                   }),
              "lands where the destination holds another element");
}

TEST(Engine, TensorsThatAreHeldTwiceGoToBoth) {
  EXPECT_SAYS(said(absorbed,
                   [](LoweredPlan &plan) {
                     auto [box, i] = imageOf(plan, classOf(plan, "w_kc"));
                     ASSERT_EQ(box->images.size(), 2u);
                     box->images.erase(box->images.begin() + i);
                   }),
              "does not go everywhere where its tensor is held");
  EXPECT_SAYS(said(slotted,
                   [](LoweredPlan &plan) {
                     auto [box, i] = imageOf(plan, classOf(plan, "w2_weight"));
                     box->images.clear();
                   }),
              "does not go everywhere where its tensor is held");
}

TEST(Engine, TensorsWithoutAPlaceAreNamed) {
  Compiled compiled(absorbed);
  for (const std::string &name : passNames)
    ASSERT_TRUE(compiled.run(name)) << name;
  std::optional<LoweredPlan> plan = compiled.lower();
  ASSERT_TRUE(plan);
  // The layer beside the decoder's is the draft model's.
  EXPECT_TRUE(std::any_of(plan->boxes.begin(), plan->boxes.end(),
                          [](auto &box) { return box.images.empty(); }));
  std::string text = compiled.certificate(*plan);
  EXPECT_EQ(checkerError(text, *plan), "");
  size_t at = text.find("\"unheld\": [");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, text.find(']', at) + 1 - at, "\"unheld\": [\"lm_\"]");
  EXPECT_SAYS(checkerError(text, *plan), "the engine has no place for \"");
}

TEST(Engine, OrdersOfMemoryNameEveryDimension) {
  auto order = [&](uint32_t value) {
    return said(absorbed, [&](LoweredPlan &plan) {
      delta_class_t &row = plan.destination.classes[classOf(plan, "w_kc")].row;
      ASSERT_EQ(row.order, 0x120u);
      row.order = value;
    });
  };
  EXPECT_EQ(order(0x120), "");
  for (uint32_t value : {0x110u, 0x320u, 0x3120u})
    EXPECT_SAYS(order(value), "has no order of its sizes in memory");
}

TEST(Engine, SlotsBehindTheExpertsAreOneClassEach) {
  auto part =
      [&](const std::function<void(delta_class_t &, LoweredPlan &)> &change) {
        return said(absorbed, [&](LoweredPlan &plan) {
          for (LoweredClass &lowered : plan.destination.classes)
            if (lowered.row.part_of != DELTA_NONE)
              return change(lowered.row, plan);
          ADD_FAILURE() << "no class in a slot";
        });
      };
  EXPECT_SAYS(
      part([](delta_class_t &row, LoweredPlan &) { row.part_slot = 1; }),
      "has a slot that is not one class");
  EXPECT_SAYS(
      part([](delta_class_t &row, LoweredPlan &) { row.part_of = DELTA_NONE; }),
      "has a slot that is not one class");
  EXPECT_SAYS(part([](delta_class_t &row, LoweredPlan &plan) {
                plan.destination.classes[row.part_of].row.extra_slots = 0;
              }),
              "has slices that do not fill it");
  EXPECT_SAYS(part([](delta_class_t &row, LoweredPlan &) { row.ways = 1; }),
              "is unlike a slot of the class that it is part of");
  EXPECT_SAYS(part([](delta_class_t &row, LoweredPlan &plan) {
                plan.destination.classes[row.part_of].names[0] += "s";
              }),
              "is unlike a slot of the class that it is part of");
}

TEST(Engine, ValuesHaveOneForm) {
  const delta_value_op_t form = DELTA_VALUE_NEG_EXP;
  auto images = [&](const std::string &name,
                    const std::function<void(delta_image_t &)> &change) {
    return said(mixers, [&](LoweredPlan &plan) {
      uint32_t number = classOf(plan, name);
      bool planted = false;
      for (LoweredBox &box : plan.boxes)
        for (delta_image_t &image : box.images)
          if (image.class_index == number) {
            change(image);
            planted = true;
          }
      EXPECT_TRUE(planted);
    });
  };
  auto set = [](delta_value_op_t op) {
    return [op](delta_image_t &image) { image.value_op = op; };
  };
  EXPECT_EQ(images(".A",
                   [&](delta_image_t &image) {
                     EXPECT_EQ(image.value_op & form, form);
                   }),
            "");
  // Another form, or none, is left to the interpreter where all have it.
  int count = 0;
  EXPECT_SAYS(images(".A",
                     [&](delta_image_t &image) {
                       if (count++ == 0)
                         image.value_op &= ~form;
                     }),
              "has two types or forms");
  EXPECT_SAYS(images(".A", set(form | DELTA_VALUE_PLUS_ONE)),
              "has two value ops");
  EXPECT_SAYS(images(".A", set(form | DELTA_VALUE_ADD_ONE)),
              "has two value ops");
  EXPECT_SAYS(images(".A", set(form | DELTA_VALUE_VIA(DELTA_FP16))),
              "has two value ops");
  EXPECT_SAYS(images(".D", set(16)), "has two value ops");
}

TEST(Engine, RefreshesAreOfAClass) {
  EXPECT_EQ(
      said(slotted,
           [](LoweredPlan &plan) { plan.refreshes.push_back({1, "refresh"}); }),
      "");
  EXPECT_EQ(said(slotted,
                 [](LoweredPlan &plan) {
                   plan.refreshes.push_back(
                       {uint32_t(plan.destination.classes.size()), "refresh"});
                 }),
            "refresh 0 is of no class or method");
  EXPECT_EQ(said(slotted,
                 [](LoweredPlan &plan) { plan.refreshes.push_back({1, ""}); }),
            "refresh 0 is of no class or method");
}

TEST(Engine, ATrainerHasNothingOfIt) {
  const char trainer[] = R"({"config": {"model_type": "qwen3",
      "hidden_size": 6, "num_attention_heads": 2, "num_key_value_heads": 2,
      "head_dim": 2, "intermediate_size": 8, "num_hidden_layers": 1,
      "vocab_size": 4, "tie_word_embeddings": true},
      "trainer": {"vocab_multiple": 1},
      "rollout": {"engine": "megatron", "tp": 2, "vocab_multiple": 1}})";
  EXPECT_EQ(said(trainer, [](LoweredPlan &) {}), "");
  for (uint32_t delta_class_t::*field :
       {&delta_class_t::part_of, &delta_class_t::part_slot,
        &delta_class_t::extra_slots, &delta_class_t::order})
    EXPECT_SAYS(said(trainer,
                     [&](LoweredPlan &plan) {
                       plan.destination.classes[0].row.*field = 1;
                     }),
                "has what only an engine has");
  EXPECT_SAYS(said(trainer,
                   [](LoweredPlan &plan) {
                     plan.destination.classes[0].row.axis = DELTA_AXIS_STAGE;
                   }),
              "has no type or ways that do not divide its axis");
}

} // namespace
