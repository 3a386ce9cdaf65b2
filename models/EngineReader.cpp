//===- EngineReader.cpp - The rollout of an inference engine --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/Reader.h"

using namespace delta;
using nlohmann::json;

/// `expert_placement`: a rule, or the expert in each physical slot: one table
/// for all layers or one a layer. Whether every expert has a slot is checked
/// when the layout is bound.
static void readPlacement(const Reader &reader, EngineOptions &out) {
  const std::string key = "expert_placement";
  if (!reader.has(key))
    return;
  const json &value = reader.at(key);
  if (value.is_string()) {
    out.placement = reader.choice(key, "linear", {"linear", "round_robin"});
    return;
  }
  auto bad = [&](const std::string &what) {
    reader.fail(key, what + ", required \"linear\", \"round_robin\" or "
                            "{\"physical_to_logical\": [...]}, the expert in "
                            "each slot, or a list of such lists, one a layer");
  };
  if (!value.is_object() || value.size() != 1 ||
      !value.contains("physical_to_logical") ||
      !value["physical_to_logical"].is_array() ||
      value["physical_to_logical"].empty())
    bad("is " + Reader::shown(value));
  const json &list = value["physical_to_logical"];
  json tables = list[0].is_array() ? list : json::array({list});
  out.placement = "table";
  for (const json &table : tables) {
    std::string which = "table " + std::to_string(out.slots.size());
    std::string inWhich = list[0].is_array() ? " in " + which : "";
    if (!table.is_array() || table.empty())
      bad("has " + Reader::shown(table) + " as " + which);
    out.slots.emplace_back();
    for (const json &expert : table) {
      if (!expert.is_number_integer() || expert.get<int64_t>() < 0 ||
          expert.get<int64_t>() >= (1 << 16))
        bad("has the expert " + Reader::shown(expert) + inWhich);
      out.slots.back().push_back(expert.get<int64_t>());
    }
    if (table.size() != tables[0].size())
      reader.fail(key, "has " + std::to_string(table.size()) + " slots in " +
                           which + " and " + std::to_string(tables[0].size()) +
                           " in table 0, required equally many");
  }
}

/// Keys of the other engine: what to say instead of them.
static void refuseKeysOfOthers(const Reader &reader,
                               const std::string &engine) {
  const std::map<std::string, std::string> ofVllm = {
      {"dp", "an SGLang engine as a whole is repeated by \"replicas\", its "
             "attention by \"attention_dp\""}};
  const std::map<std::string, std::string> ofSglang = {
      {"attention_dp", "vLLM repeats the attention by \"dp\""},
      {"moe_tp", "in vLLM it follows from \"tp\", \"dp\" and \"ep\""},
      {"fuse_shared_experts", "vLLM keeps shared experts beside the others"}};
  for (const auto &[key, text] : engine == "vllm" ? ofSglang : ofVllm)
    if (reader.has(key))
      reader.fail(key, "is " + Reader::shown(reader.at(key)) +
                           ", which engine \"" + engine +
                           "\" does not have: " + text);
}

/// Ranks of a stage, as the engine numbers them: all data-parallel ranks of a
/// vLLM share the experts.
static void readVllm(const Reader &reader, EngineOptions &out) {
  out.dp = reader.integer("dp", 1, 1, 1024);
  int64_t ranks = out.tp * out.dp;
  if (out.ep != 1 && out.ep != ranks)
    reader.fail("ep", "is " + std::to_string(out.ep) +
                          ", required 1 or tp x dp = " + std::to_string(ranks) +
                          ": vLLM shares the experts among all ranks");
  out.moeTp = ranks / out.ep;
  out.mesh.tp = out.tp;
  out.mesh.dp = out.dp;
}

static void readSglang(const Reader &reader, EngineOptions &out) {
  out.attentionDp = reader.integer("attention_dp", 1, 1, 1024);
  for (auto [key, size] :
       {std::pair{"ep", out.ep}, std::pair{"attention_dp", out.attentionDp}})
    if (out.tp % size != 0)
      reader.fail(key,
                  "is " + std::to_string(size) +
                      ", required a divisor of tp = " + std::to_string(out.tp));
  out.moeTp = reader.integer("moe_tp", out.tp / out.ep, 1);
  if (out.moeTp != out.tp / out.ep)
    reader.fail("moe_tp",
                "is " + std::to_string(out.moeTp) +
                    ", required tp / ep = " + std::to_string(out.tp / out.ep));
  out.fuseSharedExperts = reader.boolean("fuse_shared_experts", false);
  if (out.placement == "round_robin")
    reader.fail("expert_placement", "is \"round_robin\", which engine "
                                    "\"sglang\" does not have");
  for (const std::vector<int64_t> &table : out.slots)
    if (table.size() % out.ep != 0)
      reader.fail("expert_placement",
                  "has " + std::to_string(table.size()) +
                      " slots, which ep = " + std::to_string(out.ep) +
                      " does not divide");
  out.mesh.tp = out.tp / out.attentionDp;
  out.mesh.dp = out.attentionDp;
}

