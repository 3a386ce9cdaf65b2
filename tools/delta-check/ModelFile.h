//===- ModelFile.h - Write the model.json of a comparison -------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// JSON files that delta-check reads, and those that it hands to the compiler.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_CHECK_MODELFILE_H
#define DELTA_TOOLS_CHECK_MODELFILE_H

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace delta::check {

using Json = nlohmann::ordered_json;

/// Nothing, with `error` set, when the file is missing or is no JSON.
std::optional<Json> readJson(const std::string &path, std::string &error);

/// The whole file, or nothing with `error` set.
std::optional<std::string> readFile(const std::string &path,
                                    std::string &error);

/// The "trainer" keys of a geometry.json. Parameters of experts are grouped or
/// sequential as `names` (all local names) show. Throws nlohmann's exceptions
/// where keys are missing.
Json trainerOf(const Json &geometry, const std::vector<std::string> &names);

/// A tensor of a key list.
struct Key {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype;
};

/// The key list as delta-compile reads it.
Json keyList(const std::vector<Key> &keys);

} // namespace delta::check

#endif // DELTA_TOOLS_CHECK_MODELFILE_H
