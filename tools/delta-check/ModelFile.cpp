//===- ModelFile.cpp - Write the model.json of a comparison ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The geometry of the data in the words of model.json.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-check/ModelFile.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace delta::check {

std::optional<std::string> readFile(const std::string &path,
                                    std::string &error) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    error = "cannot read " + path;
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::optional<Json> readJson(const std::string &path, std::string &error) {
  const std::optional<std::string> text = readFile(path, error);
  if (!text)
    return std::nullopt;
  try {
    return Json::parse(*text);
  } catch (const Json::exception &exception) {
    error = path + ": " + exception.what();
    return std::nullopt;
  }
}

/// Grouped experts count in the last part of a name ("weight3"); sequential
/// ones are a part of their own, after the layer's.
static bool isSequential(const std::vector<std::string> &names) {
  bool sequential = false;
  for (const std::string &name : names) {
    if (!name.empty() && name.back() >= '0' && name.back() <= '9')
      return false;
    int numbers = 0;
    for (size_t at = 0; at < name.size();) {
      const size_t end = std::min(name.find('.', at), name.size());
      const std::string part = name.substr(at, end - at);
      numbers += part.find_first_not_of("0123456789") == part.npos;
      at = end + 1;
    }
    sequential |= numbers > 1;
  }
  return sequential;
}

Json trainerOf(const Json &geometry, const std::vector<std::string> &names) {
  const Json &vpp = geometry.at("vpp");
  Json trainer;
  for (const char *key : {"tp", "ep", "etp", "pp", "cp", "dp"})
    trainer[key] = geometry.at(key);
  trainer["vpp"] = vpp.is_null() ? Json(1) : vpp;
  trainer["mtp_layers"] = geometry.at("mtp_layers");
  const bool padded = geometry.value("pad_vocab", true);
  trainer["vocab_multiple"] =
      padded ? geometry.at("make_vocab_size_divisible_by") : Json(0);
  trainer["experts"] = isSequential(names) ? "sequential" : "grouped";
  if (geometry.at("pp") != 1 || trainer["vpp"] != 1)
    trainer["pp_layout"] = geometry.at("stage_layers");
  return trainer;
}

Json keyList(const std::vector<Key> &keys) {
  Json list = Json::object();
  for (const Key &key : keys)
    list[key.name] = {{"shape", key.shape}, {"dtype", key.dtype}};
  return list;
}

} // namespace delta::check
