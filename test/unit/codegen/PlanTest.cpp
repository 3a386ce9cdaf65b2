//===- PlanTest.cpp - A compiled plan, loaded and run ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// From a lowered plan through text and the machine's compiler to the functions
/// of the ABI. Values encode their place: element e of rank r, layer l of "w"
/// is 0x4000 + 1000*l + 100*r + e.
///
//===----------------------------------------------------------------------===//

#include "SamplePlan.h"
#include "codegen/Emit.h"
#include "codegen/Toolchain.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>
#include <sstream>

using namespace delta;
using delta::test::samplePlan;
using ::testing::ElementsAre;
using ::testing::IsSubsetOf;

namespace {

/// The plan is compiled once for all tests of this file.
class PlanTest : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    work = new TemporaryFolder;
    ASSERT_EQ(work->create(), std::nullopt);
    MaybeError error =
        compileHost(emitHost(samplePlan()), work->path("plan.so"),
                    installationAt(DELTA_TEST_PREFIX));
    ASSERT_EQ(error, std::nullopt) << *error;
    library = ::dlopen(work->path("plan.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    auto query = reinterpret_cast<decltype(&delta_plan_query)>(
        ::dlsym(library, "delta_plan_query"));
    ASSERT_NE(query, nullptr);
    EXPECT_EQ(query(0), nullptr);
    plan = query(0x7fffffff);
    ASSERT_NE(plan, nullptr);
  }

  static void TearDownTestSuite() {
    if (library)
      ::dlclose(library);
    delete work;
  }

  void SetUp() override { ASSERT_NE(plan, nullptr); }

  /// First words matched by `pattern` in what a program prints of the plan.
  static std::vector<std::string> words(std::vector<std::string> command,
                                        const char *pattern) {
    command.push_back("plan.so");
    CommandResult result;
    EXPECT_EQ(runCommand(command, work->folder(), result), std::nullopt);
    EXPECT_EQ(result.status, 0) << result.output;
    std::regex expression(pattern);
    std::vector<std::string> found;
    for (std::sregex_iterator
             it(result.output.begin(), result.output.end(), expression),
         end;
         it != end; ++it)
      found.push_back((*it)[1]);
    return found;
  }

  static TemporaryFolder *work;
  static void *library;
  static const delta_plan_api_t *plan;
};

TemporaryFolder *PlanTest::work = nullptr;
void *PlanTest::library = nullptr;
const delta_plan_api_t *PlanTest::plan = nullptr;

/// A buffer for error texts.
struct ErrorText {
  char text[512] = "";
  delta_error_t out() { return {text, sizeof(text)}; }
};

delta_param_t makeParam(const char *name, delta_dtype_t dtype,
                        std::vector<int64_t> shape, void *data) {
  delta_param_t param = {};
  param.name = name;
  param.dtype = dtype;
  param.rank = static_cast<uint32_t>(shape.size());
  int64_t stride = 1;
  for (size_t i = 0; i < DELTA_MAX_RANK; ++i)
    param.shape[i] = i < shape.size() ? shape[i] : 1;
  for (size_t i = shape.size(); i-- > 0;) {
    param.stride[i] = stride;
    stride *= shape[i];
  }
  param.data = data;
  return param;
}

/// One trainer rank: two layers of w [4, 6] and a norm [5].
struct SourceRank {
  uint16_t w[2][24];
  float norm[5];

  explicit SourceRank(uint32_t rank) {
    for (uint32_t layer = 0; layer < 2; ++layer)
      for (uint32_t e = 0; e < 24; ++e)
        w[layer][e] = uint16_t(0x4000 + 1000 * layer + 100 * rank + e);
    for (int i = 0; i < 5; ++i)
      norm[i] = 0.25f * float(i);
  }
  std::vector<delta_param_t> params() {
    return {makeParam("decoder.layers.0.w", DELTA_BF16, {4, 6}, w[0]),
            makeParam("decoder.layers.1.w", DELTA_BF16, {4, 6}, w[1]),
            makeParam("norm", DELTA_FP32, {5}, norm)};
  }
};

