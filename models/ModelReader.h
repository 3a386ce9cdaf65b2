//===- ModelReader.h - model.json as a value --------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads and checks model.json (models/SCHEMA.md). Knows nothing of families:
/// what a config must hold is the business of their text.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_MODELS_MODELREADER_H
#define DELTA_MODELS_MODELREADER_H

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace delta {

/// One trainer geometry. Every size is at least 1; dp is filled in.
struct TrainerOptions {
  int64_t tp = 1, ep = 1, etp = 1, pp = 1, vpp = 1, cp = 1, dp = 1, edp = 1;
  std::string dtype = "bf16"; ///< bf16, f16, f32
  int64_t vocabMultiple = 128;
  std::optional<int64_t> mtpLayers;
  std::string experts = "grouped"; ///< or sequential
  /// Rows of a score or value head in place of the LM head; 0: the LM head.
  int64_t scores = 0;
  /// At most one of the three is set.
  std::vector<int64_t> stageLayers;
  std::vector<std::vector<int64_t>> chunkLayers;
  std::string layoutPattern;
  bool accountForEmbedding = false;
  bool accountForLoss = false;
};

/// An inference engine as the destination.
struct EngineOptions {
  std::string engine;  ///< vllm, sglang
  std::string version; ///< empty: one that the layout was compared with
  int64_t tp = 1, ep = 1, pp = 1, dp = 1, attentionDp = 1, moeTp = 1;
  std::string placement = "linear"; ///< or round_robin, table
  /// The expert in each slot, of all ranks in order; one table, or one a
  /// layer. Empty but for "table".
  std::vector<std::vector<int64_t>> slots;
  int64_t redundantExperts = 0;
  std::string w13Order = "gate_up"; ///< or up_gate
  int64_t moePad = 0;               ///< 0: rows of an expert as they come
  bool fuseSharedExperts = false;
  std::vector<int64_t> stageLayers; ///< empty: as the engine deals them out
  std::string layoutPath;           ///< resolved; empty: the installed one
  int64_t replicas = 1;
  /// The axes that a layout knows: tp shares an attention layer, dp repeats
  /// it, etp and ep share the experts. dtype, and what the trainer says about
  /// heads and prediction layers, are filled in as well.
  TrainerOptions mesh;
};

/// A model with its geometries.
struct Model {
  std::string path;       ///< of model.json, for messages
  std::string configPath; ///< of the config, or of model.json
  nlohmann::json config;
  /// Line and column in configPath of each key of the config; keys of objects
  /// in it follow a dot ("text_config.hidden_size").
  std::map<std::string, std::pair<unsigned, unsigned>> configPlaces;
  std::string modelType;                  ///< empty if the config has none
  std::vector<std::string> architectures; ///< of the config
  TrainerOptions trainer;
  /// Another geometry as the destination, or an engine; else the checkpoint's
  /// layout.
  std::optional<TrainerOptions> destination;
  std::optional<EngineOptions> engine;
  int64_t replicas = 1;
  std::string snapshot = "device"; ///< where a sender on a GPU keeps it
  std::string familyPath;          ///< resolved; empty: by model type
  /// Resolved; its key list is what the plan must produce. Empty: none.
  std::string checkpointPath;
};

/// Reads model.json and the config it names. On failure returns nothing and
/// sets `error` to one line, `path:line:column: error: ...`.
std::optional<Model> readModel(const std::string &path, std::string &error);

} // namespace delta

#endif // DELTA_MODELS_MODELREADER_H
