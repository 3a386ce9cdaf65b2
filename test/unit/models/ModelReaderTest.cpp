//===- ModelReaderTest.cpp - Defaults, checks and relative paths ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/ModelReader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace delta;
namespace fs = std::filesystem;

namespace {

class ModelReader : public testing::Test {
protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "delta-model-XXXXXX";
    ASSERT_TRUE(::mkdtemp(name.data()));
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string file(const std::string &name, const std::string &text) {
    std::string path = folder + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }

  Model read(const std::string &text) {
    std::string error;
    auto model = readModel(file("model.json", text), error);
    EXPECT_TRUE(model) << error;
    return model ? *model : Model();
  }

  /// The message behind the folder's name.
  std::string failure(const std::string &text) {
    std::string error;
    EXPECT_FALSE(readModel(file("model.json", text), error)) << text;
    if (error.rfind(folder + "/", 0) == 0)
      error = error.substr(folder.size() + 1);
    return error;
  }

  /// The message about one key of the trainer.
  std::string trainer(const std::string &entry) {
    return failure("{\"config\": {}, \"trainer\": {" + entry + "}}");
  }

  std::string folder;
};

TEST_F(ModelReader, FillsDefaultsIn) {
  Model model = read(R"({"config": {"model_type": "toy"}})");
  EXPECT_EQ(model.modelType, "toy");
  EXPECT_TRUE(model.architectures.empty());
  EXPECT_FALSE(model.destination);
  EXPECT_EQ(model.replicas, 1);
  EXPECT_EQ(model.familyPath, "");
  const TrainerOptions &t = model.trainer;
  for (int64_t size : {t.tp, t.ep, t.etp, t.pp, t.vpp, t.cp, t.dp, t.edp})
    EXPECT_EQ(size, 1);
  EXPECT_EQ(t.dtype, "bf16");
  EXPECT_EQ(t.vocabMultiple, 128);
  EXPECT_FALSE(t.mtpLayers);
  EXPECT_EQ(t.experts, "grouped");
}

TEST_F(ModelReader, ReadsEveryKeyOfTheTrainer) {
  Model model = read(R"({"config": {}, "trainer": {
      "tp": 4, "ep": 8, "etp": 2, "pp": 2, "vpp": 3, "cp": 2, "dp": 2,
      "dtype": "fp16", "vocab_multiple": 0, "mtp_layers": 1,
      "experts": "sequential", "glu_interleave": null, "head": "lm",
      "naming": null, "table_rule": null, "pp_layout": [[1, 2, 0], [3, 4, 5]],
      "account_for_embedding": true, "account_for_loss": true}})");
  const TrainerOptions &t = model.trainer;
  EXPECT_EQ(t.tp, 4);
  EXPECT_EQ(t.ep, 8);
  EXPECT_EQ(t.etp, 2);
  EXPECT_EQ(t.pp, 2);
  EXPECT_EQ(t.vpp, 3);
  EXPECT_EQ(t.cp, 2);
  EXPECT_EQ(t.dp, 2);
  EXPECT_EQ(t.edp, 1);
  EXPECT_EQ(t.dtype, "f16");
  EXPECT_EQ(t.vocabMultiple, 0);
  EXPECT_EQ(t.mtpLayers, 1);
  EXPECT_EQ(t.experts, "sequential");
  EXPECT_EQ(t.chunkLayers,
            (std::vector<std::vector<int64_t>>{{1, 2, 0}, {3, 4, 5}}));
  EXPECT_TRUE(t.accountForEmbedding);
  EXPECT_TRUE(t.accountForLoss);
}