/// The receiver: whole tensors.
struct Receiver {
  uint16_t w[2][48] = {};
  float norm[5] = {};

  std::vector<delta_param_t> params() {
    return {makeParam("layers.0.w", DELTA_BF16, {8, 6}, w[0]),
            makeParam("layers.1.w", DELTA_BF16, {8, 6}, w[1]),
            makeParam("norm", DELTA_FP32, {5}, norm)};
  }
  void expectHolds(const SourceRank *sources) const {
    for (int layer = 0; layer < 2; ++layer)
      for (int e = 0; e < 48; ++e)
        EXPECT_EQ(w[layer][e], sources[e / 24].w[layer][e % 24])
            << "layer " << layer << " element " << e;
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(norm[i], sources[0].norm[i] + 1.0f) << i;
  }
};

} // namespace

TEST_F(PlanTest, OneSymbolIsExported) {
  EXPECT_THAT(words({"nm", "-D", "--defined-only"}, "[0-9a-f]+ . (\\S+)"),
              ElementsAre("delta_plan_query"));
}

TEST_F(PlanTest, NeedsTheBasicLibrariesOnly) {
  EXPECT_THAT(words({"readelf", "-d"}, "\\(NEEDED\\)[^\\[]*\\[([^\\]]+)\\]"),
              IsSubsetOf({"libc.so.6", "libm.so.6", "libstdc++.so.6",
                          "libgcc_s.so.1", "libpthread.so.0"}));
}

TEST_F(PlanTest, TableDescribesThePlan) {
  EXPECT_EQ(plan->version, DELTA_ABI_VERSION);
  EXPECT_EQ(plan->size, sizeof(delta_plan_api_t));
  EXPECT_STREQ(plan->name, "sample, TP2 to hf");
  EXPECT_EQ(plan->fingerprint[0], samplePlan().fingerprint[0]);
  EXPECT_EQ(plan->fingerprint[1], samplePlan().fingerprint[1]);
  ASSERT_NE(plan->tables, nullptr);
  EXPECT_EQ(plan->tables->num_boxes, 3u);
  EXPECT_EQ(plan->tables->boxes[1].source_way, 1u);
  EXPECT_STREQ(plan->tables->compiler, "delta-compile test");
}

TEST_F(PlanTest, IndexAnswers) {
  ErrorText error;
  delta_index_t *index = nullptr;
  ASSERT_EQ(plan->index_create(&index, error.out()), DELTA_OK) << error.text;
  EXPECT_EQ(plan->num_ranks(DELTA_SOURCE), 2u);
  EXPECT_EQ(plan->num_ranks(DELTA_DESTINATION), 1u);
  std::vector<std::string> names;
  ASSERT_EQ(plan->param_count(index, DELTA_SOURCE, 1), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    delta_param_info_t info;
    ASSERT_EQ(plan->param_info(index, DELTA_SOURCE, 1, i, &info), DELTA_OK);
    names.push_back(info.name);
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre(
                         "decoder.layers.0.w", "decoder.layers.1.w", "norm"));
  // Two tiles a layer of w on each rank, and the norm on one of the two.
  EXPECT_EQ(plan->tile_count(index, 0) + plan->tile_count(index, 1), 9u);
  plan->index_destroy(index);
}

