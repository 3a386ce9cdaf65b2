//===- Html.cpp - Text of the page ----------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/Html.h"

#include <cstdio>

using namespace delta;

std::string report::escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    default:
      out += c;
    }
  }
  return out;
}

std::string report::grouped(int64_t number) {
  std::string text = std::to_string(number);
  size_t first = number < 0;
  for (size_t i = text.size(); i > first + 3;)
    text.insert(i -= 3, ",");
  return text;
}

std::string report::counted(int64_t number, std::string_view noun) {
  std::string text = grouped(number) + " " + std::string(noun);
  if (number == 1)
    return text;
  bool hisses = noun.back() == 's' || noun.back() == 'x';
  return text + (hisses ? "es" : "s");
}

std::string report::bytesText(int64_t bytes) {
  const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = double(bytes);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(units); ++unit)
    value /= 1000;
  char text[32];
  snprintf(text, sizeof(text), "%.*f %s",
           unit == 0 || value >= 99.95 ? 0
           : value >= 9.995            ? 1
                                       : 2,
           value, units[unit]);
  return text;
}

std::string report::rangesText(const std::vector<uint32_t> &numbers,
                               std::string_view dash) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    text += (i ? ", " : "") + std::to_string(numbers[i]);
    if (end > i + 1)
      text += std::string(dash) + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string report::codeText(std::string_view name) {
  std::string out = "<code>";
  for (char c : name) {
    out += escape(std::string_view(&c, 1));
    if (c == '.' || c == '_')
      out += "<wbr>";
  }
  return out + "</code>";
}

std::string report::tableRow(const std::vector<std::string> &cells,
                             std::string_view tag,
                             std::string_view attributes) {
  std::string out = "<tr" + std::string(attributes) + ">";
  for (const std::string &cell : cells)
    out += "<" + std::string(tag) + ">" + cell + "</" + std::string(tag) + ">";
  return out + "</tr>\n";
}