TEST_F(ModelReader, LayoutHasThreeForms) {
  auto layout = [&](const std::string &text) {
    return read("{\"config\": {}, \"trainer\": {\"pp_layout\": " + text + "}}")
        .trainer;
  };
  EXPECT_EQ(layout("[3, 4]").stageLayers, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(layout("\"M|*\"").layoutPattern, "M|*");
  EXPECT_TRUE(layout("null").stageLayers.empty());
}

TEST_F(ModelReader, DpIsTheSmallestThatFits) {
  for (int64_t tp = 1; tp <= 4; ++tp)
    for (int64_t cp = 1; cp <= 2; ++cp)
      for (int64_t ep = 1; ep <= 6; ++ep)
        for (int64_t etp = 1; etp <= 2; ++etp) {
          Model model = read(
              "{\"config\": {}, \"trainer\": {\"tp\": " + std::to_string(tp) +
              ", \"cp\": " + std::to_string(cp) + ", \"ep\": " +
              std::to_string(ep) + ", \"etp\": " + std::to_string(etp) + "}}");
          int64_t dp = 1;
          while (tp * cp * dp % (ep * etp) != 0)
            ++dp;
          EXPECT_EQ(model.trainer.dp, dp);
          EXPECT_EQ(tp * cp * dp, etp * ep * model.trainer.edp);
        }
}

TEST_F(ModelReader, PathsAreRelativeToTheModel) {
  file("sub/config.json", R"({"model_type": "toy", "nan": NaN})");
  std::string path = file("sub/model.json", R"({"config": "config.json",
      "family": "f.mlir", "checkpoint": "weights"})");
  std::string error;
  auto model = readModel(path, error);
  ASSERT_TRUE(model) << error;
  EXPECT_EQ(model->modelType, "toy");
  EXPECT_EQ(fs::path(model->configPath), folder + "/sub/config.json");
  EXPECT_EQ(fs::path(model->familyPath), folder + "/sub/f.mlir");
  EXPECT_EQ(fs::path(model->checkpointPath), folder + "/sub/weights");
}

TEST_F(ModelReader, DestinationHasTheTrainersKeys) {
  Model model = read(R"({"config": {}, "rollout": {"engine": "megatron",
      "tp": 2, "ep": 4, "replicas": 3}})");
  ASSERT_TRUE(model.destination);
  EXPECT_EQ(model.destination->tp, 2);
  EXPECT_EQ(model.destination->dp, 2);
  EXPECT_EQ(model.replicas, 3);
  EXPECT_EQ(failure(R"({"config": {}, "rollout": {"tp": 2}})"),
            "model.json:1:31: error: rollout.tp is not a key; known keys are "
            "engine, replicas");
  EXPECT_EQ(failure(R"({"config": {}, "rollout": {"engine": "megatron",
                     "vpp": 2}})"),
            "model.json:2:26: error: rollout.vpp is 2, virtual stages need pp "
            "above 1");
}

TEST_F(ModelReader, SyncTakesItsDefaults) {
  read(R"({"config": {}, "checkpoint": null, "sync": {"snapshot": "device",
      "dtype": "bf16", "fp8": null, "lora": null, "frozen": [],
      "verify_every": 0}})");
}

TEST_F(ModelReader, KeysNameTheirPlaceAndTheKnownOnes) {
  EXPECT_EQ(failure("{\"config\": {},\n  \"trainr\": {}}"),
            "model.json:2:10: error: trainr is not a key; known keys are "
            "checkpoint, config, family, rollout, sync, trainer");
  EXPECT_EQ(failure("{\"config\": {}, \"a/b\": 1}"),
            "model.json:1:20: error: a/b is not a key; known keys are "
            "checkpoint, config, family, rollout, sync, trainer");
  EXPECT_EQ(failure("{}"), "model.json:1:1: error: model has no key "
                           "\"config\": the published config or its path");
}

TEST_F(ModelReader, RefusesOtherTypes) {
  EXPECT_EQ(failure("[1]"), "model.json:1:1: error: model is [1], required an "
                            "object");
  EXPECT_EQ(failure(R"({"config": 5})"),
            "model.json:1:9: error: config is 5, required the published config "
            "or its path");
  EXPECT_EQ(failure(R"({"config": {"model_type": 5}})"),
            "model.json:1:24: error: config.model_type is 5, required a text");
  EXPECT_EQ(failure(R"({"config": {"architectures": ["a", 1]}})"),
            "model.json:1:27: error: config.architectures is [\"a\",1], "
            "required a list of texts");
  EXPECT_EQ(failure(R"({"config": {}, "family": 1})"),
            "model.json:1:23: error: family is 1, required the path of a "
            "family text");
  EXPECT_EQ(failure(R"({"config": {}, "trainer": null})"),
            "model.json:1:24: error: trainer is null, required an object");
  EXPECT_EQ(failure(R"({"config": {}, "rollout": "hf"})"),
            "model.json:1:24: error: rollout is \"hf\", required an object");
  EXPECT_EQ(trainer(R"("tp": "2")"), "model.json:1:31: error: trainer.tp is "
                                     "\"2\", required an integer from 1 to "
                                     "1048576");
  EXPECT_EQ(trainer(R"("account_for_loss": 1)"),
            "model.json:1:45: error: trainer.account_for_loss is 1, required "
            "true or false");
  EXPECT_EQ(trainer(R"("dtype": "bfloat16")"),
            "model.json:1:34: error: trainer.dtype is \"bfloat16\", required "
            "one of \"bf16\", \"fp16\", \"fp32\"");
}

