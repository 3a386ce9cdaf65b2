//===- DemoPlanTest.cpp - A plan through its C ABI ------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Loads the shared object of demo_plan.c as a trainer would, knows nothing but
/// the header, and syncs.
///
//===----------------------------------------------------------------------===//

#include "runtime/delta_abi.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

extern "C" size_t delta_test_sizes(size_t *out);

namespace {

class DemoPlanTest : public testing::Test {
protected:
  void SetUp() override {
    library = dlopen(DELTA_DEMO_PLAN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_TRUE(library) << dlerror();
    auto query = reinterpret_cast<decltype(&delta_plan_query)>(
        dlsym(library, "delta_plan_query"));
    ASSERT_TRUE(query);
    EXPECT_EQ(query(0), nullptr);
    api = query(0x7fffffff);
    ASSERT_TRUE(api);
    EXPECT_EQ(api, query(DELTA_ABI_VERSION));
  }
  void TearDown() override {
    if (library)
      dlclose(library);
  }

  void expectOk(delta_status_t status) { EXPECT_EQ(status, DELTA_OK) << text; }

  static delta_param_t param(const char *name, delta_dtype_t dtype,
                             std::vector<int64_t> shape, void *data) {
    delta_param_t out = {};
    out.name = name;
    out.dtype = dtype;
    out.rank = uint32_t(shape.size());
    int64_t stride = 1;
    for (size_t dim = shape.size(); dim-- > 0; stride *= shape[dim]) {
      out.shape[dim] = shape[dim];
      out.stride[dim] = stride;
    }
    out.data = data;
    return out;
  }

  void *library = nullptr;
  const delta_plan_api_t *api = nullptr;
  char text[512] = "";
  delta_error_t error = {text, sizeof(text)};
};

std::string outputOf(const std::string &command) {
  std::string output;
  FILE *pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  while (pipe && fgets(buffer.data(), buffer.size(), pipe))
    output += buffer.data();
  if (pipe)
    pclose(pipe);
  return output;
}

} // namespace

TEST_F(DemoPlanTest, DescribesItself) {
  EXPECT_EQ(api->version, DELTA_ABI_VERSION);
  EXPECT_EQ(api->size, sizeof(delta_plan_api_t));
  EXPECT_STREQ(api->name, "demo TP2 -> TP1");
  EXPECT_EQ(api->fingerprint[0], api->tables->fingerprint[0]);
  EXPECT_EQ(api->num_ranks(DELTA_SOURCE), 2u);
  EXPECT_EQ(api->num_ranks(DELTA_DESTINATION), 1u);
  EXPECT_EQ(api->num_ranks(DELTA_HF), 1u);
}

TEST_F(DemoPlanTest, IndexesItsElements) {
  delta_index_t *index = nullptr;
  expectOk(api->index_create(&index, error));
  EXPECT_EQ(api->param_count(index, DELTA_SOURCE, 1), 2u);
  EXPECT_EQ(api->param_count(index, DELTA_SOURCE, 7), 0u);
  delta_param_info_t info;
  expectOk(api->param_info(index, DELTA_HF, 0, 0, &info));
  EXPECT_STREQ(info.name, "model.words.weight");
  // Rank 1: its tile of the norm comes first (4-byte values), then words.
  EXPECT_EQ(api->tile_count(index, 0), 3u);
  EXPECT_EQ(api->tile_count(index, 1), 2u);
  delta_tile_info_t tile;
  expectOk(api->tile_info(index, 1, 1, &tile));
  EXPECT_EQ(tile.box, 1u);
  EXPECT_EQ(tile.num_elements, 8u);
  delta_place_t source, hf, destination;
  uint32_t count;
  expectOk(
      api->tile_element(index, 1, 1, 6, &source, &hf, &destination, 1, &count));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(source.element, 6);
  EXPECT_EQ(hf.element, 18);
  EXPECT_EQ(destination.element, 18);
  expectOk(
      api->tile_element(index, 1, 0, 1, &source, &hf, &destination, 1, &count));
  EXPECT_EQ(source.element, 3);
  EXPECT_EQ(destination.value_op, DELTA_VALUE_ADD_ONE);
  api->index_destroy(index);
}

TEST_F(DemoPlanTest, SyncsBetweenThreads) {
  constexpr uint64_t Run = 42;
  uint16_t words[2][12];
  float norm[2][4];
  for (uint16_t rank = 0; rank < 2; ++rank) {
    for (uint16_t i = 0; i < 12; ++i)
      words[rank][i] = uint16_t(0x100 * (rank + 1) + i);
    for (int i = 0; i < 4; ++i)
      norm[rank][i] = float(i) / 8;
  }
  uint16_t heldWords[32];
  float heldNorm[4] = {};
  memset(heldWords, 0xee, sizeof(heldWords));

  delta_sender_t *senders[2] = {};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    delta_param_t params[] = {
        param("words.weight", DELTA_BF16, {3, 4}, words[rank]),
        param(rank ? "old_norm.weight" : "norm.weight", DELTA_FP32, {4},
              norm[rank])};
    expectOk(
        api->sender_create(rank, params, 2, Run, 1, &senders[rank], error));
  }
  delta_param_t params[] = {
      param("words.weight", DELTA_BF16, {8, 4}, heldWords),
      param("norm.weight", DELTA_FP32, {4}, heldNorm)};
  delta_receiver_t *receiver = nullptr;
  expectOk(api->receiver_create(0, params, 2, Run, 2, &receiver, error));
  delta_inproc_t *inproc = nullptr;
  expectOk(api->inproc_create(&inproc, error));
  delta_transport_t transport = api->inproc_transport(inproc);

