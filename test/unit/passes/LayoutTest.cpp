//===- LayoutTest.cpp - Layers of chunks, and layouts that do not fit -----===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Layout.h"

#include <gtest/gtest.h>

using namespace delta;
using Chunks = std::vector<std::vector<int64_t>>;

namespace {

PipelineLayout layout(int64_t pp, int64_t vpp = 1) {
  PipelineLayout out;
  out.pp = pp;
  out.vpp = vpp;
  return out;
}

std::optional<Chunks> chunks(int64_t layers, const PipelineLayout &layout,
                             std::optional<std::string> pattern = {}) {
  std::string error;
  auto result = layersOfChunks(layers, layout, pattern, error);
  EXPECT_EQ(error, "");
  return result;
}

std::string failure(int64_t layers, const PipelineLayout &layout,
                    std::optional<std::string> pattern = {}) {
  std::string error;
  EXPECT_FALSE(layersOfChunks(layers, layout, pattern, error));
  return error;
}

TEST(Layout, EvenOverStagesAndVirtualStages) {
  EXPECT_EQ(chunks(12, layout(1)), Chunks({{12}}));
  EXPECT_EQ(chunks(12, layout(4)), Chunks({{3}, {3}, {3}, {3}}));
  EXPECT_EQ(chunks(12, layout(2, 3)), Chunks({{2, 2, 2}, {2, 2, 2}}));
}

TEST(Layout, EmbeddingAndLossCountAsLayers) {
  PipelineLayout both = layout(4);
  both.accountForEmbedding = both.accountForLoss = true;
  EXPECT_EQ(chunks(14, both), Chunks({{3}, {4}, {4}, {3}}));
  PipelineLayout loss = layout(2, 2);
  loss.accountForLoss = true;
  EXPECT_EQ(chunks(7, loss), Chunks({{2, 2}, {2, 1}}));
}

TEST(Layout, CountsOfStagesAreDealtOutToTheirChunks) {
  PipelineLayout stages = layout(2);
  stages.stages = {5, 7};
  EXPECT_EQ(chunks(12, stages), Chunks({{5}, {7}}));
  stages.vpp = 2;
  stages.stages = {4, 8};
  EXPECT_EQ(chunks(12, stages), Chunks({{2, 2}, {4, 4}}));
}

TEST(Layout, CountsOfChunksMayBeZero) {
  PipelineLayout given = layout(2, 2);
  given.chunks = {{0, 3}, {2, 1}};
  EXPECT_EQ(chunks(6, given), Chunks({{0, 3}, {2, 1}}));
}

TEST(Layout, PatternSegmentsAreStages) {
  PipelineLayout given = layout(3);
  given.pattern = "M*|M|M-";
  EXPECT_EQ(chunks(5, given, "M*MM-"), Chunks({{2}, {1}, {2}}));
  given.pattern = "M*||MM-";
  EXPECT_EQ(chunks(5, given, "M*MM-"), Chunks({{2}, {0}, {3}}));
}

TEST(Layout, RefusesWhatDoesNotDivide) {
  EXPECT_EQ(failure(10, layout(4)),
            "num_layers 10 is not divisible by pp x vpp 4; pp_layout gives an "
            "uneven split");
  EXPECT_EQ(failure(10, layout(2, 2)),
            "num_layers 10 is not divisible by pp x vpp 4; pp_layout gives an "
            "uneven split");
  PipelineLayout loss = layout(2);
  loss.accountForLoss = true;
  EXPECT_EQ(failure(10, loss),
            "num_layers 11 (with embedding or loss) is not divisible by pp x "
            "vpp 2; pp_layout gives an uneven split");
  PipelineLayout stages = layout(2, 2);
  stages.stages = {5, 7};
  EXPECT_EQ(failure(12, stages), "pp_layout: 5 layers of stage 0 are not "
                                 "divisible by vpp 2");
}

TEST(Layout, RefusesWhatDoesNotSumUp) {
  PipelineLayout stages = layout(2);
  stages.stages = {5, 8};
  EXPECT_EQ(failure(12, stages),
            "pp_layout sums up to 13 layers, the model has 12");
}

TEST(Layout, RefusesOtherNumbersOfStagesAndChunks) {
  PipelineLayout stages = layout(3);
  stages.stages = {6, 6};
  EXPECT_EQ(failure(12, stages), "pp_layout has 2 stages, required pp = 3");
  PipelineLayout given = layout(2, 2);
  given.chunks = {{3, 3}, {6}};
  EXPECT_EQ(failure(12, given),
            "pp_layout: stage 1 has 1 chunks, required vpp = 2");
}

TEST(Layout, RefusesOtherPatterns) {
  PipelineLayout given = layout(2);
  given.pattern = "M*|-";
  EXPECT_EQ(failure(3, given), "pp_layout 'M*|-' is a hybrid pattern, the "
                               "model has none");
  EXPECT_EQ(failure(3, given, "MM*"),
            "pp_layout 'M*|-' is not the model's pattern 'MM*' with '|' "
            "between stages");
  given.pp = 3;
  EXPECT_EQ(failure(3, given, "M*-"),
            "pp_layout has 2 segments, required 3 (pp x vpp)");
}

TEST(Layout, RefusesCombinations) {
  PipelineLayout both = layout(2);
  both.stages = {6, 6};
  both.accountForEmbedding = true;
  EXPECT_EQ(failure(12, both), "pp_layout cannot be combined with "
                               "account_for_embedding or account_for_loss");
  EXPECT_EQ(failure(4, layout(2, 2), "M*M*"),
            "vpp is 2, a hybrid model takes no virtual stages");
}

} // namespace
