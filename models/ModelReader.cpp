//===- ModelReader.cpp - model.json as a value ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/Reader.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>

using namespace delta;
using nlohmann::json;

static const std::set<std::string> trainerKeys = {"tp",
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

void delta::readLayout(const Reader &reader, TrainerOptions &out) {
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

static void readSync(const Document &document, Model &model) {
  Reader reader(document, "/sync");
  reader.allow({"snapshot", "dtype", "fp8", "lora", "frozen", "verify_every"});
  model.snapshot = reader.choice("snapshot", "device",
                                 {"device", "pinned", "pageable", "bitmap"});
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
      readSync(document, model);
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
