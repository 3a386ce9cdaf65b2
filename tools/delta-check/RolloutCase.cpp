//===- RolloutCase.cpp - Parameters of a running engine -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads layout.json, tensors.json, params.json and params.tags.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-check/RolloutCase.h"

#include "tools/delta-check/GoldenCase.h"
#include "tools/reference/Moves.h"

#include <algorithm>

namespace delta::check {

using reference::count;

void RolloutCase::addParam(const Json &line) {
  const auto rank = line.at("rank").get<size_t>();
  const auto name = line.at("name").get<std::string>();
  RolloutParam param;
  if (line.contains("alias_of")) {
    param.aliasOf = line["alias_of"].get<std::string>();
  } else {
    param.shape = line.at("shape").get<std::vector<int64_t>>();
    param.stride = line.at("stride").get<std::vector<int64_t>>();
    param.offset = line.at("offset").get<int64_t>();
    param.mapped = line.at("mapped").get<int64_t>();
  }
  const Json ops = layout.value("value_ops", Json::object());
  param.valueOp = ops.value(name, "");
  params.resize(std::max(params.size(), rank + 1));
  params[rank][name] = std::move(param);
}

/// A quantized checkpoint has a number for each block of some tensors. Its name
/// is the tensor's with something added, its shape counts blocks.
void RolloutCase::findGrids() {
  for (auto &[name, tensor] : tensors) {
    std::vector<int64_t> blocks = tensor.shape;
    if (block.empty() || blocks.size() < block.size())
      continue;
    for (size_t i = 0; i < block.size(); ++i) {
      int64_t &size = blocks[blocks.size() - block.size() + i];
      size = (size + block[i] - 1) / block[i];
    }
    const std::string prefix = name + "_";
    for (auto it = tensors.lower_bound(prefix);
         it != tensors.end() && it->first.rfind(prefix, 0) == 0; ++it)
      if (it->second.shape == blocks) {
        tensor.grid = &it->second;
        tensor.suffix = it->first.substr(name.size());
      }
  }
}

bool RolloutCase::read(const std::string &directory, std::string &error) {
  const auto layoutFile = readJson(directory + "/layout.json", error);
  const auto config = readJson(directory + "/config.json", error);
  const auto tensorLines = readJson(directory + "/tensors.json", error);
  const auto paramLines = readJson(directory + "/params.json", error);
  if (!layoutFile || !config || !tensorLines || !paramLines)
    return false;
  int64_t numTags = 0, numElements = 0;
  try {
    layout = *layoutFile;
    for (const Json &line : *tensorLines) {
      const auto name = line.at("name").get<std::string>();
      tensors[name] = {line.at("shape").get<std::vector<int64_t>>(),
                       line.at("first_tag").get<int64_t>(), nullptr, ""};
      order.push_back(name);
      numTags = tensors[name].firstTag + count(tensors[name].shape);
    }
    if (config->contains("quantization_config"))
      block = config->at("quantization_config")
                  .at("weight_block_size")
                  .get<std::vector<int64_t>>();
    for (const Json &line : *paramLines)
      addParam(line);
    rollout();
  } catch (const Json::exception &exception) {
    error = directory + ": " + exception.what();
    return false;
  }
  std::sort(order.begin(), order.end(), [&](auto &a, auto &b) {
    return tensors[a].firstTag < tensors[b].firstTag;
  });
  findGrids();
  Json ops = layout.value("value_ops", Json::object());
  for (const auto &rank : params)
    for (const auto &[name, param] : rank) {
      ops.erase(name);
      if (param.stride.size() != param.shape.size()) {
        error = directory + "/params.json: \"" + name +
                "\" has another number of strides than of sizes";
        return false;
      }
      if (param.aliasOf.empty())
        numElements = std::max(numElements, param.offset + count(param.shape));
    }
  if (!ops.empty()) {
    error = directory + "/layout.json: value op of \"" + ops.begin().key() +
            "\", which no rank has";
    return false;
  }
  if (params.empty() || order.empty()) {
    error = directory + " lists no " + (order.empty() ? "tensor" : "parameter");
    return false;
  }
  if (!readTags(directory + "/params.tags", numElements, tags, error))
    return false;
  for (const int32_t tag : tags)
    if (tag != -1 && (tag < tensors[order[0]].firstTag || tag >= numTags)) {
      error = directory + "/params.tags: " + std::to_string(tag) + " is no tag";
      return false;
    }
  return true;
}

Json RolloutCase::rollout() const {
  Json out;
  out["engine"] = layout.at("engine");
  out["version"] = layout.at("engine_version");
  std::vector<std::string> keys = {
      "tp", "ep", "pp", "redundant_experts", "w13_order", "moe_pad"};
  // The number of ranks that share an expert follows from the others in vLLM.
  if (out["engine"] == "vllm")
    keys.insert(keys.end(), {"dp", "expert_placement"});
  else
    keys.insert(keys.end(), {"attention_dp", "moe_tp"});
  for (const std::string &key : keys)
    if (layout.contains(key))
      out[key] = layout[key];
  if (layout.value("fused_shared_experts", 0) != 0)
    out["fuse_shared_experts"] = true;
  return out;
}

Json RolloutCase::keys() const {
  std::vector<const RolloutTensor *> grids;
  for (const auto &[name, tensor] : tensors)
    grids.push_back(tensor.grid);
  std::vector<Key> keys;
  for (const auto &[name, tensor] : tensors)
    if (!std::count(grids.begin(), grids.end(), &tensor))
      keys.push_back({name, tensor.shape, "bf16"});
  return keyList(keys);
}

const RolloutTensor *RolloutCase::tensor(const std::string &name) const {
  const auto it = tensors.find(name);
  return it == tensors.end() ? nullptr : &it->second;
}

std::string RolloutCase::describe(int64_t tag) const {
  if (tag < 0)
    return "nothing";
  const auto next = std::upper_bound(order.begin(), order.end(), tag,
                                     [&](int64_t at, const auto &name) {
                                       return at < tensors.at(name).firstTag;
                                     });
  const std::string &name = *std::prev(next);
  const RolloutTensor &tensor = tensors.at(name);
  return "\"" + name + "\" " +
         reference::elementText(tensor.shape, tag - tensor.firstTag);
}

} // namespace delta::check