EngineOptions delta::readEngine(const Reader &reader, const std::string &engine,
                                const std::filesystem::path &folder,
                                const TrainerOptions &trainer) {
  refuseKeysOfOthers(reader, engine);
  std::set<std::string> keys = {
      "engine",    "version",   "tp",      "ep",
      "pp",        "replicas",  "dtype",   "expert_placement",
      "pp_layout", "w13_order", "moe_pad", "redundant_experts",
      "layout"};
  if (engine == "vllm")
    keys.insert("dp");
  else
    keys.insert({"attention_dp", "moe_tp", "fuse_shared_experts"});
  reader.allow(keys);

  EngineOptions out;
  out.engine = engine;
  auto text = [&](const std::string &key, const std::string &what) {
    if (reader.isNullOrAbsent(key))
      return std::string();
    if (!reader.at(key).is_string() || reader.at(key) == "")
      reader.fail(key,
                  "is " + Reader::shown(reader.at(key)) + ", required " + what);
    return reader.at(key).get<std::string>();
  };
  out.version = text("version", "a version, for instance \"1.2.3\"");
  std::string layout = text("layout", "the path of a layout");
  if (!layout.empty())
    out.layoutPath = (folder / layout).string();
  out.tp = reader.integer("tp", 1, 1, 1024);
  out.ep = reader.integer("ep", 1, 1);
  out.pp = reader.integer("pp", 1, 1, 1024);
  out.replicas = reader.integer("replicas", 1, 1);
  out.redundantExperts = reader.integer("redundant_experts", 0, 0, 1 << 16);
  out.w13Order = reader.choice("w13_order", "gate_up", {"gate_up", "up_gate"});
  out.moePad = reader.integer("moe_pad", 0, 0, 1 << 16);
  // No cast leads from one 16-bit type to the other.
  bool isHalf = trainer.dtype == "f16";
  std::string dtype = reader.choice("dtype", isHalf ? "fp16" : "bf16",
                                    {"bf16", "fp16", "fp32"});
  if ((isHalf && dtype == "bf16") ||
      (trainer.dtype == "bf16" && dtype == "fp16"))
    reader.fail("dtype", "is \"" + dtype +
                             "\", of a trainer in the other 16-bit type, "
                             "required \"" +
                             (isHalf ? "fp16" : "bf16") + "\" or \"fp32\"");
  readPlacement(reader, out);
  if (out.redundantExperts > 0 && out.placement != "linear")
    reader.fail("redundant_experts",
                "is " + std::to_string(out.redundantExperts) +
                    ", and expert_placement is " +
                    (out.placement == "table"
                         ? "a table, which says itself where experts are "
                           "repeated"
                         : "\"round_robin\", which repeats none"));
  TrainerOptions layers;
  readLayout(reader, layers);
  if (!layers.chunkLayers.empty() || !layers.layoutPattern.empty())
    reader.fail("pp_layout", "is " + Reader::shown(reader.at("pp_layout")) +
                                 ", required null or a list of layer counts a "
                                 "stage");
  out.stageLayers = layers.stageLayers;
  if (engine == "vllm")
    readVllm(reader, out);
  else
    readSglang(reader, out);

  out.mesh.ep = out.ep;
  out.mesh.etp = out.moeTp;
  out.mesh.pp = out.pp;
  out.mesh.dtype = dtype == "fp16" ? "f16" : dtype == "fp32" ? "f32" : dtype;
  out.mesh.stageLayers = out.stageLayers;
  out.mesh.mtpLayers = trainer.mtpLayers;
  out.mesh.scores = trainer.scores;
  // Of 2^10 each: no product of four leaves 64 bits.
  int64_t ranks = out.mesh.tp * out.mesh.dp * out.pp, most = 1 << 20;
  if (ranks > most)
    reader.fail("", "has " + std::to_string(ranks) +
                        " ranks, required at most " + std::to_string(most));
  return out;
}