  auto sync = [&](uint64_t version, bool full) {
    std::thread ranks[2];
    for (int rank = 0; rank < 2; ++rank)
      ranks[rank] = std::thread([&, rank] {
        char own[256] = "";
        delta_error_t ownError = {own, sizeof(own)};
        delta_sync_stats_t stats;
        delta_status_t status =
            full ? api->sender_seed(senders[rank], version, &stats, ownError)
                 : api->sender_diff(senders[rank], version, &stats, ownError);
        EXPECT_EQ(status, DELTA_OK) << own;
        status = api->sender_send(senders[rank], &transport, ownError);
        EXPECT_EQ(status, DELTA_OK) << own;
      });
    expectOk(api->receiver_receive(receiver, &transport, error));
    expectOk(api->receiver_commit(receiver, error));
    EXPECT_EQ(api->receiver_version(receiver), version);
    for (int rank = 0; rank < 2; ++rank) {
      ranks[rank].join();
      expectOk(api->sender_acknowledge(senders[rank], version, error));
    }
  };
  auto expectHeld = [&] {
    for (int i = 0; i < 32; ++i) {
      uint16_t wanted = i < 20 ? words[i / 12][i % 12] : 0;
      EXPECT_EQ(heldWords[i], wanted) << i;
    }
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(heldNorm[i], norm[0][i] + 1) << i;
  };
  sync(1, /*full=*/true);
  expectHeld();
  words[0][5] = 0x7fc1;
  words[1][2] = 0x8000;
  norm[0][3] = norm[1][3] = 5;
  sync(2, /*full=*/false);
  expectHeld();
  sync(3, /*full=*/false);
  expectHeld();

  uint64_t sent[3], held[3], count;
  expectOk(
      api->sender_fingerprints(senders[0], 0, 9, nullptr, 0, &count, error));
  EXPECT_EQ(count, 2u);
  expectOk(api->sender_fingerprints(senders[0], 0, 9, sent, 3, &count, error));
  expectOk(api->receiver_fingerprints(receiver, 0, 9, held, 3, &count, error));
  EXPECT_EQ(sent[0], held[0]);
  EXPECT_EQ(sent[1], held[1]);

  api->inproc_destroy(inproc);
  api->receiver_destroy(receiver);
  for (delta_sender_t *sender : senders)
    api->sender_destroy(sender);
}

