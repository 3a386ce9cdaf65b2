//===- Compiled.cpp - A model between the steps of the compiler -----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compiled.h"

#include "codegen/Files.h"
#include "codegen/Tables.h"
#include "models/ModelReader.h"
#include "passes/Passes.h"
#include "tools/certificate/Checker.h"
#include "tools/delta-compile/FamilyLoader.h"
#include "tools/delta-compile/Lower.h"
#include "tools/delta-compile/Proof.h"
#include "tools/delta-compile/TableMap.h"
#include "tools/reference/CrossCheck.h"
#include "tools/reference/SampleCheck.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <stdexcept>

using namespace delta;
using namespace delta::test;

const std::vector<std::string> delta::test::passNames = {
    "delta-fold-instances",    "delta-fold-tensor-parallel",
    "delta-fold-deinterleave", "delta-compose-maps",
    "delta-coalesce-runs",     "delta-align-layers",
    "delta-plan-routes"};

const std::vector<std::string> delta::test::modelTexts = {
    // Experts over ep and etp, stages to none, another padding.
    R"({"config": {"model_type": "qwen3_moe", "hidden_size": 8,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2,
        "num_experts": 4, "moe_intermediate_size": 4, "num_hidden_layers": 4,
        "vocab_size": 10},
        "trainer": {"tp": 2, "ep": 2, "etp": 2, "pp": 2, "vpp": 2,
                    "vocab_multiple": 4},
        "rollout": {"engine": "megatron", "tp": 4, "vocab_multiple": 2}})",
    // Tied over stages: the copy on the last one, at the destination too.
    R"({"config": {"model_type": "qwen3", "hidden_size": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2,
        "intermediate_size": 8, "num_hidden_layers": 3, "vocab_size": 9,
        "tie_word_embeddings": true},
        "trainer": {"tp": 4, "vocab_multiple": 1},
        "rollout": {"engine": "megatron", "tp": 2, "pp": 2,
                    "pp_layout": [1, 2], "vocab_multiple": 2}})",
    // Sections, kinds of layers, a type of its own.
    R"({"config": {"model_type": "nemotron_h", "hidden_size": 8,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2,
        "intermediate_size": 8, "num_hidden_layers": 4, "vocab_size": 10,
        "hybrid_override_pattern": "ME*-", "mamba_num_heads": 4,
        "mamba_head_dim": 2, "n_groups": 2, "ssm_state_size": 3,
        "conv_kernel": 4, "n_routed_experts": 4, "moe_intermediate_size": 6,
        "n_shared_experts": 1, "moe_shared_expert_intermediate_size": 8},
        "trainer": {"tp": 2, "ep": 2, "pp": 2, "vocab_multiple": 4}})",
    // Stacks, transposed and interleaved.
    R"({"config": {"model_type": "gpt_oss", "hidden_size": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2,
        "intermediate_size": 4, "num_local_experts": 4,
        "num_hidden_layers": 2, "vocab_size": 11},
        "trainer": {"tp": 2, "ep": 4, "vocab_multiple": 2},
        "rollout": {"engine": "hf", "replicas": 2}})",
    // Layers beside the decoder's, in the last of two chunks of two stages.
    R"({"config": {"model_type": "deepseek_v3", "hidden_size": 4,
        "intermediate_size": 4, "moe_intermediate_size": 2,
        "num_attention_heads": 2, "q_lora_rank": 3, "kv_lora_rank": 2,
        "qk_rope_head_dim": 2, "qk_nope_head_dim": 1, "v_head_dim": 1,
        "n_routed_experts": 2, "n_shared_experts": 1,
        "first_k_dense_replace": 2, "num_hidden_layers": 4, "vocab_size": 9,
        "num_nextn_predict_layers": 1},
        "trainer": {"tp": 2, "ep": 2, "pp": 2, "vpp": 2, "vocab_multiple": 4},
        "rollout": {"engine": "megatron", "tp": 1, "vocab_multiple": 1}})",
    // Casts up and down, some after +1, and a stack of two layers.
    R"({"family": ")" DELTA_TEST_CASTS R"(",
        "config": {"model_type": "casts", "hidden_size": 7,
        "intermediate_size": 8, "num_experts": 2, "moe_intermediate_size": 2,
        "num_hidden_layers": 2, "vocab_size": 9,
        "num_nextn_predict_layers": 2},
        "trainer": {"tp": 2, "etp": 2, "pp": 2, "vocab_multiple": 4}})",
    // An engine: key/value heads on two ranks, experts in slots, one twice.
    R"({"config": {"model_type": "qwen3_moe", "hidden_size": 8,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2,
        "num_experts": 4, "moe_intermediate_size": 4, "num_hidden_layers": 3,
        "vocab_size": 10},
        "trainer": {"tp": 2, "ep": 2, "etp": 1, "pp": 3, "vocab_multiple": 4},
        "rollout": {"engine": "vllm", "tp": 4, "ep": 4, "pp": 2,
                    "redundant_experts": 3, "replicas": 2}})",
    // Another: a tensor that is held twice, in two orders of memory, an expert
    // behind the others of a rank, a layer that it does not hold.
    R"({"config": {"model_type": "deepseek_v3", "hidden_size": 4,
        "intermediate_size": 4, "moe_intermediate_size": 2,
        "num_attention_heads": 2, "q_lora_rank": 3, "kv_lora_rank": 2,
        "qk_rope_head_dim": 2, "qk_nope_head_dim": 1, "v_head_dim": 1,
        "n_routed_experts": 2, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "num_hidden_layers": 2, "vocab_size": 9,
        "num_nextn_predict_layers": 1},
        "trainer": {"tp": 1, "etp": 2, "dp": 2, "vocab_multiple": 4},
        "rollout": {"engine": "sglang", "tp": 2,
                    "fuse_shared_experts": true}})"};

