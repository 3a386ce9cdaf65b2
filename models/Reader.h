//===- Reader.h - Reading a JSON object key by key --------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What the parts of the reader of model.json share. An error is thrown and
/// caught by readModel; it never leaves this folder.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_MODELS_READER_H
#define DELTA_MODELS_READER_H

#include "models/Json.h"
#include "models/ModelReader.h"

#include <filesystem>
#include <set>

namespace delta {

/// Carries one diagnostic out of nested readers.
struct ReadError {
  std::string text;
};

/// A JSON object being read key by key.
class Reader {
public:
  /// `name` is what messages call the whole document.
  Reader(const Document &document, std::string pointer,
         std::string name = "model")
      : document(document), pointer(std::move(pointer)), name(std::move(name)),
        node(document.root.at(nlohmann::json::json_pointer(this->pointer))) {
    if (!node.is_object())
      fail("", "is " + shown(node) + ", required an object");
  }

  /// Reports `text` about a key, or about the object itself.
  [[noreturn]] void fail(const std::string &key,
                         const std::string &text) const {
    std::string at = key.empty() ? pointer : pointer + "/" + escapeKey(key);
    std::string path = pointer.empty() ? "" : pointer.substr(1);
    for (char &c : path)
      c = c == '/' ? '.' : c;
    if (!key.empty())
      path += (path.empty() ? "" : ".") + key;
    throw ReadError{document.place(at) +
                    ": error: " + (path.empty() ? name : path) + " " + text};
  }

  bool has(const std::string &key) const { return node.contains(key); }
  const nlohmann::json &at(const std::string &key) const {
    return node.at(key);
  }
  bool isNullOrAbsent(const std::string &key) const {
    return !has(key) || at(key).is_null();
  }

  /// An integer of at least `least`.
  int64_t integer(const std::string &key, int64_t fallback, int64_t least,
                  int64_t most = 1 << 20) const {
    if (!has(key))
      return fallback;
    const nlohmann::json &value = at(key);
    if (!value.is_number_integer() || value.get<int64_t>() < least ||
        value.get<int64_t>() > most)
      fail(key, "is " + shown(value) + ", required an integer from " +
                    std::to_string(least) + " to " + std::to_string(most));
    return value.get<int64_t>();
  }

  bool boolean(const std::string &key, bool fallback) const {
    if (!has(key))
      return fallback;
    if (!at(key).is_boolean())
      fail(key, "is " + shown(at(key)) + ", required true or false");
    return at(key).get<bool>();
  }

  /// One of `choices`.
  std::string choice(const std::string &key, const std::string &fallback,
                     const std::vector<std::string> &choices) const {
    if (!has(key))
      return fallback;
    for (const std::string &choice : choices)
      if (at(key) == choice)
        return choice;
    std::string list;
    for (const std::string &choice : choices)
      list += (list.empty() ? "\"" : ", \"") + choice + "\"";
    fail(key, "is " + shown(at(key)) + ", required one of " + list);
  }

  /// A key of later work: only its default is taken.
  void notBuilt(const std::string &key, const nlohmann::json &fallback) const {
    if (has(key) && at(key) != fallback)
      fail(key,
           "is " + shown(at(key)) + ": not built yet, only " + fallback.dump());
  }

  void allow(const std::set<std::string> &keys) const {
    for (auto it = node.begin(); it != node.end(); ++it)
      if (!keys.count(it.key())) {
        std::string list;
        for (const std::string &key : keys)
          list += (list.empty() ? "" : ", ") + key;
        fail(it.key(), "is not a key; known keys are " + list);
      }
  }

  static std::string shown(const nlohmann::json &value) {
    std::string text = value.dump();
    return text.size() > 60 ? text.substr(0, 57) + "..." : text;
  }

private:
  const Document &document;
  std::string pointer, name;
  const nlohmann::json &node;
};

/// `pp_layout`: null, [layers a stage], [[layers a chunk] a stage] or a hybrid
/// pattern. Whether it fits the model is checked when the family is bound.
void readLayout(const Reader &reader, TrainerOptions &out);

/// The rollout of an inference engine. A path in it is relative to `folder`;
/// dtypes, heads and prediction layers follow the trainer.
EngineOptions readEngine(const Reader &reader, const std::string &engine,
                         const std::filesystem::path &folder,
                         const TrainerOptions &trainer);

} // namespace delta

#endif // DELTA_MODELS_READER_H
