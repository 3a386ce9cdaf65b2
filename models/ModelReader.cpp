//===- ModelReader.cpp - model.json as a value ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/ModelReader.h"

#include "models/Json.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>

using namespace delta;
using nlohmann::json;

namespace {

/// Carries one diagnostic out of nested readers; it never leaves this file.
struct ReadError {
  std::string text;
};

/// A JSON object being read key by key.
class Reader {
public:
  /// `name` is what messages call the whole document.
  Reader(const Document &document, std::string pointer,
         std::string name = "model")
      : document(document), pointer(std::move(pointer)), name(std::move(name)),
        node(document.root.at(json::json_pointer(this->pointer))) {
    if (!node.is_object())
      fail("", "is " + shown(node) + ", required an object");
  }

  /// Reports `text` about a key, or about the object itself.
  [[noreturn]] void fail(const std::string &key,
                         const std::string &text) const {
    std::string at = key.empty() ? pointer : pointer + "/" + escapeKey(key);
    std::string path = pointer.empty() ? "" : pointer.substr(1);
    for (char &c : path)
      c = c == '/' ? '.' : c;
    if (!key.empty())
      path += (path.empty() ? "" : ".") + key;
    throw ReadError{document.place(at) +
                    ": error: " + (path.empty() ? name : path) + " " + text};
  }

  bool has(const std::string &key) const { return node.contains(key); }
  const json &at(const std::string &key) const { return node.at(key); }
  bool isNullOrAbsent(const std::string &key) const {
    return !has(key) || at(key).is_null();
  }

  /// An integer of at least `least`.
  int64_t integer(const std::string &key, int64_t fallback, int64_t least,
                  int64_t most = 1 << 20) const {
    if (!has(key))
      return fallback;
    const json &value = at(key);
    if (!value.is_number_integer() || value.get<int64_t>() < least ||
        value.get<int64_t>() > most)
      fail(key, "is " + shown(value) + ", required an integer from " +
                    std::to_string(least) + " to " + std::to_string(most));
    return value.get<int64_t>();
  }

  bool boolean(const std::string &key, bool fallback) const {
    if (!has(key))
      return fallback;
    if (!at(key).is_boolean())
      fail(key, "is " + shown(at(key)) + ", required true or false");
    return at(key).get<bool>();
  }

  /// One of `choices`.
  std::string choice(const std::string &key, const std::string &fallback,
                     const std::vector<std::string> &choices) const {
    if (!has(key))
      return fallback;
    for (const std::string &choice : choices)
      if (at(key) == choice)
        return choice;
    std::string list;
    for (const std::string &choice : choices)
      list += (list.empty() ? "\"" : ", \"") + choice + "\"";
    fail(key, "is " + shown(at(key)) + ", required one of " + list);
  }

  /// A key of later work: only its default is taken.
  void notBuilt(const std::string &key, const json &fallback) const {
    if (has(key) && at(key) != fallback)
      fail(key,
           "is " + shown(at(key)) + ": not built yet, only " + fallback.dump());
  }

  void allow(const std::set<std::string> &keys) const {
    for (auto it = node.begin(); it != node.end(); ++it)
      if (!keys.count(it.key())) {
        std::string list;
        for (const std::string &key : keys)
          list += (list.empty() ? "" : ", ") + key;
        fail(it.key(), "is not a key; known keys are " + list);
      }
  }

  static std::string shown(const json &value) {
    std::string text = value.dump();
    return text.size() > 60 ? text.substr(0, 57) + "..." : text;
  }

private:
  const Document &document;
  std::string pointer, name;
  const json &node;
};

const std::set<std::string> trainerKeys = {"tp",
                                           "ep",
                                           "etp",
                                           "pp",
                                           "vpp",
                                           "cp",
                                           "dp",
                                           "dtype",
                                           "experts",
                                           "head",
                                           "naming",
                                           "vocab_multiple",
                                           "pp_layout",
                                           "mtp_layers",
                                           "table_rule",
                                           "glu_interleave",
                                           "account_for_embedding",
                                           "account_for_loss"};

} // namespace

static std::string readText(const std::string &path, const std::string &what) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream buffer;
  buffer << file.rdbuf();
  if (!file || std::filesystem::is_directory(path))
    throw ReadError{path + ": error: cannot read " + what};
  return buffer.str();
}

static Document parse(const std::string &path, const std::string &text,
                      const std::string &lenient) {
  std::string error;
  std::optional<Document> document = parseJson(path, text, lenient, error);
  if (!document)
    throw ReadError{error};
  return std::move(*document);
}

