//===- Layout.cpp - Decoder layers of each pipeline chunk -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Layout.h"

#include <algorithm>
#include <numeric>

using namespace delta;
using Chunks = std::vector<std::vector<int64_t>>;

static std::nullopt_t fail(std::string &error, std::string text) {
  error = std::move(text);
  return std::nullopt;
}

static std::optional<Chunks> fromPattern(const PipelineLayout &layout,
                                         const std::string &modelPattern,
                                         std::string &error) {
  std::string joined;
  std::vector<int64_t> segments(1, 0);
  for (char c : *layout.pattern) {
    if (c == '|') {
      segments.push_back(0);
    } else {
      joined += c;
      ++segments.back();
    }
  }
  std::string plain = modelPattern;
  plain.erase(std::remove(plain.begin(), plain.end(), '|'), plain.end());
  if (joined != plain)
    return fail(error, "pp_layout '" + *layout.pattern +
                           "' is not the model's pattern '" + plain +
                           "' with '|' between stages");
  int64_t required = layout.pp * layout.vpp;
  if (int64_t(segments.size()) != required)
    return fail(error, "pp_layout has " + std::to_string(segments.size()) +
                           " segments, required " + std::to_string(required) +
                           " (pp x vpp)");
  Chunks chunks(layout.pp, std::vector<int64_t>(layout.vpp));
  for (int64_t i = 0; i < required; ++i)
    chunks[i % layout.pp][i / layout.pp] = segments[i];
  return chunks;
}

static std::optional<Chunks> fromCounts(int64_t numLayers,
                                        const PipelineLayout &layout,
                                        std::string &error) {
  Chunks chunks = layout.chunks;
  for (size_t stage = 0; stage < layout.stages.size(); ++stage) {
    int64_t count = layout.stages[stage];
    if (count % layout.vpp != 0)
      return fail(error, "pp_layout: " + std::to_string(count) +
                             " layers of stage " + std::to_string(stage) +
                             " are not divisible by vpp " +
                             std::to_string(layout.vpp));
    chunks.emplace_back(layout.vpp, count / layout.vpp);
  }
  if (int64_t(chunks.size()) != layout.pp)
    return fail(error,
                "pp_layout has " + std::to_string(chunks.size()) +
                    " stages, required pp = " + std::to_string(layout.pp));
  int64_t sum = 0;
  for (size_t stage = 0; stage < chunks.size(); ++stage) {
    if (int64_t(chunks[stage].size()) != layout.vpp)
      return fail(error,
                  "pp_layout: stage " + std::to_string(stage) + " has " +
                      std::to_string(chunks[stage].size()) +
                      " chunks, required vpp = " + std::to_string(layout.vpp));
    for (int64_t count : chunks[stage])
      sum += count;
  }
  if (sum != numLayers)
    return fail(error, "pp_layout sums up to " + std::to_string(sum) +
                           " layers, the model has " +
                           std::to_string(numLayers));
  return chunks;
}

std::optional<Chunks>
delta::layersOfChunks(int64_t numLayers, const PipelineLayout &layout,
                      const std::optional<std::string> &modelPattern,
                      std::string &error) {
  bool given =
      layout.pattern || !layout.chunks.empty() || !layout.stages.empty();
  if (given && (layout.accountForEmbedding || layout.accountForLoss))
    return fail(error, "pp_layout cannot be combined with "
                       "account_for_embedding or account_for_loss");
  if (modelPattern && layout.vpp > 1)
    return fail(error, "vpp is " + std::to_string(layout.vpp) +
                           ", a hybrid model takes no virtual stages");
  if (layout.pattern) {
    if (!modelPattern)
      return fail(error, "pp_layout '" + *layout.pattern +
                             "' is a hybrid pattern, the model has none");
    return fromPattern(layout, *modelPattern, error);
  }
  if (given)
    return fromCounts(numLayers, layout, error);

  int64_t count = layout.pp * layout.vpp;
  int64_t total =
      numLayers + layout.accountForEmbedding + layout.accountForLoss;
  if (total % count != 0)
    return fail(error,
                "num_layers " + std::to_string(total) +
                    (total != numLayers ? " (with embedding or loss)" : "") +
                    " is not divisible by pp x vpp " + std::to_string(count) +
                    "; pp_layout gives an uneven split");
  Chunks chunks(layout.pp, std::vector<int64_t>(layout.vpp, total / count));
  chunks.front().front() -= layout.accountForEmbedding;
  chunks.back().back() -= layout.accountForLoss;
  return chunks;
}
