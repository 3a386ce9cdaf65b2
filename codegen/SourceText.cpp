//===- SourceText.cpp - Text that looks written by hand -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Line breaking and literals.
///
//===----------------------------------------------------------------------===//

#include "codegen/SourceText.h"

#include <cstdio>

using namespace delta;

static constexpr size_t numColumns = 80;

void SourceText::line(std::string_view content) {
  text += content;
  text += '\n';
}

/// Names and formulas come from files of the user: control characters would
/// break a line, and so would a backslash at its end.
static std::string commentWord(std::string_view word) {
  std::string clean;
  for (char c : word)
    clean += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (!clean.empty() && clean.back() == '\\')
    clean += '.';
  return clean;
}

void SourceText::comment(std::string_view content, unsigned indent) {
  std::string prefix = std::string(indent, ' ') + "//";
  std::string current = prefix;
  size_t begin = 0;
  while (begin < content.size()) {
    size_t end = content.find(' ', begin);
    end = end == std::string_view::npos ? content.size() : end;
    std::string word = commentWord(content.substr(begin, end - begin));
    begin = end + 1;
    if (word.empty())
      continue;
    if (current.size() > prefix.size() &&
        current.size() + 1 + word.size() > numColumns) {
      line(current);
      current = prefix;
    }
    current += ' ' + word;
  }
  line(current);
}

void SourceText::flow(const std::vector<std::string> &items, unsigned indent,
                      unsigned hanging) {
  std::string current(indent, ' ');
  bool isFirst = true;
  for (const std::string &item : items) {
    // Room for a blank before the item and a comma after it.
    if (!isFirst && current.size() + item.size() + 2 > numColumns) {
      line(current);
      current.assign(hanging, ' ');
      isFirst = true;
    }
    current += (isFirst ? "" : " ") + item + ',';
    isFirst = false;
  }
  if (!isFirst)
    line(current);
}

void SourceText::fill(const std::vector<std::string> &items) {
  flow(items, 4, 4);
}

void SourceText::row(const std::vector<std::string> &fields) {
  std::vector<std::string> items = fields;
  items.front().insert(0, "{");
  items.back() += '}';
  flow(items, 4, 5);
}

void SourceText::banner(std::string_view title,
                        const std::vector<std::string> &lines) {
  std::string first = "//===- " + std::string(title) + " ";
  while (first.size() < numColumns - 5)
    first += '-';
  line(first + "===//");
  line("//");
  for (const std::string &content : lines)
    comment(content);
  line("//");
  line("//===" + std::string(numColumns - 10, '-') + "===//");
  line();
}

std::string delta::braced(const std::vector<std::string> &items) {
  std::string result = "{";
  for (const std::string &item : items)
    result += (result.size() > 1 ? ", " : "") + item;
  return result + "}";
}

std::string delta::bracedWithoutTail(const int64_t *values, unsigned count) {
  while (count > 0 && values[count - 1] == 0)
    --count;
  std::vector<std::string> items;
  for (unsigned i = 0; i < count; ++i)
    items.push_back(std::to_string(values[i]));
  return braced(items);
}

std::string delta::stringLiteral(std::string_view value) {
  std::string literal = "\"";
  for (char c : value) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      literal += '\\';
      literal += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\%03o", byte);
      literal += escape;
    } else {
      literal += c;
    }
  }
  return literal + "\"";
}

std::string delta::hexLiteral(uint64_t value) {
  char digits[24];
  std::snprintf(digits, sizeof(digits), "0x%016llx",
                static_cast<unsigned long long>(value));
  return digits;
}