/// `pp_layout`: null, [layers a stage], [[layers a chunk] a stage] or a hybrid
/// pattern. Whether it fits the model is checked when the family is bound.
static void readLayout(const Reader &reader, TrainerOptions &out) {
  const std::string key = "pp_layout";
  if (reader.isNullOrAbsent(key))
    return;
  const json &value = reader.at(key);
  if (value.is_string()) {
    out.layoutPattern = value.get<std::string>();
    if (out.layoutPattern.empty())
      reader.fail(key, "is empty");
    return;
  }
  auto bad = [&] {
    reader.fail(key, "is " + Reader::shown(value) +
                         ", required null, a list of layer counts a stage, a "
                         "list of lists of layer counts a chunk, or a hybrid "
                         "pattern");
  };
  auto count = [&](const json &number) {
    if (!number.is_number_integer() || number.get<int64_t>() < 0 ||
        number.get<int64_t>() > (1 << 16))
      bad();
    return number.get<int64_t>();
  };
  if (!value.is_array() || value.empty())
    bad();
  for (const json &stage : value) {
    if (stage.is_array() != value[0].is_array())
      bad();
    if (!stage.is_array()) {
      out.stageLayers.push_back(count(stage));
      continue;
    }
    out.chunkLayers.emplace_back();
    for (const json &chunk : stage)
      out.chunkLayers.back().push_back(count(chunk));
  }
}

/// `head`: "lm", "value" (one row), or {"score": rows}.
static void readHead(const Reader &reader, TrainerOptions &out) {
  const std::string key = "head";
  if (!reader.has(key))
    return;
  const json &value = reader.at(key);
  bool isScore = value.is_object() && value.size() == 1 &&
                 value.contains("score") &&
                 value["score"].is_number_integer() &&
                 value["score"].get<int64_t>() >= 1 &&
                 value["score"].get<int64_t>() <= (1 << 20);
  if (value != "lm" && value != "value" && !isScore)
    reader.fail(key, "is " + Reader::shown(value) +
                         ", required \"lm\", \"value\" or {\"score\": n} with "
                         "n from 1 to 1048576");
  out.scores = isScore ? value["score"].get<int64_t>() : value == "value";
}

static TrainerOptions readTrainer(const Reader &reader) {
  TrainerOptions out;
  out.tp = reader.integer("tp", 1, 1);
  out.ep = reader.integer("ep", 1, 1);
  out.etp = reader.integer("etp", 1, 1);
  out.pp = reader.integer("pp", 1, 1);
  out.vpp = reader.integer("vpp", 1, 1);
  out.cp = reader.integer("cp", 1, 1);
  for (auto [key, size] : {std::pair{"tp", out.tp}, {"etp", out.etp}})
    if (size > 1024)
      reader.fail(key,
                  "is " + std::to_string(size) + ", required at most 1024");
  if (out.vpp > 1 && out.pp == 1)
    reader.fail("vpp", "is " + std::to_string(out.vpp) +
                           ", virtual stages need pp above 1");
  // Per stage the dense and the expert ranks are the same ranks.
  int64_t dense = out.tp * out.cp, experts = out.etp * out.ep;
  if (reader.isNullOrAbsent("dp")) {
    out.dp = experts / std::gcd(dense, experts);
  } else {
    out.dp = reader.integer("dp", 1, 1);
    if (dense * out.dp % experts != 0)
      reader.fail("dp", "is " + std::to_string(out.dp) + ": tp x cp x dp = " +
                            std::to_string(dense * out.dp) +
                            " ranks a stage are not divisible by etp x ep = " +
                            std::to_string(experts));
  }
  out.edp = dense * out.dp / experts;
  // The sizes are at most 2^20 each, tp and etp 2^10: this stays in 64 bits.
  int64_t perStage = dense * out.dp, most = 1 << 20;
  if (perStage > most || perStage * out.pp > most)
    reader.fail("", "has " + std::to_string(perStage) + " ranks a stage and " +
                        std::to_string(out.pp) +
                        " stages, required at most 1048576 ranks");
  std::string dtype = reader.choice("dtype", "bf16", {"bf16", "fp16", "fp32"});
  out.dtype = dtype == "fp16" ? "f16" : dtype == "fp32" ? "f32" : dtype;
  out.vocabMultiple = reader.integer("vocab_multiple", 128, 0);
  if (!reader.isNullOrAbsent("mtp_layers"))
    out.mtpLayers = reader.integer("mtp_layers", 0, 0);
  out.experts = reader.choice("experts", "grouped", {"grouped", "sequential"});
  reader.notBuilt("glu_interleave", nullptr);
  readHead(reader, out);
  reader.notBuilt("naming", nullptr);
  reader.notBuilt("table_rule", nullptr);
  out.accountForEmbedding = reader.boolean("account_for_embedding", false);
  out.accountForLoss = reader.boolean("account_for_loss", false);
  readLayout(reader, out);
  return out;
}

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