Compiled::Compiled(const std::string &modelText) {
  TemporaryFolder folder;
  std::string path, error;
  if (folder.create() || writeFile(path = folder.path("model.json"), modelText))
    throw std::runtime_error("no temporary folder");
  std::optional<Model> model = readModel(path, error);
  if (!model)
    throw std::runtime_error(error);
  replicas = model->replicas;
  static bool registered = (registerDeltaPasses(), true);
  (void)registered;
  registry.insert<DeltaDialect>();
  context = std::make_unique<mlir::MLIRContext>(
      registry, mlir::MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  context->getDiagEngine().registerHandler(
      [](mlir::Diagnostic &) { return mlir::success(); });
  pristine =
      loadFamily(*context, *model, model->familyPath, DELTA_TEST_MODELS, "");
  if (!pristine)
    throw std::runtime_error("family does not load");
  bound = mlir::OwningOpRef<mlir::ModuleOp>(pristine->clone());
  if (!run("delta-instantiate"))
    throw std::runtime_error("family does not bind");
  pristine = mlir::OwningOpRef<mlir::ModuleOp>(bound->clone());
  mlir::FailureOr<reference::Program> result =
      referenceProgram(*bound, replicas);
  if (failed(result))
    throw std::runtime_error("no reference program");
  reference = *result;
}

bool Compiled::run(const std::string &pass) {
  mlir::PassManager manager(context.get());
  return succeeded(mlir::parsePassPipeline(pass, manager)) &&
         succeeded(manager.run(*bound));
}

std::optional<LoweredPlan> Compiled::lower() {
  mlir::FailureOr<LoweredPlan> plan = lowerPlan(*bound, replicas);
  if (failed(plan))
    return std::nullopt;
  return std::move(*plan);
}

std::string Compiled::certificate(const LoweredPlan &plan) {
  return printCertificate(*bound, plan);
}

void Compiled::reset() {
  bound = mlir::OwningOpRef<mlir::ModuleOp>(pristine->clone());
}

std::string delta::test::checkerError(const std::string &certificate,
                                      const LoweredPlan &plan) {
  TableStorage storage(plan);
  std::string error;
  delta::certificate::check(certificate, storage.tables(), error);
  return error;
}

template <typename Check>
static std::string errorOf(const LoweredPlan &plan, const Check &check) {
  TableStorage storage(plan);
  std::string error;
  auto map = mapOfTables(storage.tables(), error);
  if (!map)
    return error;
  std::optional<reference::Report> report = check(*map, error);
  if (!report)
    return error;
  return report->first ? toText(*report->first) : std::string();
}

std::string delta::test::interpreterError(const reference::Program &program,
                                          const LoweredPlan &plan) {
  return errorOf(plan, [&](reference::MapSource &map, std::string &error) {
    return reference::crossCheck(program, map, error);
  });
}

std::string delta::test::sampleError(const reference::Program &program,
                                     const LoweredPlan &plan) {
  return errorOf(plan, [&](reference::MapSource &map, std::string &error) {
    return reference::sampleCheck(program, map, /*seed=*/7, error);
  });
}
