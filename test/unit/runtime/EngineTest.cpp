//===- EngineTest.cpp - Straight into an engine's parameters --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EngineCluster.h"

#include "codegen/device/IndexFunctions.h"
#include "runtime/Index.h"
#include "runtime/Replicas.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

namespace {

/// The text of the refusal of changed tables, empty if they are taken.
template <typename Change> std::string refusal(const Change &change) {
  EnginePlan plan;
  change(plan);
  Status status = checkTables(plan.tables);
  return status.getText();
}

#define EXPECT_REFUSED(text, ...)                                              \
  EXPECT_EQ(refusal([](EnginePlan &p) { __VA_ARGS__; }), "plan tables: " text)

} // namespace

TEST(EngineTest, ShapesNamesAndStridesAreThoseOfEachRank) {
  EnginePlan plan;
  Status status = checkTables(plan.tables);
  ASSERT_FALSE(status.failed()) << status.getText();
  Index index(plan.tables);
  auto describe = [&](uint32_t rank, uint32_t param) {
    delta_param_info_t info;
    EXPECT_FALSE(
        index.paramInfo(DELTA_DESTINATION, rank, param, info).failed());
    return std::string(info.name) + shapeText(info.shape, info.rank) +
           shapeText(info.stride, info.rank);
  };
  std::vector<std::string> found;
  for (uint32_t i = 0; i < index.getParams(DELTA_DESTINATION, 0).size(); ++i)
    found.push_back(describe(0, i));
  EXPECT_EQ(found,
            (std::vector<std::string>{
                "e.0.qkv[4, 3][3, 1]", "e.1.qkv[4, 3][3, 1]",
                "e.0.stack[4, 4, 3][12, 3, 1]", "e.1.stack[4, 4, 3][12, 3, 1]",
                "e.0.a[1][1]", "e.1.a[1][1]", "e.0.turned[4, 6][1, 4]",
                "e.1.turned[4, 6][1, 4]", "e.0.norm[3][1]", "e.1.norm[3][1]",
                "e.words[2, 3][3, 1]", "e.0.own[5][1]", "e.1.own[5][1]"}));
  EXPECT_EQ(describe(1, 2), "e.0.stack[3, 4, 3][12, 3, 1]");
  EXPECT_EQ(describe(3, 3), "e.1.stack[2, 4, 3][12, 3, 1]");
  EXPECT_EQ(describe(7, 3), "e.1.stack[2, 4, 3][12, 3, 1]");
}

TEST(EngineTest, SeedsAndFollowsEveryElement) {
  EnginePlan plan;
  EngineCluster cluster(plan);
  cluster.fill(0);
  for (auto &sender : cluster.senders)
    EXPECT_FALSE(sender->seed(1, nullptr).failed());
  cluster.deliver();
  cluster.acknowledge(1);
  std::string first;
  EXPECT_EQ(cluster.countMismatches(first), 0u) << first;
  uint64_t version = 1;
  for (double share : {0.0, 0.05, 0.5, 1.0, 0.2}) {
    cluster.fill(++version, share);
    if (share > 0)
      EXPECT_NE(cluster.countMismatches(first), 0u);
    for (auto &sender : cluster.senders)
      EXPECT_FALSE(sender->diff(version, nullptr).failed());
    cluster.deliver();
    cluster.acknowledge(version);
    EXPECT_EQ(cluster.countMismatches(first), 0u) << share << ": " << first;
  }
  for (auto &memory : cluster.memory)
    EXPECT_TRUE(memory->guardsIntact());
}

/// Where no tensor reaches the experts of a stack, they stay as they are beside
/// the part that one does reach.
TEST(EngineTest, APartLeavesTheRestOfItsParameter) {
  EnginePlan plan;
  for (delta_box_t &box : plan.boxes)
    if (box.source_class == TensorW)
      box.num_images = 0;
  EngineCluster cluster(plan);
  cluster.fill(0);
  for (auto &sender : cluster.senders)
    EXPECT_FALSE(sender->seed(1, nullptr).failed());
  cluster.deliver();
  for (uint32_t rank : {0u, 3u}) {
    const RankMemory &memory = *cluster.memory[rank];
    const uint32_t stack = 2;
    const int64_t behind = memory.getNumElements(stack) - 12;
    for (int64_t e = 0; e < behind; ++e)
      EXPECT_EQ(memory.get(stack, e), Untouched & 0xffff) << e;
    for (int64_t e = 0; e < 12; ++e)
      EXPECT_EQ(memory.get(stack, behind + e),
                cluster.value(TensorShared, 0, DELTA_NONE, e));
  }
}