static EngineOptions readEngine(const Reader &reader, const std::string &engine,
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

static void readRollout(const Document &document,
                        const std::filesystem::path &folder, Model &model) {
  Reader reader(document, "/rollout");
  std::string engine =
      reader.choice("engine", "hf", {"hf", "megatron", "vllm", "sglang"});
  if (engine == "hf") {
    reader.allow({"engine", "replicas"});
  } else if (engine == "megatron") {
    std::set<std::string> keys = trainerKeys;
    keys.insert({"engine", "replicas"});
    reader.allow(keys);
    model.destination = readTrainer(reader);
  } else {
    model.engine = readEngine(reader, engine, folder, model.trainer);
  }
  model.replicas = reader.integer("replicas", 1, 1);
}

static void readSync(const Document &document) {
  Reader reader(document, "/sync");
  reader.allow({"snapshot", "dtype", "fp8", "lora", "frozen", "verify_every"});
  reader.notBuilt("snapshot", "device");
  reader.notBuilt("dtype", "bf16");
  reader.notBuilt("fp8", nullptr);
  reader.notBuilt("lora", nullptr);
  reader.notBuilt("frozen", json::array());
  reader.notBuilt("verify_every", 0);
}

static void readConfig(const Document &document, const Reader &top,
                       const std::filesystem::path &folder, Model &model) {
  if (!top.has("config"))
    top.fail("", "has no key \"config\": the published config or its path");
  const json &value = top.at("config");
  if (!value.is_string() && !value.is_object())
    top.fail("config", "is " + Reader::shown(value) +
                           ", required the published config or its path");
  Document own;
  const Document *holder = &document;
  std::string pointer = "/config";
  if (value.is_string()) {
    model.configPath = (folder / value.get<std::string>()).string();
    own = parse(model.configPath, readText(model.configPath, "the config"), "");
    holder = &own;
    pointer.clear();
  } else {
    model.configPath = model.path;
  }
  Reader reader(*holder, pointer, "config");
  model.config = holder->root.at(json::json_pointer(pointer));
  for (const auto &[key, place] : holder->places) {
    if (key.size() <= pointer.size() || key.rfind(pointer, 0) != 0)
      continue;
    std::string path = key.substr(pointer.size() + 1);
    std::replace(path.begin(), path.end(), '/', '.');
    model.configPlaces[path] = place;
  }
  if (!reader.isNullOrAbsent("model_type")) {
    if (!reader.at("model_type").is_string())
      reader.fail("model_type", "is " + Reader::shown(reader.at("model_type")) +
                                    ", required a text");
    model.modelType = reader.at("model_type").get<std::string>();
  }
  if (!reader.isNullOrAbsent("architectures")) {
    const json &list = reader.at("architectures");
    for (const json &name : list.is_array() ? list : json::array({0})) {
      if (!name.is_string())
        reader.fail("architectures",
                    "is " + Reader::shown(list) + ", required a list of texts");
      model.architectures.push_back(name.get<std::string>());
    }
  }
}

std::optional<Model> delta::readModel(const std::string &path,
                                      std::string &error) {
  try {
    Model model;
    model.path = path;
    Document document = parse(path, readText(path, "the model"), "/config");
    Reader top(document, "");
    top.allow({"config", "checkpoint", "trainer", "rollout", "sync", "family"});
    std::filesystem::path folder = std::filesystem::path(path).parent_path();
    readConfig(document, top, folder, model);
    if (top.has("trainer")) {
      Reader trainer(document, "/trainer");
      trainer.allow(trainerKeys);
      model.trainer = readTrainer(trainer);
    }
    if (top.has("rollout"))
      readRollout(document, folder, model);
    if (top.has("sync"))
      readSync(document);
    auto pathAt = [&](const std::string &key, const std::string &what) {
      if (top.isNullOrAbsent(key))
        return std::string();
      if (!top.at(key).is_string())
        top.fail(key, "is " + Reader::shown(top.at(key)) +
                          ", required the path of " + what);
      return (folder / top.at(key).get<std::string>()).string();
    };
    model.familyPath = pathAt("family", "a family text");
    model.checkpointPath =
        pathAt("checkpoint", "a folder with safetensors, a file or an index");
    return model;
  } catch (const ReadError &caught) {
    error = caught.text;
    return std::nullopt;
  }
}