TEST_F(ModelReader, ConfigsOfTheirOwnFileAreCalledConfig) {
  file("config.json", "[1]");
  EXPECT_EQ(failure(R"({"config": "config.json"})"),
            "config.json:1:1: error: config is [1], required an object");
  EXPECT_EQ(failure(R"({"config": "none.json"})"),
            "none.json: error: cannot read the config");
}

TEST_F(ModelReader, RefusesSizesThatDoNotFit) {
  EXPECT_EQ(trainer(R"("tp": 0)"), "model.json:1:31: error: trainer.tp is 0, "
                                   "required an integer from 1 to 1048576");
  EXPECT_EQ(trainer(R"("tp": 1025)"),
            "model.json:1:31: error: trainer.tp is 1025, required at most "
            "1024");
  EXPECT_EQ(trainer(R"("vpp": 2)"), "model.json:1:32: error: trainer.vpp is "
                                    "2, virtual stages need pp above 1");
  EXPECT_EQ(trainer(R"("tp": 2, "ep": 3, "dp": 1)"),
            "model.json:1:49: error: trainer.dp is 1: tp x cp x dp = 2 ranks a "
            "stage are not divisible by etp x ep = 3");
}

TEST_F(ModelReader, CountsRanksWithoutOverflow) {
  EXPECT_EQ(
      trainer(R"("tp": 1024, "cp": 1048576, "dp": 1048576, "pp": 16384)"),
      "model.json:1:24: error: trainer has 1125899906842624 ranks a stage and "
      "16384 stages, required at most 1048576 ranks");
  // Coprime sizes need so many replicas that they are not searched one by one.
  EXPECT_THAT(trainer(R"("tp": 1, "etp": 1021, "ep": 1048573)"),
              testing::HasSubstr("required at most 1048576 ranks"));
}

TEST_F(ModelReader, HeadIsTheLmHeadAValueOrScores) {
  const std::string required = ", required \"lm\", \"value\" or {\"score\": n} "
                               "with n from 1 to 1048576";
  for (const char *head : {"\"score\"", "3", "{}", "{\"score\": 0}",
                           "{\"score\": 1.5}", "{\"score\": 2, \"x\": 1}"})
    EXPECT_EQ(trainer("\"head\": " + std::string(head)),
              "model.json:1:33: error: trainer.head is " +
                  nlohmann::json::parse(head).dump() + required);
}

TEST_F(ModelReader, RefusesLayoutsOfOtherShapes) {
  const std::string required =
      ", required null, a list of layer counts a stage, a list of lists of "
      "layer counts a chunk, or a hybrid pattern";
  for (const char *layout :
       {"[]", "5", "[[1], 2]", "[1, [2]]", "[-1]", "[1.5]", "[[1, \"2\"]]"}) {
    nlohmann::json value = nlohmann::json::parse(layout);
    EXPECT_EQ(trainer("\"pp_layout\": " + std::string(layout)),
              "model.json:1:38: error: trainer.pp_layout is " + value.dump() +
                  required);
  }
  EXPECT_EQ(trainer(R"("pp_layout": "")"),
            "model.json:1:38: error: trainer.pp_layout is empty");
}

TEST_F(ModelReader, KeysOfLaterWorkTakeTheirDefaultOnly) {
  for (auto [entry, message] : std::vector<std::pair<std::string, std::string>>{
           {R"("trainer": {"glu_interleave": 2})",
            "trainer.glu_interleave is 2: not built yet, only null"},
           {R"("trainer": {"naming": "x"})",
            "trainer.naming is \"x\": not built yet, only null"},
           {R"("trainer": {"table_rule": "x"})",
            "trainer.table_rule is \"x\": not built yet, only null"},
           {R"("sync": {"dtype": "fp8_block"})",
            "sync.dtype is \"fp8_block\": not built yet, only \"bf16\""},
           {R"("sync": {"fp8": {"block": 128}})",
            "sync.fp8 is {\"block\":128}: not built yet, only null"},
           {R"("sync": {"lora": {"rank": 8}})",
            "sync.lora is {\"rank\":8}: not built yet, only null"},
           {R"("sync": {"frozen": ["*"]})",
            "sync.frozen is [\"*\"]: not built yet, only []"},
           {R"("sync": {"verify_every": 10})",
            "sync.verify_every is 10: not built yet, only 0"}})
    EXPECT_THAT(failure("{\"config\": {}, " + entry + "}"),
                testing::EndsWith("error: " + message));
}

//===----------------------------------------------------------------------===//
// Engines
//===----------------------------------------------------------------------===//