/// Each receiver gets what it holds and nothing else; a place that an expert
/// has twice on a rank is sent once.
TEST(EngineTest, AReceiverGetsItsOwnShareOnly) {
  EnginePlan plan;
  EngineCluster cluster(plan);
  cluster.fill(1);
  std::vector<uint64_t> elements(EngineCluster::NumReceivers);
  for (auto &sender : cluster.senders) {
    EXPECT_FALSE(sender->seed(1, nullptr).failed());
    const Expansion &expansion = sender->getShard().getExpansion();
    for (size_t i = 0; i < expansion.rows.size(); ++i) {
      const Row &row = expansion.rows[i];
      const delta_box_t &box = plan.boxes[row.box];
      for (uint32_t rank : expansion.sets[row.set])
        elements[rank] += uint64_t(row.numTiles()) * uint64_t(box.extent[1]);
    }
  }
  const uint64_t twice = 2 * 12; // expert 1 on rank 0, in both layers
  for (uint32_t rank = 0; rank < EngineCluster::NumReceivers; ++rank)
    EXPECT_EQ(elements[rank],
              cluster.numHeld(rank) - (rank % 4 == 0 ? twice : 0))
        << rank;
}

TEST(EngineTest, FingerprintsAgreeAndSeeOneElement) {
  EnginePlan plan;
  EngineCluster cluster(plan);
  cluster.fill(1);
  for (auto &sender : cluster.senders)
    EXPECT_FALSE(sender->seed(1, nullptr).failed());
  cluster.deliver();
  cluster.acknowledge(1);
  auto countDifferences = [&] {
    uint64_t differ = 0, total = 0;
    for (uint32_t s = 0; s < cluster.senders.size(); ++s)
      for (uint32_t r = 0; r < cluster.receivers.size(); ++r) {
        uint64_t count = 0, same = 0;
        EXPECT_FALSE(
            cluster.senders[s]->fingerprints(r, 9, nullptr, 0, count).failed());
        std::vector<uint64_t> sent(count), held(count);
        (void)cluster.senders[s]->fingerprints(r, 9, sent.data(), count, count);
        (void)cluster.receivers[r]->fingerprints(s, 9, held.data(), count,
                                                 same);
        EXPECT_EQ(same, count);
        for (uint64_t i = 0; i < count; ++i)
          differ += sent[i] != held[i];
        total += count;
      }
    EXPECT_GT(total, 100u);
    return differ;
  };
  EXPECT_EQ(countDifferences(), 0u);
  // The second place of expert 1 on rank 0, then -exp(a) of rank 2.
  for (auto [rank, param] : {std::pair(0u, 2u), std::pair(2u, 4u)}) {
    RankMemory &memory = *cluster.memory[rank];
    int64_t element = param == 2 ? 30 : 0;
    uint64_t bits = memory.get(param, element);
    memory.set(param, element, bits ^ 1);
    EXPECT_EQ(countDifferences(), 1u);
    memory.set(param, element, bits);
  }
}

/// What an engine does not hold is nobody's concern; else every element that
/// several ranks hold is compared.
TEST(EngineTest, ReplicaSumsLeaveOutWhatNobodyReceives) {
  EnginePlan plan;
  Expander expander(plan.tables);
  for (uint32_t rank = 0; rank < EngineCluster::NumSources; ++rank) {
    std::vector<ReplicaRow> rows = replicaRows(expander, rank);
    EXPECT_FALSE(rows.empty());
    for (const ReplicaRow &row : rows)
      EXPECT_NE(plan.boxes[row.box].source_class, uint32_t(TensorUnheld));
  }
  EngineCluster cluster(plan);
  cluster.fill(1);
  std::vector<std::vector<delta_replica_sum_t>> sums;
  for (auto &sender : cluster.senders) {
    uint64_t count = 0;
    EXPECT_FALSE(sender->replicaSums(3, nullptr, 0, count).failed());
    sums.emplace_back(count);
    EXPECT_FALSE(
        sender->replicaSums(3, sums.back().data(), count, count).failed());
  }
  uint64_t compared = 0;
  EXPECT_FALSE(findReplicaDifference(sums, compared));
  EXPECT_GT(compared, 10u);
}

