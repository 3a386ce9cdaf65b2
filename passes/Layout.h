//===- Layout.h - Decoder layers of each pipeline chunk ---------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_PASSES_LAYOUT_H
#define DELTA_PASSES_LAYOUT_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace delta {

/// What a geometry says about the pipeline.
struct PipelineLayout {
  int64_t pp = 1;
  int64_t vpp = 1;
  /// Layers of each chunk, [stage][chunk]; empty: even.
  std::vector<std::vector<int64_t>> chunks;
  /// Layers of each stage, dealt out to its chunks evenly; empty: not given.
  std::vector<int64_t> stages;
  /// A hybrid pattern with '|' between the segments, chunk outermost.
  std::optional<std::string> pattern;
  /// Count the embedding, or the loss, as a layer of its stage.
  bool accountForEmbedding = false;
  bool accountForLoss = false;
};

/// Layers of each chunk, [stage][chunk], or one line that says what does not
/// fit. `modelPattern` is the hybrid pattern of the model, if it has one.
std::optional<std::vector<std::vector<int64_t>>>
layersOfChunks(int64_t numLayers, const PipelineLayout &layout,
               const std::optional<std::string> &modelPattern,
               std::string &error);

} // namespace delta

#endif // DELTA_PASSES_LAYOUT_H