TEST_F(ModelReader, SharesExpertsOfVllmAmongAllRanks) {
  Model model = read(R"({"config": {}, "trainer": {"mtp_layers": 1,
                  "dtype": "fp32"},
      "rollout": {"engine": "vllm", "version": "0.33.0", "tp": 4, "dp": 2,
                  "pp": 2, "pp_layout": [3, 4], "replicas": 3,
                  "w13_order": "up_gate", "moe_pad": 128, "dtype": "fp16",
                  "layout": "texts/own.mlir"}})");
  ASSERT_TRUE(model.engine);
  EXPECT_FALSE(model.destination);
  const EngineOptions &engine = *model.engine;
  EXPECT_EQ(engine.engine, "vllm");
  EXPECT_EQ(engine.version, "0.33.0");
  EXPECT_EQ(engine.replicas, 3);
  EXPECT_EQ(model.replicas, 3);
  EXPECT_EQ(engine.w13Order, "up_gate");
  EXPECT_EQ(engine.moePad, 128);
  EXPECT_EQ(engine.moeTp, 8);
  EXPECT_EQ(engine.placement, "linear");
  EXPECT_EQ(engine.layoutPath, folder + "/texts/own.mlir");
  const TrainerOptions &mesh = engine.mesh;
  EXPECT_EQ(mesh.tp, 4);
  EXPECT_EQ(mesh.dp, 2);
  EXPECT_EQ(mesh.pp, 2);
  EXPECT_EQ(mesh.ep, 1);
  EXPECT_EQ(mesh.etp, 8);
  EXPECT_EQ(mesh.edp, 1);
  EXPECT_EQ(mesh.cp, 1);
  EXPECT_EQ(mesh.dtype, "f16");
  EXPECT_EQ(mesh.mtpLayers, 1);
  EXPECT_EQ(mesh.stageLayers, (std::vector<int64_t>{3, 4}));

  // The type of a trainer of two bytes, if the engine's is not given.
  model = read(R"({"config": {}, "trainer": {"dtype": "fp16"},
      "rollout": {"engine": "vllm"}})");
  EXPECT_EQ(model.engine->mesh.dtype, "f16");

  model = read(R"({"config": {}, "rollout":
      {"engine": "vllm", "tp": 4, "dp": 2, "ep": 8,
       "expert_placement": "round_robin"}})");
  EXPECT_EQ(model.engine->mesh.ep, 8);
  EXPECT_EQ(model.engine->mesh.etp, 1);
  EXPECT_EQ(model.engine->placement, "round_robin");
}

TEST_F(ModelReader, SplitsRanksOfSglangOverAttentionAndExperts) {
  Model model = read(R"({"config": {}, "rollout":
      {"engine": "sglang", "tp": 8, "ep": 4, "moe_tp": 2, "attention_dp": 2,
       "fuse_shared_experts": true, "redundant_experts": 4}})");
  const EngineOptions &engine = *model.engine;
  EXPECT_TRUE(engine.fuseSharedExperts);
  EXPECT_EQ(engine.attentionDp, 2);
  EXPECT_EQ(engine.redundantExperts, 4);
  EXPECT_EQ(engine.mesh.tp, 4);
  EXPECT_EQ(engine.mesh.dp, 2);
  EXPECT_EQ(engine.mesh.ep, 4);
  EXPECT_EQ(engine.mesh.etp, 2);
}

TEST_F(ModelReader, ReadsTablesOfExperts) {
  auto slots = [&](const std::string &list) {
    return read(R"({"config": {}, "rollout": {"engine": "sglang", "tp": 2,
        "ep": 2, "expert_placement": {"physical_to_logical": )" +
                list + "}}}")
        .engine->slots;
  };
  using Tables = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(slots("[0, 1, 2, 0]"), (Tables{{0, 1, 2, 0}}));
  EXPECT_EQ(slots("[[0, 1], [1, 0]]"), (Tables{{0, 1}, {1, 0}}));
}

