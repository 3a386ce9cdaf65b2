//===- NameTemplate.cpp - Names with holes --------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/NameTemplate.h"

#include <algorithm>
#include <cstdlib>
#include <set>

using namespace delta;

std::string delta::fillName(const std::string &name, int64_t layer,
                            int64_t expert) {
  std::string out;
  for (size_t at = 0; at < name.size();) {
    size_t end = name[at] == '{' ? name.find('}', at) : std::string::npos;
    if (end == std::string::npos) {
      out += name[at++];
      continue;
    }
    std::string hole = name.substr(at + 1, end - at - 1);
    size_t sign = hole.find_first_of("+-");
    int64_t value = hole.substr(0, sign) == "layer" ? layer : expert;
    if (sign != std::string::npos)
      value += std::strtoll(hole.c_str() + sign, nullptr, 10);
    out += std::to_string(value);
    at = end + 1;
  }
  return out;
}

/// The place behind the hole at `i`; an open one reaches to the end.
static size_t behindHole(const std::string &name, size_t i) {
  size_t end = name.find('}', i);
  return end == std::string::npos ? name.size() : end + 1;
}

namespace {
/// A template as a pattern: a hole is a digit and then any number of them.
struct Token {
  enum Kind { Char, Digit, Digits } kind;
  char c;

  bool fits(const Token &other) const {
    if (kind == Char && other.kind == Char)
      return c == other.c;
    return (kind != Char || isdigit(c)) &&
           (other.kind != Char || isdigit(other.c));
  }
};

std::vector<Token> tokensOf(const std::string &name) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < name.size();) {
    if (name[at] != '{') {
      tokens.push_back({Token::Char, name[at++]});
      continue;
    }
    tokens.push_back({Token::Digit, 0});
    tokens.push_back({Token::Digits, 0});
    at = behindHole(name, at);
  }
  return tokens;
}
} // namespace

/// True if two templates could give one name, a hole standing for digits.
static bool couldAgree(const std::string &first, const std::string &second) {
  std::vector<Token> a = tokensOf(first), b = tokensOf(second);
  // Pairs of places that one text can lead to; a text moves both forward.
  std::set<std::pair<size_t, size_t>> seen;
  std::vector<std::pair<size_t, size_t>> open = {{0, 0}};
  while (!open.empty()) {
    auto [i, j] = open.back();
    open.pop_back();
    if (i == a.size() && j == b.size())
      return true;
    if (!seen.insert({i, j}).second)
      continue;
    bool moreA = i < a.size() && a[i].kind == Token::Digits;
    bool moreB = j < b.size() && b[j].kind == Token::Digits;
    if (moreA)
      open.push_back({i + 1, j});
    if (moreB)
      open.push_back({i, j + 1});
    if (i < a.size() && j < b.size() && a[i].fits(b[j]))
      open.push_back({i + !moreA, j + !moreB});
  }
  return false;
}

static std::vector<std::string> fillAll(const NamedInstances &entry) {
  std::vector<std::string> names;
  std::vector<int64_t> layers = entry.layers;
  if (layers.empty())
    layers.push_back(0);
  for (int64_t layer : layers)
    for (int64_t expert = 0; expert < std::max<int64_t>(entry.numExperts, 1);
         ++expert)
      names.push_back(fillName(entry.name, layer, expert));
  return names;
}

/// False, with the name, if two instances of one template have one name.
static bool fillsOnce(const NamedInstances &entry, std::string &twice) {
  std::set<std::string> seen;
  for (const std::string &name : fillAll(entry))
    if (!seen.insert(name).second) {
      twice = name;
      return false;
    }
  return true;
}

/// True if only digits stand between two holes: then two instances of the
/// template itself can have one name, such as 1, 11 and 11, 1.
static bool holesMeet(const std::string &name) {
  size_t at = name.find('{');
  while (at != std::string::npos) {
    size_t next = behindHole(name, at);
    while (next < name.size() && isdigit(name[next]))
      ++next;
    if (next < name.size() && name[next] == '{')
      return true;
    at = name.find('{', next);
  }
  return false;
}

std::optional<Clash> delta::findClash(const std::vector<NamedInstances> &list) {
  for (size_t i = 0; i < list.size(); ++i) {
    std::string twice;
    if (holesMeet(list[i].name) && !fillsOnce(list[i], twice))
      return Clash{i, i, twice};
    for (size_t j = i + 1; j < list.size(); ++j) {
      const NamedInstances &a = list[i], &b = list[j];
      if (a.owner == b.owner || !couldAgree(a.name, b.name))
        continue;
      if (a.layers.empty() && b.layers.empty() && a.stage != b.stage &&
          !a.stage.empty() && !b.stage.empty())
        continue;
      // Local numbers restart in a stack: any two of them can meet.
      if (a.stack != b.stack)
        return Clash{i, j, a.name};
      if (a.name == b.name && !holesMeet(a.name)) {
        // One template: it clashes where the instances meet.
        std::vector<int64_t> both;
        std::set_intersection(a.layers.begin(), a.layers.end(),
                              b.layers.begin(), b.layers.end(),
                              std::back_inserter(both));
        if (both.empty() && !(a.layers.empty() && b.layers.empty()))
          continue;
        return Clash{i, j, fillName(a.name, both.empty() ? 0 : both[0], 0)};
      }
      std::vector<std::string> filled = fillAll(a);
      std::set<std::string> names(filled.begin(), filled.end());
      for (const std::string &name : fillAll(b))
        if (names.count(name))
          return Clash{i, j, name};
    }
  }
  return std::nullopt;
}