TEST_F(DemoPlanTest, ErrorsNameRankParameterAndCall) {
  uint16_t words[12] = {};
  delta_param_t params[] = {param("words.weight", DELTA_BF16, {4, 3}, words)};
  delta_sender_t *sender = nullptr;
  EXPECT_EQ(api->sender_create(1, params, 1, 0, 1, &sender, error),
            DELTA_BIND_MISMATCH);
  EXPECT_STREQ(text, "rank 1: \"words.weight\" (chunk 0): "
                     "bind: shape [4, 3], required [3, 4]");
  EXPECT_EQ(sender, nullptr);
  delta_error_t tiny = {text, 7};
  EXPECT_EQ(api->sender_create(9, params, 1, 0, 1, &sender, tiny),
            DELTA_INVALID_ARGUMENT);
  EXPECT_STREQ(text, "rank 9");
  EXPECT_EQ(api->sender_create(9, params, 1, 0, 1, &sender, {nullptr, 0}),
            DELTA_INVALID_ARGUMENT);
  EXPECT_EQ(api->sender_diff(nullptr, 1, nullptr, error),
            DELTA_INVALID_ARGUMENT);
  EXPECT_STREQ(text, "sender_diff: a pointer is null");
}

TEST_F(DemoPlanTest, AFunctionOfEnginesWithoutItsHandleIsRefused) {
  const uint32_t experts[1] = {0};
  uint64_t count = 0;
  auto refused = [&](delta_status_t code, const char *message) {
    EXPECT_EQ(code, DELTA_INVALID_ARGUMENT);
    EXPECT_STREQ(text, message);
  };
  refused(api->sender_set_placement(nullptr, experts, 1, 1, error),
          "sender_set_placement: a pointer is null");
  refused(api->receiver_set_placement(nullptr, experts, 1, 1, error),
          "receiver_set_placement: a pointer is null");
  refused(api->sender_begin_moved(nullptr, nullptr, error),
          "sender_begin_moved: a pointer is null");
  refused(api->receiver_check_layout(nullptr, 0.5, error),
          "receiver_check_layout: a pointer is null");
  refused(api->receiver_refreshes(nullptr, nullptr, 0, &count, error),
          "receiver_refreshes: a pointer is null");
}

