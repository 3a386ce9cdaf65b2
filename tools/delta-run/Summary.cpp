//===- Summary.cpp - What delta-run reports -------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Numbers for people and for scripts.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/Summary.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

namespace delta::run {

/// 1234567 as "1,234,567".
static std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (auto at = int64_t(text.size()) - 3; at > 0; at -= 3)
    text.insert(size_t(at), ",");
  return text;
}

static void row(const char *label, const std::string &value) {
  std::printf("  %-28s %20s\n", label, value.c_str());
}

static std::string fixed(double value, int digits, const char *unit) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f%s", digits, value, unit);
  return text;
}

static double peakGigabytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_maxrss) * 1024 / 1e9;
}

using Stage = std::pair<const char *, double Seconds::*>;
static constexpr Stage stages[] = {
    {"compile", &Seconds::compile}, {"seed", &Seconds::seed},
    {"update", &Seconds::update},   {"diff", &Seconds::diff},
    {"pack", &Seconds::pack},       {"exchange", &Seconds::exchange},
    {"stage", &Seconds::stage},     {"commit", &Seconds::commit},
    {"advance", &Seconds::advance}, {"verify", &Seconds::verify}};

void printTable(const Summary &summary) {
  std::printf("%s\n", summary.model.c_str());
  row("trainer ranks", grouped(summary.numSources));
  row("receivers", grouped(summary.numReceivers));
  row("elements", grouped(uint64_t(summary.elements)));
  row("steps", grouped(uint64_t(summary.steps)));
  row("changed elements delivered", grouped(uint64_t(summary.changed)));
  row("bytes of all deltas", grouped(summary.wireBytes));
  row("bytes a changed element",
      summary.changed
          ? fixed(double(summary.wireBytes) / double(summary.changed), 3, "")
          : "-");
  row("bytes of the seed", grouped(summary.seedBytes));
  row("launches a sync, at most", grouped(summary.launchesPerSync));
  row("rounds a sync, at most", grouped(summary.rounds));
  row((summary.verify == "fingerprint" ? "fingerprints compared"
       : summary.verify == "replay"    ? "receivers replayed"
                                       : "elements verified"),
      grouped(uint64_t(summary.verified)));
  row("replicated rows compared", grouped(summary.replicatedRows));
  row("mismatches", grouped(uint64_t(summary.mismatches)));
  row("peak memory", fixed(peakGigabytes(), 2, " GB"));
  for (const auto &[name, member] : stages)
    row((std::string("time: ") + name).c_str(),
        fixed(summary.seconds.*member, 3, " s"));
}

bool writeSummary(const std::string &path, const Summary &summary,
                  std::string &error) {
  nlohmann::ordered_json json;
  json["steps"] = summary.steps;
  json["elements"] = summary.elements;
  json["changed"] = summary.changed;
  json["wire_bytes"] = summary.wireBytes;
  json["seed_bytes"] = summary.seedBytes;
  json["mismatches"] = summary.mismatches;
  json["launches_per_sync"] = summary.launchesPerSync;
  json["rounds"] = summary.rounds;
  for (const auto &[name, member] : stages)
    json["seconds"][name] = summary.seconds.*member;
  std::ofstream file(path, std::ios::binary);
  file << json.dump(1) << "\n";
  file.close();
  if (!file)
    error = "cannot write " + path;
  return bool(file);
}

Progress::Progress(int64_t total)
    : onTerminal(isatty(STDERR_FILENO) != 0),
      total(std::max<int64_t>(total, 1)) {}

void Progress::show(const std::string &what, int64_t done) {
  position += done;
  if (!onTerminal)
    return;
  constexpr int64_t kWidth = 32;
  const auto filled = size_t(std::min(position * kWidth / total, kWidth));
  std::fprintf(stderr, "\r[%s%s] %-36s", std::string(filled, '#').c_str(),
               std::string(size_t(kWidth) - filled, '.').c_str(), what.c_str());
  std::fflush(stderr);
}

void Progress::clear() {
  if (onTerminal)
    std::fprintf(stderr, "\r%*s\r", 72, "");
}

} // namespace delta::run
