//===- DiffTest.cpp - What counts as changed ------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundModel.h"
#include "TinyModels.h"

#include <gmock/gmock.h>

using namespace delta::test;

static const std::string Param = "decoder.layers.1.mlp.linear_fc2.weight";
static const std::string Tensor = "model.layers.1.mlp.down_proj.weight";

/// Syncs `before`, then `after`; whether that was a change. The receiver has
/// the bits of `after` in either case.
static bool changes(BoundModel &ranks, uint64_t &version, uint64_t before,
                    uint64_t after) {
  ranks.source(0).set(Param, {2, 1}, before);
  ranks.sync(++version);
  EXPECT_EQ(ranks.destination(0).get(Tensor, {2, 1}), before);
  ranks.source(0).set(Param, {2, 1}, after);
  const uint64_t changed = ranks.sync(++version).changed;
  EXPECT_LE(changed, 1u);
  EXPECT_EQ(ranks.destination(0).get(Tensor, {2, 1}), after);
  return changed == 1;
}

// Case 60: elements are compared by their bits. As values, zeros of both signs
// are equal and a NaN differs from itself.
TEST(DiffTest, ElementsAreComparedByTheirBits) {
  const CompiledModel model(tinyDense("{}"));
  BoundModel ranks(model);
  uint64_t version = 1;
  ranks.seed(version);
  EXPECT_TRUE(changes(ranks, version, 0x0000, 0x8000));  // zero, minus zero
  EXPECT_FALSE(changes(ranks, version, 0x7fc0, 0x7fc0)); // one NaN
  EXPECT_TRUE(changes(ranks, version, 0x7fc0, 0x7fc1));  // another NaN
  EXPECT_TRUE(changes(ranks, version, 0x7f80, 0xff80));  // both infinities
  EXPECT_FALSE(changes(ranks, version, 0x7f80, 0x7f80)); // one infinity
}

// Case 65: new bits are sent, never a difference that rounds to nothing.
TEST(DiffTest, SmallValueReplacesALargeOneExactly) {
  const CompiledModel model(tinyDense("{}"));
  BoundModel ranks(model);
  uint64_t version = 1;
  ranks.seed(version);
  EXPECT_TRUE(changes(ranks, version, 0x4380, 0x3a83)); // 256, then 0.001
}

// Case 64: a full sync has every element, also those that never changed.
TEST(DiffTest, FullSyncRepairsAReceiver) {
  const CompiledModel model(tinyDense("{}"));
  BoundModel ranks(model);
  ranks.source(0).fill([](size_t p, int64_t i) { return p * 64 + size_t(i); });
  ranks.seed(3);
  ranks.destination(0).fill([](size_t, int64_t) { return 0x7fc0; });
  ranks.source(0).set(Param, {0, 0}, 0x1111);
  const delta_sync_stats_t stats = ranks.seed(4);
  // Embedding, output, final norm; two layers of attention (3 x 2 x 2 rows,
  // output, two norms of a head, one of the input) and MLP (8 rows, 4 rows,
  // one norm), 4 columns each.
  const uint64_t layer = 12 * 4 + 4 * 4 + 2 * 2 + 4 + 8 * 4 + 4 * 4 + 4;
  EXPECT_EQ(stats.changed, 2 * 8 * 4 + 4 + 2 * layer);
  EXPECT_EQ(ranks.destination(0).get(Tensor, {0, 0}), 0x1111u);
  for (const ParamDescription &param : model.params(DELTA_HF, 0))
    for (int64_t i = 0; i < param.shape.front(); ++i) {
      Index index(param.shape.size(), 0);
      index.front() = i;
      EXPECT_NE(ranks.destination(0).get(param.names.front(), index), 0x7fc0u);
    }
}

// Case 71: nothing changed, and the version moves on by one all the same.
TEST(DiffTest, EmptyDeltaStillCarriesAVersion) {
  const CompiledModel model(tinyDense(R"({"trainer": {"pp": 2}})"));
  BoundModel ranks(model);
  ranks.seed(1);
  EXPECT_EQ(ranks.version(), 1u);
  const size_t numMessages = ranks.messages().size();
  EXPECT_EQ(ranks.sync(2).changed, 0u);
  EXPECT_EQ(ranks.version(), 2u);
  // One header for each pair of a source and a destination.
  EXPECT_EQ(ranks.messages().size(), 2 * numMessages);
  EXPECT_EQ(numMessages, 2u);
}

// Case 60: positions on either side of 16 bits, alone and in pairs. (Of 2^32
// see BigSizeTest.SyncsFarElements.)
TEST(DiffTest, PositionsOnEitherSideOf16BitsArrive) {
  const CompiledModel model(tinyDense(R"({
    "config": {"vocab_size": 20000, "num_hidden_layers": 1},
    "trainer": {"vocab_multiple": 0}})"));
  BoundModel ranks(model);
  ranks.seed(1);
  uint64_t version = 1, bits = 0x3f00;
  const std::vector<std::vector<int64_t>> sets = {
      {0, 65535}, {0, 65536}, {70000}, {65535, 65536}, {79999}};
  for (const std::vector<int64_t> &positions : sets) {
    for (int64_t position : positions)
      ranks.source(0).set("output_layer.weight", {position / 4, position % 4},
                          ++bits);
    EXPECT_EQ(ranks.sync(++version).changed, positions.size());
    uint64_t held = 0;
    for (int64_t row = 0; row < 20000; ++row)
      for (int64_t column = 0; column < 4; ++column) {
        const uint64_t trained =
            ranks.source(0).get("output_layer.weight", {row, column});
        held += trained != 0;
        ASSERT_EQ(ranks.destination(0).get("lm_head.weight", {row, column}),
                  trained)
            << row << ", " << column;
      }
    EXPECT_GE(held, positions.size());
  }
}
