//===- Manifest.cpp - Against the tensors of a published checkpoint -------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads a manifest, one line `name shape dtype flag` with braces for numbers,
/// and compares it with the tensors of a plan to the neutral layout. What an
/// export copies must be told: a plan that copies more holds too little.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-check/CompiledMap.h"
#include "tools/reference/Moves.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace delta::check {
namespace {

/// The numbers of one brace: a list of a, a..b (inclusive), a..b..s.
bool parseNumbers(const std::string &text, std::vector<std::string> &out) {
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    long long bounds[3] = {0, 0, 1};
    int number = 0;
    const char *at = item.c_str();
    for (; number < 3; ++number) {
      char *end = nullptr;
      bounds[number] = std::strtoll(at, &end, 10);
      if (end == at)
        return false;
      at = end;
      if (*at == '\0')
        break;
      if (at[0] != '.' || at[1] != '.')
        return false;
      at += 2;
    }
    if (number == 3 || bounds[2] < 1)
      return false;
    const long long last = number == 0 ? bounds[0] : bounds[1];
    for (long long value = bounds[0]; value <= last; value += bounds[2])
      out.push_back(std::to_string(value));
  }
  return !out.empty();
}

/// All names of a line: the cross product of its braces.
bool expand(const std::string &name, std::vector<std::string> &out) {
  const size_t open = name.find('{');
  if (open == std::string::npos) {
    out.push_back(name);
    return true;
  }
  const size_t close = name.find('}', open);
  std::vector<std::string> numbers, tails;
  if (close == std::string::npos ||
      !parseNumbers(name.substr(open + 1, close - open - 1), numbers) ||
      !expand(name.substr(close + 1), tails))
    return false;
  for (const std::string &number : numbers)
    for (const std::string &tail : tails)
      out.push_back(std::string(name, 0, open).append(number).append(tail));
  return true;
}

/// "4096x11008"; an empty text is a scalar.
bool parseShape(const std::string &text, std::vector<int64_t> &out) {
  std::istringstream sizes(text);
  for (std::string size; std::getline(sizes, size, 'x');) {
    if (size.empty() || size.find_first_not_of("0123456789") != size.npos)
      return false;
    out.push_back(std::strtoll(size.c_str(), nullptr, 10));
  }
  return true;
}

bool readManifest(const std::string &path, std::vector<Key> &keys,
                  std::string &error) {
  const auto text = readFile(path, error);
  if (!text)
    return false;
  std::istringstream lines(*text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty())
      continue;
    std::istringstream columns(line);
    std::string name, shape, dtype;
    std::vector<std::string> names;
    Key key;
    if (!std::getline(columns, name, '\t') ||
        !std::getline(columns, shape, '\t') ||
        !std::getline(columns, dtype, '\t') || !expand(name, names) ||
        !parseShape(shape, key.shape)) {
      error = path + ":" + std::to_string(number) +
              ": is not `name shape dtype flag`, separated by tabs";
      return false;
    }
    key.dtype = dtype;
    for (std::string &expanded : names) {
      key.name = std::move(expanded);
      keys.push_back(key);
    }
  }
  if (keys.empty())
    error = path + " lists no tensor";
  return !keys.empty();
}

/// What the plan must send, and what it must leave to a copy.
struct Tensors {
  std::map<ParamKey, Described> produced, copied;
};

/// Deals the tensors of a manifest out: `copied` names those that no trainer
/// holds, with braces as the manifest has them.
bool deal(const std::vector<Key> &keys, const std::vector<std::string> &copied,
          Tensors &out, std::string &error) {
  for (const Key &key : keys)
    out.produced[{0, key.name}] = {key.shape, key.dtype, {}};
  for (const std::string &pattern : copied) {
    std::vector<std::string> names;
    if (!expand(pattern, names)) {
      error = "--copied " + pattern + ": is no name with {a..b} for numbers";
      return false;
    }
    for (const std::string &name : names) {
      auto tensor = out.produced.extract({0, name});
      if (!tensor) {
        error = "--copied " + pattern + ": the manifest has no " + name +
                ", or it is named twice";
        return false;
      }
      out.copied.insert(std::move(tensor));
    }
  }
  return true;
}

/// Compares both sides. An extra tensor of one is a missing one of the other,
/// unless the plan makes it twice.
void compare(reference::MapSource &map, const Tensors &expected,
             CheckReport &report) {
  auto match = [&](delta_side_id_t side, const std::string &where,
                   const std::map<ParamKey, Described> &tensors) {
    if (!map.numRanks(side)) {
      for (const auto &[key, tensor] : tensors)
        report.add({where, key.second, std::nullopt, "a tensor", "none"});
      return;
    }
    for (const auto &key : matchRank(map, side, 0, where, tensors, report))
      if (key) {
        ++report.tensors;
        report.elements += reference::count(tensors.at(*key).shape);
      }
  };
  match(DELTA_DESTINATION, "", expected.produced);
  match(DELTA_COPIED, "copied", expected.copied);
}

} // namespace

bool checkManifest(const std::string &manifest, const std::string &config,
                   const std::string &geometry, const std::string &family,
                   const std::vector<std::string> &copied, CheckReport &report,
                   std::string &error) {
  std::vector<Key> keys;
  Tensors expected;
  if (!readManifest(manifest, keys, error) ||
      !deal(keys, copied, expected, error))
    return false;
  Json model;
  model["config"] = std::filesystem::absolute(config);
  if (!geometry.empty()) {
    const auto file = readJson(geometry, error);
    if (!file)
      return false;
    if (file->is_object() && file->contains("trainer"))
      model["trainer"] = (*file)["trainer"];
  }
  model["rollout"] = {{"engine", "hf"}};
  const Json list = keyList(keys);
  CompiledMap compiled;
  if (!compiled.compile(model, &list, family, error))
    return false;
  compare(compiled.map(), expected, report);
  return true;
}

} // namespace delta::check
