//===- Json.h - JSON with places --------------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_MODELS_JSON_H
#define DELTA_MODELS_JSON_H

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace delta {

/// A JSON document that knows where its values stand.
struct Document {
  std::string path; ///< as the user gave it
  nlohmann::json root;
  /// Line and column, from 1, of the end of each key or value, by JSON
  /// pointer.
  std::map<std::string, std::pair<unsigned, unsigned>> places;

  /// `path:line:column`, of the nearest value around the pointer.
  std::string place(const std::string &pointer) const;
};

/// A key as a part of a JSON pointer.
std::string escapeKey(const std::string &key);

/// Parses `text`. Inside the value at the pointer `lenient`, and only there,
/// Python's `NaN` and infinities are read, as the text that they are, and a key
/// may come twice; the pointer "" is the whole document. On failure returns
/// nothing and sets `error` to `path:line:column: error: ...`.
std::optional<Document> parseJson(const std::string &path,
                                  const std::string &text,
                                  const std::string &lenient,
                                  std::string &error);

} // namespace delta

#endif // DELTA_MODELS_JSON_H