TEST_F(ModelReader, RefusesEnginesThatDoNotExist) {
  auto rollout = [&](const std::string &keys) {
    return failure(R"({"config": {}, "rollout": {"engine": )" + keys + "}}");
  };
  const std::string table =
      ", required \"linear\", \"round_robin\" or {\"physical_to_logical\": "
      "[...]}, the expert in each slot, or a list of such lists, one a layer";
  for (auto [keys, message] : std::vector<std::pair<std::string, std::string>>{
           {R"("vllm", "tp": 4, "dp": 2, "ep": 4)",
            "rollout.ep is 4, required 1 or tp x dp = 8: vLLM shares the "
            "experts among all ranks"},
           {R"("sglang", "tp": 4, "ep": 3)",
            "rollout.ep is 3, required a divisor of tp = 4"},
           {R"("sglang", "tp": 4, "attention_dp": 3)",
            "rollout.attention_dp is 3, required a divisor of tp = 4"},
           {R"("sglang", "tp": 4, "ep": 2, "moe_tp": 4)",
            "rollout.moe_tp is 4, required tp / ep = 2"},
           {R"("sglang", "dp": 2)",
            "rollout.dp is 2, which engine \"sglang\" does not have: an SGLang "
            "engine as a whole is repeated by \"replicas\", its attention by "
            "\"attention_dp\""},
           {R"("vllm", "attention_dp": 2)",
            "rollout.attention_dp is 2, which engine \"vllm\" does not have: "
            "vLLM repeats the attention by \"dp\""},
           {R"("vllm", "moe_tp": 2)",
            "rollout.moe_tp is 2, which engine \"vllm\" does not have: in vLLM "
            "it follows from \"tp\", \"dp\" and \"ep\""},
           {R"("vllm", "fuse_shared_experts": true)",
            "rollout.fuse_shared_experts is true, which engine \"vllm\" does "
            "not have: vLLM keeps shared experts beside the others"},
           {R"("vllm", "vpp": 2)",
            "rollout.vpp is not a key; known keys are dp, dtype, engine, ep, "
            "expert_placement, layout, moe_pad, pp, pp_layout, "
            "redundant_experts, replicas, tp, version, w13_order"},
           {R"("vllm", "version": 33)",
            "rollout.version is 33, required a version, for instance "
            "\"1.2.3\""},
           {R"("vllm", "layout": "")",
            "rollout.layout is \"\", required the path of a layout"},
           {R"("vllm", "w13_order": "interleaved")",
            "rollout.w13_order is \"interleaved\", required one of "
            "\"gate_up\", \"up_gate\""},
           {R"("vllm", "moe_pad": -1)",
            "rollout.moe_pad is -1, required an integer from 0 to 65536"},
           {R"("vllm", "pp": 2, "pp_layout": [[1], [2]])",
            "rollout.pp_layout is [[1],[2]], required null or a list of layer "
            "counts a stage"},
           {R"("vllm", "tp": 1024, "dp": 1024, "pp": 2)",
            "rollout has 2097152 ranks, required at most 1048576"},
           {R"("sglang", "expert_placement": "round_robin")",
            "rollout.expert_placement is \"round_robin\", which engine "
            "\"sglang\" does not have"},
           {R"("vllm", "expert_placement": "eplb")",
            "rollout.expert_placement is \"eplb\", required one of "
            "\"linear\", \"round_robin\""},
           {R"("vllm", "expert_placement": [0, 1])",
            "rollout.expert_placement is [0,1]" + table},
           {R"("vllm", "expert_placement": {"physical_to_logical": []})",
            "rollout.expert_placement is {\"physical_to_logical\":[]}" + table},
           {R"("vllm", "expert_placement": {"physical_to_logical": [0, -1]})",
            "rollout.expert_placement has the expert -1" + table},
           {R"("vllm", "expert_placement": {"physical_to_logical": [[0], 1]})",
            "rollout.expert_placement has 1 as table 1" + table},
           {R"("vllm", "expert_placement":
               {"physical_to_logical": [[0, 1], [0, 1, 1]]})",
            "rollout.expert_placement has 3 slots in table 1 and 2 in table 0, "
            "required equally many"},
           {R"("sglang", "tp": 2, "ep": 2, "expert_placement":
               {"physical_to_logical": [0, 1, 2]})",
            "rollout.expert_placement has 3 slots, which ep = 2 does not "
            "divide"},
           {R"("vllm", "redundant_experts": 2,
               "expert_placement": "round_robin")",
            "rollout.redundant_experts is 2, and expert_placement is "
            "\"round_robin\", which repeats none"},
           {R"("vllm", "redundant_experts": 2,
               "expert_placement": {"physical_to_logical": [0, 1]})",
            "rollout.redundant_experts is 2, and expert_placement is a table, "
            "which says itself where experts are repeated"}})
    EXPECT_THAT(rollout(keys), testing::EndsWith("error: " + message)) << keys;
}

TEST_F(ModelReader, SaysWhatCannotBeRead) {
  std::string error;
  EXPECT_FALSE(readModel(folder + "/none.json", error));
  EXPECT_EQ(error, folder + "/none.json: error: cannot read the model");
  EXPECT_FALSE(readModel(folder, error));
  EXPECT_EQ(error, folder + ": error: cannot read the model");
}

} // namespace
