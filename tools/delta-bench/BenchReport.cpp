//===- BenchReport.cpp - What is printed ----------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BenchReport.h"

#include "BenchError.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

using namespace delta::bench;

double delta::bench::medianOf(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  size_t half = seconds.size() / 2;
  return seconds.size() % 2 ? seconds[half]
                            : (seconds[half - 1] + seconds[half]) / 2;
}

BenchReport::BenchReport(const std::string &path) {
  if (path.empty())
    return;
  file = fopen(path.c_str(), "w");
  if (!file)
    throw BenchError(path + ": cannot be written: " + strerror(errno));
}

BenchReport::~BenchReport() {
  if (file)
    fclose(file);
}

void BenchReport::say(const std::string &line) {
  for (FILE *to : {stdout, file})
    if (to) {
      fprintf(to, "%s\n", line.c_str());
      fflush(to);
    }
}

template <typename... Arguments>
static std::string format(const char *text, Arguments... arguments) {
  char line[512];
  snprintf(line, sizeof(line), text, arguments...);
  return line;
}

void BenchReport::add(const Measured &line) {
  const double median = medianOf(line.seconds);
  const auto [least, most] =
      std::minmax_element(line.seconds.begin(), line.seconds.end());
  std::string text =
      format("%-26s %-8s %-7s %10.4f ms [%.4f - %.4f] n=%zu", line.what.c_str(),
             line.snapshot.c_str(),
             line.share < 0 ? "" : format("%g", line.share).c_str(),
             median * 1e3, *least * 1e3, *most * 1e3, line.seconds.size());
  if (line.numBytes && median > 0) {
    double rate = double(line.numBytes) / median;
    text += format(" %9.1f GB/s", rate * 1e-9);
    if (copyRate > 0)
      text += format(" %6.1f %% of copy", 100 * rate / copyRate);
  }
  if (line.linkBytes && linkRate > 0 && median > 0)
    text += format(" %6.1f %% of link",
                   100 * double(line.linkBytes) / median / linkRate);
  if (!line.note.empty())
    text += "  " + line.note;
  say(text);
}