TEST(EngineTest, BindRefusesTheShapeAndOrderOfAnotherRank) {
  EnginePlan plan;
  Side side(plan.tables, DELTA_DESTINATION);
  RankMemory memory(side, 1, false);
  auto bind = [&](const char *name, auto change) {
    std::vector<delta_param_t> params = memory.getBound();
    for (delta_param_t &param : params)
      if (std::string(param.name) == name)
        change(param);
    std::unique_ptr<Receiver> receiver;
    return Receiver::create(plan.tables, testKernels(), 1, params.data(),
                            uint32_t(params.size()), 1, 1, receiver)
        .getText();
  };
  EXPECT_EQ(bind("e.0.stack", [](delta_param_t &) {}), "");
  EXPECT_EQ(bind("e.0.stack", [](delta_param_t &p) { p.shape[0] = 4; }),
            "rank 1: \"e.0.stack\" (chunk 0): bind: shape [4, 4, 3], required "
            "[3, 4, 3]");
  EXPECT_EQ(bind("e.1.turned",
                 [](delta_param_t &p) {
                   p.stride[0] = 6;
                   p.stride[1] = 1;
                 }),
            "rank 1: \"e.1.turned\" (chunk 0): bind: strides [6, 1], required "
            "[1, 4]");
}

/// An engine may call one storage by two names; another storage is refused.
TEST(EngineTest, BindsByStorageWhatHasTwoNames) {
  EnginePlan plan;
  Side side(plan.tables, DELTA_DESTINATION);
  RankMemory memory(side, 1, false);
  auto bindWith = [&](const delta_param_t &more) {
    std::vector<delta_param_t> params = memory.getBound();
    params.push_back(more);
    std::unique_ptr<Receiver> receiver;
    return Receiver::create(plan.tables, testKernels(), 1, params.data(),
                            uint32_t(params.size()), 1, 1, receiver)
        .getText();
  };
  delta_param_t alias = memory.getBound()[0];
  alias.name = "also.called";
  EXPECT_EQ(bindWith(alias), "");
  delta_param_t part = alias;
  part.shape[0] -= 1;
  EXPECT_EQ(bindWith(part), "rank 1: \"also.called\" (chunk 0): bind: not a "
                            "parameter of this rank");
  delta_param_t huge = alias;
  huge.shape[0] = huge.shape[1] = INT64_MAX;
  huge.rank = 2;
  EXPECT_EQ(bindWith(huge), "rank 1: \"also.called\" (chunk 0): bind: not a "
                            "parameter of this rank");
  std::vector<uint8_t> elsewhere(1 << 16);
  alias.data = elsewhere.data();
  EXPECT_EQ(bindWith(alias), "rank 1: \"also.called\" (chunk 0): bind: not a "
                             "parameter of this rank");
}

TEST(EngineTest, RefusesAMessageOfAnotherPlacement) {
  EnginePlan plan, other;
  other.slotExperts[7] = 5;
  EngineCluster cluster(plan), others(other);
  for (EngineCluster *each : {&cluster, &others}) {
    each->fill(1);
    EXPECT_FALSE(each->senders[0]->seed(1, nullptr).failed());
  }
  std::vector<uint8_t> message = Cluster::bytesOf(*cluster.senders[0], 0);
  delta_bytes_t bytes = {message.data(), message.size()};
  Status status = cluster.receivers[0]->stage(bytes);
  EXPECT_FALSE(status.failed()) << status.getText();
  status = others.receivers[0]->stage(bytes);
  EXPECT_EQ(status.getCode(), DELTA_REFUSED);
  EXPECT_NE(status.getText().find("rank 0: source 0: stage: placement "),
            std::string::npos)
      << status.getText();
}

