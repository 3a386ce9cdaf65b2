//===- NumberTest.cpp - Single numbers of certificates and plans ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Changes every number of a certificate, then every number of a plan, one at
/// a time: there are no informational ones, so each change must be rejected.
///
//===----------------------------------------------------------------------===//

#include "Compiled.h"

#include "codegen/Tables.h"
#include "tools/certificate/Checker.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace delta;
using namespace delta::test;
using nlohmann::json;

namespace {

struct Proved {
  LoweredPlan plan;
  std::string certificate;
};

Proved prove(const std::string &text) {
  Compiled model(text);
  for (const std::string &pass : passNames)
    EXPECT_TRUE(model.run(pass));
  Proved out{*model.lower(), ""};
  out.plan.fingerprint = {0x0123456789abcdef, 0xfedcba9876543210};
  out.certificate = model.certificate(out.plan);
  return out;
}

/// Calls `visit` with every integer of a document; it may change it.
void eachNumber(json &node, const std::function<void(json &)> &visit) {
  if (node.is_number_integer())
    visit(node);
  else if (node.is_structured())
    for (json &child : node)
      eachNumber(child, visit);
}

/// Calls `visit` with every number of a plan, as a setter of its sum with some
/// change.
void eachNumber(
    LoweredPlan &plan,
    const std::function<void(std::function<void(int64_t)>)> &visit) {
  auto number = [&](auto &field) {
    visit([&field](int64_t by) { field += by; });
  };
  number(plan.fingerprint[0]);
  number(plan.fingerprint[1]);
  for (LoweredSide *side : {&plan.source, &plan.destination, &plan.hf}) {
    delta_side_t &row = side->row;
    number(row.replicas);
    if (side == &plan.destination && plan.destinationIsHf)
      continue; // only the replicas of it count
    for (uint32_t *axis : {&row.tp, &row.cp, &row.dp, &row.ep, &row.etp,
                           &row.edp, &row.pp, &row.vpp, &row.ranks_per_replica})
      // An engine's ep says how many begins its slots have.
      if (axis != &row.ep || side != &plan.destination ||
          plan.slots.first.empty())
        number(*axis);
    for (delta_placement_t &layer : side->layers) {
      number(layer.stage);
      number(layer.chunk);
      number(layer.local);
      number(layer.number);
    }
    for (delta_expert_t &expert : side->experts) {
      number(expert.ep);
      number(expert.local);
    }
    for (LoweredClass &lowered : side->classes) {
      delta_class_t &c = lowered.row;
      for (uint32_t *field :
           {&c.dtype, &c.rank, &c.layer_kind, &c.stage, &c.chunk,
            &c.num_experts, &c.axis, &c.ways, &c.copy_of, &c.part_of,
            &c.part_slot, &c.extra_slots, &c.order, &c.reserved})
        number(*field);
      for (int64_t &size : c.shape)
        number(size);
      number(c.expert_stride);
    }
  }
  // The last begin is the number of slots, which says how long the tables are.
  for (size_t p = 0; p + 1 < plan.slots.first.size(); ++p)
    number(plan.slots.first[p]);
  for (std::vector<uint32_t> &table : plan.slots.tables)
    for (uint32_t &expert : table)
      number(expert);
  for (LoweredRefresh &refresh : plan.refreshes)
    number(refresh.classIndex);
  for (std::vector<uint32_t> &kind : plan.layerKinds)
    for (uint32_t &layer : kind)
      number(layer);
  for (LoweredBox &box : plan.boxes) {
    delta_box_t &b = box.row;
    for (uint32_t *field : {&b.source_class, &b.source_way, &b.num_loops,
                            &b.tile_runs, &b.tile_columns})
      number(*field);
    number(b.num_tiles);
    number(b.source_offset);
    for (int i = 0; i < DELTA_MAX_LOOPS; ++i) {
      number(b.extent[i]);
      number(b.source_stride[i]);
    }
    std::vector<delta_image_t *> images = {&box.hfImage};
    for (delta_image_t &image : box.images)
      images.push_back(&image);
    for (delta_image_t *image : images) {
      for (uint32_t *field : {&image->class_index, &image->way_begin,
                              &image->way_end, &image->value_op})
        number(*field);
      number(image->offset);
      for (int64_t &stride : image->stride)
        number(stride);
    }
  }
}

class Numbers : public testing::TestWithParam<int> {};

TEST_P(Numbers, OfACertificateAreAllChecked) {
  Proved proved = prove(modelTexts[GetParam()]);
  ASSERT_EQ(checkerError(proved.certificate, proved.plan), "");
  json document = json::parse(proved.certificate);
  int changed = 0, rejected = 0;
  eachNumber(document, [&](json &node) {
    int64_t value = node;
    const int64_t others[] = {value + 1, value - 1, -value - 7, value * 2 + 3};
    node = others[changed % 4];
    ++changed;
    rejected += !checkerError(document.dump(), proved.plan).empty();
    node = value;
  });
  printf("certificate: %d changes, %d rejected\n", changed, rejected);
  EXPECT_EQ(rejected, changed);
  EXPECT_GT(changed, 1000);
}

TEST_P(Numbers, OfAPlanAreAllChecked) {
  Proved proved = prove(modelTexts[GetParam()]);
  int changed = 0, rejected = 0;
  std::vector<std::string> accepted;
  eachNumber(proved.plan, [&](const std::function<void(int64_t)> &add) {
    const int64_t changes[] = {1, -1, 1000};
    int64_t by = changes[changed % 3];
    add(by);
    ++changed;
    if (!checkerError(proved.certificate, proved.plan).empty())
      ++rejected;
    else
      accepted.push_back("change " + std::to_string(changed));
    add(-by);
  });
  printf("plan: %d changes, %d rejected\n", changed, rejected);
  EXPECT_EQ(accepted, std::vector<std::string>());
  EXPECT_GT(changed, 1000);
}

INSTANTIATE_TEST_SUITE_P(Models, Numbers,
                         testing::Range(0, int(modelTexts.size())));

TEST(Certificate, ForAnotherPlanIsRefusedByName) {
  Proved a = prove(modelTexts[0]), b = prove(modelTexts[1]);
  b.plan.fingerprint[1] += 1;
  EXPECT_EQ(checkerError(a.certificate, b.plan),
            "the certificate is for plan \"0123456789abcdeffedcba9876543210\", "
            "this is plan \"0123456789abcdeffedcba9876543211\"");
}

TEST(Certificate, ThatIsNoCertificateIsRefused) {
  Proved proved = prove(modelTexts[0]);
  for (const char *text : {"", "{", "[]", "{}", "null", "{\"format\": 3}",
                           "{\"format\": \"delta-certificate-2\"}"})
    EXPECT_NE(checkerError(text, proved.plan), "") << text;
  // Missing and unknown keys, at every level.
  json document = json::parse(proved.certificate);
  for (auto &[key, value] : document.items()) {
    json copy = document;
    copy.erase(key);
    EXPECT_NE(checkerError(copy.dump(), proved.plan), "") << key;
  }
  document["more"] = 1;
  EXPECT_NE(checkerError(document.dump(), proved.plan), "");
}

} // namespace
