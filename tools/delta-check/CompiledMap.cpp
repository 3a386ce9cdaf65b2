//===- CompiledMap.cpp - A plan made for a comparison ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The compiler as a child process, and the comparison of parameters.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-check/CompiledMap.h"

#include "tools/reference/Moves.h"

#include <fstream>

namespace delta::check {

using reference::shapeOf;

static bool writeJson(const std::string &path, const Json &json,
                      std::string &error) {
  std::ofstream file(path, std::ios::binary);
  file << json.dump(1) << "\n";
  file.close();
  if (file)
    return true;
  error = "cannot write " + path;
  return false;
}

bool CompiledMap::compile(const Json &model, const Json *keys,
                          const std::string &family, std::string &error) {
  if (directory.path().empty()) {
    error = "cannot make a temporary directory";
    return false;
  }
  const std::string folder = directory.path();
  std::vector<std::string> arguments = {
      folder + "/model.json", "-o", folder + "/plan.so", "--target", "host"};
  if (!writeJson(folder + "/model.json", model, error))
    return false;
  if (keys) {
    if (!writeJson(folder + "/keys.json", *keys, error))
      return false;
    arguments.insert(arguments.end(), {"--keys", folder + "/keys.json"});
  }
  if (!family.empty())
    arguments.insert(arguments.end(), {"--family", family});
  const int code = reference::runCompiler(arguments, /*quiet=*/false, error);
  if (code != 0) {
    if (error.empty())
      error =
          "the compiler refused the model, exit code " + std::to_string(code);
    return false;
  }
  plan = reference::PlanFile::open(folder + "/plan.so", error);
  if (plan)
    source = reference::mapOfPlan(plan->api(), error);
  return source != nullptr;
}

/// The key under which a parameter is expected, or the end.
static std::map<ParamKey, Described>::const_iterator
findExpected(const std::map<ParamKey, Described> &expected, int64_t chunk,
             const std::vector<std::string> &names) {
  for (const std::string &name : names)
    if (const auto found = expected.find({chunk, name});
        found != expected.end())
      return found;
  return expected.end();
}

std::vector<std::optional<ParamKey>>
matchRank(reference::MapSource &map, delta_side_id_t side, uint32_t rank,
          const std::string &where,
          const std::map<ParamKey, Described> &expected, CheckReport &report) {
  std::vector<std::optional<ParamKey>> keys(map.numParams(side, rank));
  std::map<ParamKey, bool> seen;
  for (uint32_t p = 0; p < keys.size(); ++p) {
    delta_param_info_t info = {};
    if (!map.param(side, rank, p, info)) {
      report.add({where, "", std::nullopt, "parameter " + std::to_string(p),
                  "an error of the plan"});
      continue;
    }
    const std::vector<std::string> names = reference::namesOf(info);
    const auto found = findExpected(expected, info.chunk, names);
    if (found == expected.end()) {
      report.add({where, names.front(), std::nullopt, "no such tensor",
                  "one in chunk " + std::to_string(info.chunk)});
      continue;
    }
    const auto &[key, wanted] = *found;
    if (seen[key])
      report.add({where, key.second, std::nullopt, "one", "another one"});
    else if (shapeOf(info) != wanted.shape &&
             (wanted.otherShape.empty() || shapeOf(info) != wanted.otherShape))
      report.add({where, key.second, std::nullopt,
                  "shape " + reference::toText(wanted.shape),
                  "shape " + reference::toText(shapeOf(info))});
    else if (reference::dtypeName(info.dtype) != wanted.dtype)
      report.add({where, key.second, std::nullopt, "dtype " + wanted.dtype,
                  "dtype " + reference::dtypeName(info.dtype)});
    else
      keys[p] = key;
    seen[key] = true;
  }
  for (const auto &[key, wanted] : expected)
    if (!seen[key])
      report.add({where, key.second, std::nullopt,
                  "a tensor in chunk " + std::to_string(key.first), "none"});
  return keys;
}

} // namespace delta::check