TEST_F(PlanTest, EveryElementHasOneTile) {
  ErrorText error;
  delta_index_t *index = nullptr;
  ASSERT_EQ(plan->index_create(&index, error.out()), DELTA_OK) << error.text;
  // By parameter of the receiver and element: how often a tile names it.
  std::vector<std::vector<int>> seen(3);
  for (uint32_t i = 0; i < 3; ++i) {
    delta_param_info_t info;
    ASSERT_EQ(plan->param_info(index, DELTA_DESTINATION, 0, i, &info),
              DELTA_OK);
    seen[i].assign(static_cast<size_t>(info.num_elements), 0);
  }
  for (uint32_t rank = 0; rank < 2; ++rank)
    for (uint64_t t = 0; t < plan->tile_count(index, rank); ++t) {
      delta_tile_info_t tile;
      ASSERT_EQ(plan->tile_info(index, rank, t, &tile), DELTA_OK);
      for (uint32_t e = 0; e < tile.num_elements; ++e) {
        delta_place_t source, hf, destination;
        uint32_t count = 0;
        ASSERT_EQ(plan->tile_element(index, rank, t, e, &source, &hf,
                                     &destination, 1, &count),
                  DELTA_OK);
        ASSERT_EQ(count, 1u);
        EXPECT_EQ(source.param, tile.param);
        EXPECT_EQ(hf.element, destination.element);
        ++seen[destination.param].at(static_cast<size_t>(destination.element));
      }
    }
  for (const std::vector<int> &param : seen)
    EXPECT_THAT(param, testing::Each(1));
  plan->index_destroy(index);
}

TEST_F(PlanTest, SeedDiffAndCommitAcrossTwoRanks) {
  ErrorText error;
  SourceRank ranks[2] = {SourceRank(0), SourceRank(1)};
  Receiver receiver;
  const uint64_t run = 7;
  delta_sender_t *senders[2] = {};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    std::vector<delta_param_t> params = ranks[rank].params();
    ASSERT_EQ(plan->sender_create(rank, params.data(), 3, run, 1,
                                  &senders[rank], error.out()),
              DELTA_OK)
        << error.text;
  }
  delta_receiver_t *sink = nullptr;
  std::vector<delta_param_t> params = receiver.params();
  ASSERT_EQ(
      plan->receiver_create(0, params.data(), 3, run, 1, &sink, error.out()),
      DELTA_OK)
      << error.text;
  delta_inproc_t *inproc = nullptr;
  ASSERT_EQ(plan->inproc_create(&inproc, error.out()), DELTA_OK);
  delta_transport_t transport = plan->inproc_transport(inproc);

  uint64_t changed = 0;
  auto sync = [&](uint64_t version) {
    changed = 0;
    for (delta_sender_t *sender : senders) {
      delta_sync_stats_t stats = {};
      auto prepare = version == 1 ? plan->sender_seed : plan->sender_diff;
      ASSERT_EQ(prepare(sender, version, &stats, error.out()), DELTA_OK)
          << error.text;
      changed += stats.changed;
      ASSERT_EQ(plan->sender_send(sender, &transport, error.out()), DELTA_OK)
          << error.text;
    }
    ASSERT_EQ(plan->receiver_receive(sink, &transport, error.out()), DELTA_OK)
        << error.text;
    ASSERT_EQ(plan->receiver_commit(sink, error.out()), DELTA_OK) << error.text;
    for (delta_sender_t *sender : senders)
      ASSERT_EQ(plan->sender_acknowledge(sender, version, error.out()),
                DELTA_OK)
          << error.text;
    EXPECT_EQ(plan->receiver_version(sink), version);
  };

  sync(1);
  receiver.expectHolds(ranks);

  ranks[0].w[1][5] = 0x7fc1;  // a NaN with a payload
  ranks[1].w[0][23] = 0x8000; // -0.0
  ranks[0].norm[2] = ranks[1].norm[2] = -1.5f;
  sync(2);
  EXPECT_EQ(changed, 3u);
  receiver.expectHolds(ranks);

  sync(3);
  EXPECT_EQ(changed, 0u);
  receiver.expectHolds(ranks);

  plan->receiver_destroy(sink);
  for (delta_sender_t *sender : senders)
    plan->sender_destroy(sender);
  plan->inproc_destroy(inproc);
}

namespace {

/// The parameters of a rank as the plan describes them, in memory of zeros.
struct DescribedRank {
  std::vector<std::string> names;
  std::vector<std::vector<uint16_t>> words;
  std::vector<delta_param_t> params;