TEST(EngineTest, TablesAreRefused) {
  EXPECT_EQ(refusal([](EnginePlan &) {}), "");
  EXPECT_REFUSED("slots: expert 5 is in no slot", p.slotExperts[6] = 4);
  EXPECT_REFUSED("slots: slot 2 holds expert 6 of 6", p.slotExperts[2] = 6);
  EXPECT_REFUSED("slots: the slots of ep 1 are [3, 2)", p.slotFirst[2] = 2);
  EXPECT_REFUSED("slots: the coordinates have slots [0, 7) of 8",
                 p.slotFirst[4] = 7);
  EXPECT_REFUSED("slots: 3 tables, required are 1 or 2, one for each layer",
                 p.tables.slots.num_tables = 3);
  EXPECT_REFUSED("slots: a table is null", p.tables.slots.expert = nullptr);
  EXPECT_REFUSED("an engine without a name", p.tables.engine = nullptr);
  EXPECT_REFUSED("refresh 1: class 99", p.refreshes[1].class_index = 99);
  EXPECT_REFUSED("class 1: shape [3, 4, 3], required are 3 slots and 1 extra "
                 "ones",
                 p.engineClasses[ClassStack].shape[0] = 3);
  EXPECT_REFUSED("class 1: experts are 11 elements apart",
                 p.engineClasses[ClassStack].expert_stride = 11);
  EXPECT_REFUSED("class 1: slots do not follow each other in memory",
                 p.engineClasses[ClassStack].order = 0x201);
  EXPECT_REFUSED("class 0: experts that lie in no slots",
                 p.engineClasses[ClassQkv].num_experts = 6);
  EXPECT_REFUSED("class 4: memory in order 0x11 of 2 dimensions",
                 p.engineClasses[ClassTurned].order = 0x11);
  EXPECT_REFUSED("class 4: memory in order 0x102 of 2 dimensions",
                 p.engineClasses[ClassTurned].order = 0x102);
  EXPECT_REFUSED("class 0: memory in order 0x1 of 2 dimensions",
                 p.sourceClasses[TensorQ].order = 0x01);
  EXPECT_REFUSED("class 2: extra slot 1 of 1 of class 1",
                 p.engineClasses[ClassShared].part_slot = 1);
  EXPECT_REFUSED("class 2: does not fit into class 0, of which it is part",
                 p.engineClasses[ClassShared].part_of = ClassQkv);
  EXPECT_REFUSED("class 2: does not fit into class 1, of which it is part",
                 p.engineClasses[ClassShared].shape[0] = 5);
  EXPECT_REFUSED("class 2: part of class 8",
                 p.engineClasses[ClassShared].part_of = 8);
  EXPECT_REFUSED("class 0: part of class 0",
                 p.sourceClasses[TensorQ].part_of = 0);
  EXPECT_REFUSED("class 6: 3 ways of 4 ranks",
                 p.engineClasses[ClassWords].ways = 3);
  EXPECT_REFUSED("class 6: axis 4", p.engineClasses[ClassWords].axis = 4);
  EXPECT_REFUSED("box 0: value op 8", p.images[0].value_op = 8);
  EXPECT_REFUSED("box 0: value op 1024",
                 p.images[0].value_op = DELTA_VALUE_VIA(DELTA_INT64));
  EXPECT_REFUSED("box 0: value op 2",
                 p.images[1].value_op = DELTA_VALUE_NEG_EXP); // neutral
  EXPECT_REFUSED("box 0: an image has another dtype",
                 p.engineClasses[ClassQkv].dtype = DELTA_FP16);
}

/// A trainer with TP 4 and EP 16: parameters that a few ranks hold are divided
/// in tiles that are not a multiple of them.
TEST(EngineTest, HoldersSendEvenly) {
  Geometry from, to;
  from.tp = 4;
  from.dp = 4;
  from.ep = 16;
  to.tp = 16;
  std::vector<Matrix> matrices = mixedModel(from, to);
  std::vector<Matrix> model;
  for (const Matrix &matrix : matrices)
    if (matrix.layered && !matrix.expert && matrix.name != "kv")
      model.push_back(matrix);
  for (Matrix &matrix : model) {
    matrix.rows *= 8;
    matrix.columns *= 16;
    matrix.tile = 1 << 12;
  }
  TestPlan plan(from, to, false, 94, 128, model);
  Expander expander(plan.getTables());
  std::vector<int64_t> load(16);
  int64_t sum = 0;
  for (uint32_t rank = 0; rank < 16; ++rank) {
    const Expansion expansion = expander.expand(rank);
    for (const Row &row : expansion.rows) {
      const delta_box_t &box = plan.getTables().boxes[row.box];
      int64_t elements = 0;
      for (int64_t tile = row.tileBegin; tile < row.tileEnd; ++tile)
        elements += delta::device::tileOf(box, tile).numElements();
      load[rank] += elements * int64_t(expansion.sets[row.set].size());
    }
    sum += load[rank];
  }
  for (uint32_t rank = 0; rank < 16; ++rank)
    EXPECT_NEAR(double(load[rank]) * 16 / double(sum), 1, 0.1) << rank;
}