TEST_F(DemoPlanTest, HasACapacityAndCanBeBoundAgain) {
  uint16_t words[2][12] = {}, heldWords[2][32] = {};
  float norm[4] = {}, heldNorm[4] = {};
  delta_sender_t *senders[2] = {};
  delta_receiver_t *receiver = nullptr;
  delta_inproc_t *inproc = nullptr;
  delta_param_t params[] = {param("words.weight", DELTA_BF16, {3, 4}, words[0]),
                            param("norm.weight", DELTA_FP32, {4}, norm)};
  delta_param_t heldParams[] = {
      param("words.weight", DELTA_BF16, {8, 4}, heldWords[0]),
      param("norm.weight", DELTA_FP32, {4}, heldNorm)};
  for (uint32_t rank = 0; rank < 2; ++rank)
    expectOk(api->sender_create(rank, params, 2, 1, 1, &senders[rank], error));
  expectOk(api->receiver_create(0, heldParams, 2, 1, 1, &receiver, error));
  expectOk(api->inproc_create(&inproc, error));
  delta_transport_t transport = api->inproc_transport(inproc);
  EXPECT_EQ(api->sender_set_capacity(senders[0], 1, error),
            DELTA_INVALID_ARGUMENT);
  EXPECT_STREQ(
      text, "rank 0: capacity: 1 elements, required are 8: the largest tile");
  for (delta_sender_t *sender : senders)
    expectOk(api->sender_set_capacity(sender, 8, error));
  auto sync = [&](uint64_t version, uint32_t rounds) {
    for (delta_sender_t *sender : senders) {
      expectOk(version == 1
                   ? api->sender_seed(sender, 1, nullptr, error)
                   : api->sender_diff(sender, version, nullptr, error));
      if (sender == senders[0]) {
        EXPECT_EQ(api->sender_rounds(sender), rounds);
      }
      expectOk(api->sender_send(sender, &transport, error));
    }
    expectOk(api->receiver_receive(receiver, &transport, error));
    expectOk(api->receiver_commit(receiver, error));
    for (delta_sender_t *sender : senders)
      expectOk(api->sender_acknowledge(sender, version, error));
    EXPECT_EQ(api->sender_rounds(senders[0]), 0u);
  };
  sync(1, /*rounds=*/3);
  EXPECT_EQ(heldNorm[3], 1.0f);

  // The words move on both sides, and the old ones change.
  params[0].data = words[1];
  heldParams[0].data = heldWords[1];
  memset(words[0], 0xee, sizeof(words[0]));
  words[1][7] = 0x1234;
  EXPECT_EQ(api->sender_check_bound(senders[0], params, 2, error),
            DELTA_BIND_MISMATCH);
  EXPECT_STREQ(text, "rank 0: \"words.weight\" (chunk 0): check: moved since "
                     "it was bound");
  EXPECT_EQ(api->receiver_check_bound(receiver, heldParams, 2, error),
            DELTA_BIND_MISMATCH);
  for (delta_sender_t *sender : senders)
    expectOk(api->sender_rebind(sender, params, 2, error));
  expectOk(api->receiver_rebind(receiver, heldParams, 2, error));
  expectOk(api->sender_check_bound(senders[0], params, 2, error));
  expectOk(api->receiver_check_bound(receiver, heldParams, 2, error));
  sync(2, /*rounds=*/1);
  EXPECT_EQ(heldWords[1][7], 0x1234);
  EXPECT_EQ(heldWords[0][7], 0);
  EXPECT_EQ(api->sender_rebind(senders[0], params, 1, error),
            DELTA_BIND_MISMATCH);
  EXPECT_STREQ(text, "rank 0: \"norm.weight\" (chunk 0): bind: missing");
  EXPECT_EQ(api->receiver_rebind(nullptr, heldParams, 2, error),
            DELTA_INVALID_ARGUMENT);
  EXPECT_STREQ(text, "receiver_rebind: a pointer is null");

  // A plan for the host takes no stream of a GPU.
  expectOk(api->receiver_set_stream(receiver, nullptr, error));
  EXPECT_EQ(api->receiver_set_stream(receiver, text, error),
            DELTA_INVALID_ARGUMENT);
  EXPECT_STREQ(text, "rank 0: set_stream: a plan for the host has no streams, "
                     "required: null");
  EXPECT_EQ(api->receiver_set_stream(nullptr, nullptr, error),
            DELTA_INVALID_ARGUMENT);
  EXPECT_STREQ(text, "receiver_set_stream: a pointer is null");

  api->inproc_destroy(inproc);
  api->receiver_destroy(receiver);
  for (delta_sender_t *sender : senders)
    api->sender_destroy(sender);
}

TEST_F(DemoPlanTest, ExportsOneSymbol) {
  EXPECT_EQ(outputOf("nm -D --defined-only --format=posix '" DELTA_DEMO_PLAN
                     "' | cut -d ' ' -f 1"),
            "delta_plan_query\n");
}

TEST_F(DemoPlanTest, NeedsTheBasicLibrariesOnly) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer adds its own library";
#endif
  std::string needed =
      outputOf("readelf -d '" DELTA_DEMO_PLAN
               "' | sed -n 's/.*NEEDED.*\\[\\(.*\\)\\]/\\1/p'");
  ASSERT_FALSE(needed.empty());
  const std::set<std::string> allowed = {
      "libc.so.6", "libstdc++.so.6",  "libgcc_s.so.1",
      "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"};
  for (size_t at = 0, end; at < needed.size(); at = end + 1) {
    end = needed.find('\n', at);
    EXPECT_TRUE(allowed.count(needed.substr(at, end - at))) << needed;
  }
}

TEST(AbiTest, HasTheSameLayoutInCAndCpp) {
  size_t sizes[16];
  size_t count = delta_test_sizes(sizes);
  const std::vector<size_t> here = {
      sizeof(delta_class_t),
      sizeof(delta_side_t),
      sizeof(delta_image_t),
      sizeof(delta_box_t),
      sizeof(delta_tables_t),
      sizeof(delta_param_info_t),
      sizeof(delta_param_t),
      sizeof(delta_plan_api_t),
      offsetof(delta_plan_api_t, inproc_transport)};
  EXPECT_EQ(std::vector<size_t>(sizes, sizes + count), here);
}