  DescribedRank(const delta_plan_api_t *plan, delta_index_t *index,
                delta_side_id_t side, uint32_t rank) {
    uint32_t count = plan->param_count(index, side, rank);
    for (uint32_t i = 0; i < count; ++i) {
      delta_param_info_t info;
      EXPECT_EQ(plan->param_info(index, side, rank, i, &info), DELTA_OK);
      names.push_back(info.name);
      words.emplace_back(static_cast<size_t>(info.num_elements) * 2);
      delta_param_t param = {};
      param.dtype = info.dtype;
      param.rank = info.rank;
      std::copy(info.shape, info.shape + DELTA_MAX_RANK, param.shape);
      std::copy(info.stride, info.stride + DELTA_MAX_RANK, param.stride);
      params.push_back(param);
    }
    for (uint32_t i = 0; i < count; ++i) {
      params[i].name = names[i].c_str();
      params[i].data = words[i].data();
    }
  }
  uint32_t count() const { return static_cast<uint32_t>(params.size()); }
  uint16_t *at(const std::string &name) {
    auto it = std::find(names.begin(), names.end(), name);
    EXPECT_NE(it, names.end()) << name;
    return words[static_cast<size_t>(it - names.begin())].data();
  }
};

} // namespace

TEST(EnginePlanTest, IsCompiledAndAnswers) {
  TemporaryFolder work;
  ASSERT_EQ(work.create(), std::nullopt);
  MaybeError error =
      compileHost(emitHost(delta::test::enginePlan()), work.path("plan.so"),
                  installationAt(DELTA_TEST_PREFIX));
  ASSERT_EQ(error, std::nullopt) << *error;
  void *library = ::dlopen(work.path("plan.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  auto query = reinterpret_cast<decltype(&delta_plan_query)>(
      ::dlsym(library, "delta_plan_query"));
  const delta_plan_api_t *plan = query(DELTA_ABI_VERSION);
  ErrorText text;
  delta_index_t *index = nullptr;
  ASSERT_EQ(plan->index_create(&index, text.out()), DELTA_OK) << text.text;
  EXPECT_STREQ(plan->tables->engine, "engine");
  EXPECT_STREQ(plan->tables->refreshes[0].method, "refresh_w");
  EXPECT_EQ(plan->tables->images[plan->tables->boxes[2].first_image].value_op,
            DELTA_VALUE_VIA(DELTA_BF16) | DELTA_VALUE_NEG_EXP);
  delta_param_info_t info;
  ASSERT_EQ(plan->param_info(index, DELTA_DESTINATION, 1, 0, &info), DELTA_OK);
  EXPECT_STREQ(info.name, "e.0.w");
  EXPECT_THAT(std::vector<int64_t>(info.stride, info.stride + 2),
              ElementsAre(1, 8));

  // Two trainer ranks, two of the engine, and a sync through the ABI alone.
  DescribedRank sources[] = {{plan, index, DELTA_SOURCE, 0},
                             {plan, index, DELTA_SOURCE, 1}};
  DescribedRank ranks[] = {{plan, index, DELTA_DESTINATION, 0},
                           {plan, index, DELTA_DESTINATION, 1}};
  for (DescribedRank &source : sources)
    for (size_t i = 0; i < source.names.size(); ++i)
      for (size_t e = 0; e < source.words[i].size(); ++e)
        source.words[i][e] =
            uint16_t(0x3c00 + 16 * (i + 1) + (e + i) % 7); // not alike
  delta_sender_t *senders[2] = {};
  delta_receiver_t *receivers[2] = {};
  delta_inproc_t *inproc = nullptr;
  ASSERT_EQ(plan->inproc_create(&inproc, text.out()), DELTA_OK);
  const delta_transport_t transport = plan->inproc_transport(inproc);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(plan->sender_create(rank, sources[rank].params.data(),
                                  sources[rank].count(), 1, 1, &senders[rank],
                                  text.out()),
              DELTA_OK)
        << text.text;
    ASSERT_EQ(plan->receiver_create(rank, ranks[rank].params.data(),
                                    ranks[rank].count(), 1, 1, &receivers[rank],
                                    text.out()),
              DELTA_OK)
        << text.text;
  }
  auto exchange = [&] {
    for (delta_sender_t *sender : senders) {
      ASSERT_EQ(plan->sender_send(sender, &transport, text.out()), DELTA_OK)
          << text.text;
    }
    for (delta_receiver_t *receiver : receivers) {
      ASSERT_EQ(plan->receiver_receive(receiver, &transport, text.out()),
                DELTA_OK)
          << text.text;
    }
  };
  auto finish = [&] {
    for (delta_receiver_t *receiver : receivers) {
      ASSERT_EQ(plan->receiver_commit(receiver, text.out()), DELTA_OK)
          << text.text;
    }
    for (delta_sender_t *sender : senders) {
      ASSERT_EQ(plan->sender_acknowledge(sender, 1, text.out()), DELTA_OK)
          << text.text;
    }
  };
  // Rank 0 has experts 0 and 1 of layer 0, rank 1 has 2 and 0, and both have
  // the shared one behind them.
  auto expectStack = [&](uint32_t rank, const char *first, const char *second) {
    const uint16_t *stack = ranks[rank].at("e.0.stack");
    const char *slots[] = {first, second, "x.0.shared"};
    for (int slot = 0; slot < 3; ++slot)
      for (int i = 0; i < 2; ++i)
        EXPECT_EQ(stack[2 * slot + i], sources[0].at(slots[slot])[i])
            << rank << " slot " << slot;
  };
  for (delta_sender_t *sender : senders)
    ASSERT_EQ(plan->sender_seed(sender, 1, nullptr, text.out()), DELTA_OK);
  exchange();
  EXPECT_EQ(plan->receiver_check_layout(receivers[0], 0.5, text.out()),
            DELTA_BIND_MISMATCH);
  EXPECT_THAT(text.text,
              testing::StartsWith("rank 0: \"e.0.w\": check_layout"));
  finish();
  expectStack(0, "x.0.0", "x.0.1");
  expectStack(1, "x.0.2", "x.0.0");
  uint64_t calls = 0;
  delta_refresh_call_t refreshes[2];
  ASSERT_EQ(
      plan->receiver_refreshes(receivers[0], refreshes, 2, &calls, text.out()),
      DELTA_OK);
  EXPECT_EQ(calls, 2u); // of w in both layers

  const uint32_t moved[] = {2, 1, 0, 2};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(
        plan->sender_set_placement(senders[rank], moved, 1, 4, text.out()),
        DELTA_OK)
        << text.text;
    ASSERT_EQ(
        plan->receiver_set_placement(receivers[rank], moved, 1, 4, text.out()),
        DELTA_OK)
        << text.text;
    EXPECT_EQ(plan->sender_diff(senders[rank], 2, nullptr, text.out()),
              DELTA_REFUSED);
    ASSERT_EQ(plan->sender_begin_moved(senders[rank], nullptr, text.out()),
              DELTA_OK)
        << text.text;
  }
  exchange();
  finish();
  expectStack(0, "x.0.2", "x.0.1");
  expectStack(1, "x.0.0", "x.0.2");

  for (uint32_t rank = 0; rank < 2; ++rank) {
    plan->receiver_destroy(receivers[rank]);
    plan->sender_destroy(senders[rank]);
  }
  plan->inproc_destroy(inproc);
  plan->index_destroy(index);
  ::dlclose(library);
}

TEST_F(PlanTest, WrongShapeIsRefusedByName) {
  ErrorText error;
  SourceRank rank(0);
  std::vector<delta_param_t> params = rank.params();
  params[1].shape[0] = 5;
  delta_sender_t *sender = nullptr;
  EXPECT_EQ(
      plan->sender_create(0, params.data(), 3, 1, 1, &sender, error.out()),
      DELTA_BIND_MISMATCH);
  EXPECT_THAT(error.text, testing::HasSubstr("decoder.layers.1.w"));
}
