//===- Json.cpp - JSON with places ----------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/Json.h"

#include <iterator>
#include <map>

using namespace delta;
using nlohmann::json;

std::string Document::place(const std::string &pointer) const {
  std::string at = pointer;
  while (true) {
    auto it = places.find(at);
    if (it != places.end())
      return path + ":" + std::to_string(it->second.first) + ":" +
             std::to_string(it->second.second);
    if (at.empty())
      return path;
    at.resize(at.rfind('/'));
  }
}

std::string delta::escapeKey(const std::string &key) {
  std::string out;
  for (char c : key)
    out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

/// Deeper documents are refused: what reads them later recurses.
static constexpr size_t maxDepth = 200;

namespace {

/// Places of Python's non-finite numbers in the text, and their spelling.
using Replaced = std::map<size_t, std::string>;

/// Input iterator that shares how far the parser has read.
class Counted {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  Counted(const char *at, size_t *count) : at(at), count(count) {}
  reference operator*() const { return *at; }
  Counted &operator++() {
    ++at;
    if (count)
      ++*count;
    return *this;
  }
  Counted operator++(int) {
    Counted old = *this;
    ++*this;
    return old;
  }
  bool operator==(const Counted &other) const { return at == other.at; }
  bool operator!=(const Counted &other) const { return at != other.at; }

private:
  const char *at;
  size_t *count;
};

/// Builds the document from parse events.
class Builder : public nlohmann::json_sax<json> {
public:
  Builder(const std::string &text, const size_t &count, Document &document,
          const std::string &lenient, const Replaced &replaced)
      : text(text), count(count), document(document), lenient(lenient),
        replaced(replaced) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(number_integer_t v) override { return value(v); }
  bool number_unsigned(number_unsigned_t v) override {
    if (v > number_unsigned_t(INT64_MAX) && isLenient())
      return value(double(v));
    if (v > number_unsigned_t(INT64_MAX))
      return fail(count, "number " + std::to_string(v) +
                             " does not fit 64 bits with a sign");
    return value(int64_t(v));
  }
  bool number_float(number_float_t v, const string_t &token) override {
    // The place of a number is where its token began.
    size_t start = count > token.size() ? count - token.size() - 1 : 0;
    auto it = replaced.lower_bound(start);
    if (it == replaced.end() || it->first > start + 1)
      return value(v);
    // A text, which messages can show and no size can be.
    if (isLenient())
      return value(it->second);
    return fail(it->first + 1,
                it->second + " is accepted inside a config only");
  }
  bool string(string_t &v) override { return value(v); }
  bool binary(binary_t &) override { return fail(count, "binary value"); }

  bool start_object(size_t) override { return value(json::object()) && push(); }
  bool key(string_t &name) override {
    pendingKey = name;
    if (stack.back()->contains(name) && !isLenient())
      return fail(count, "key \"" + name + "\" stands twice in one object");
    note(pointers.back() + "/" + escapeKey(name));
    return true;
  }
  bool end_object() override { return pop(); }
  bool start_array(size_t) override { return value(json::array()) && push(); }
  bool end_array() override { return pop(); }

  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &e) override {
    // Keep the reason of the library's text, which starts after the place.
    std::string reason = e.what();
    if (reason.rfind("[json.exception.", 0) == 0)
      reason = reason.substr(reason.find("] ") + 2);
    if (reason.rfind("parse error at ", 0) == 0)
      reason = reason.substr(reason.find(": ") + 2);
    return fail(position, reason);
  }

  std::string error;

private:
  bool isLenient() const {
    return (pointers.back() + "/").rfind(lenient + "/", 0) == 0;
  }

  std::pair<unsigned, unsigned> lineColumn(size_t position) const {
    unsigned line = 1, column = 1;
    for (size_t i = 0; i + 1 < position && i < text.size(); ++i) {
      ++column;
      if (text[i] == '\n') {
        ++line;
        column = 1;
      }
    }
    return {line, column};
  }

  bool fail(size_t position, const std::string &reason) {
    auto [line, column] = lineColumn(position);
    error = document.path + ":" + std::to_string(line) + ":" +
            std::to_string(column) + ": error: " + reason;
    return false;
  }

  /// The line table grows as the parser goes forward.
  void note(const std::string &pointer) {
    while (noted + 1 < count && noted < text.size()) {
      ++noteColumn;
      if (text[noted++] == '\n') {
        ++noteLine;
        noteColumn = 1;
      }
    }
    document.places[pointer] = {noteLine, noteColumn};
  }

  bool value(json v) {
    if (stack.empty()) {
      document.root = std::move(v);
      note("");
      last = &document.root;
      lastPointer.clear();
    } else if (stack.back()->is_object()) {
      json &slot = (*stack.back())[pendingKey];
      slot = std::move(v);
      last = &slot;
      lastPointer = pointers.back() + "/" + escapeKey(pendingKey);
    } else {
      lastPointer =
          pointers.back() + "/" + std::to_string(stack.back()->size());
      stack.back()->push_back(std::move(v));
      last = &stack.back()->back();
      note(lastPointer);
    }
    return true;
  }
  bool push() {
    if (stack.size() >= maxDepth)
      return fail(count,
                  "nested deeper than " + std::to_string(maxDepth) + " levels");
    stack.push_back(last);
    pointers.push_back(lastPointer);
    return true;
  }
  bool pop() {
    stack.pop_back();
    pointers.pop_back();
    return true;
  }

  const std::string &text;
  const size_t &count;
  Document &document;
  const std::string &lenient;
  const Replaced &replaced;
  std::vector<json *> stack;
  std::vector<std::string> pointers = {""};
  json *last = nullptr;
  std::string lastPointer, pendingKey;
  size_t noted = 0;
  unsigned noteLine = 1, noteColumn = 1;
};

} // namespace

/// Puts a number that JSON has in place of Python's non-finite ones, of the
/// same length so that places stay right.
static std::string replaceNonFinite(const std::string &text,
                                    Replaced &replaced) {
  std::string out = text;
  bool inString = false;
  for (size_t i = 0; i < out.size(); ++i) {
    if (inString) {
      if (out[i] == '\\')
        ++i;
      else if (out[i] == '"')
        inString = false;
      continue;
    }
    if (out[i] == '"') {
      inString = true;
      continue;
    }
    // Not the end of another token.
    bool isStart =
        i == 0 || (!isalnum(static_cast<unsigned char>(out[i - 1])) &&
                   out[i - 1] != '-' && out[i - 1] != '.');
    for (const std::string word : {"NaN", "-Infinity", "Infinity"}) {
      size_t length = word.size();
      if (!isStart)
        break;
      if (out.compare(i, length, word) != 0)
        continue;
      out.replace(i, length, "0.5" + std::string(length - 3, ' '));
      replaced[i] = word;
      i += length - 1;
      break;
    }
  }
  return out;
}

std::optional<Document> delta::parseJson(const std::string &path,
                                         const std::string &text,
                                         const std::string &lenient,
                                         std::string &error) {
  Document document;
  document.path = path;
  Replaced replaced;
  std::string finite = replaceNonFinite(text, replaced);
  size_t count = 0;
  Builder builder(finite, count, document, lenient, replaced);
  Counted begin(finite.data(), &count);
  Counted end(finite.data() + finite.size(), nullptr);
  if (json::sax_parse(begin, end, &builder))
    return document;
  error = builder.error;
  return std::nullopt;
}
