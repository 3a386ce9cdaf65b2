//===- Traffic.cpp - Who sends how much to whom ---------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/Traffic.h"

#include "tools/report/Html.h"

#include "runtime/Expand.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace delta;
using namespace delta::report;

int64_t report::elementsOf(const delta_box_t &box, int64_t count) {
  int64_t run = box.extent[box.num_loops - 1], runs = 1;
  for (uint32_t i = 0; i + 1 < box.num_loops; ++i)
    runs *= box.extent[i];
  int64_t across = (run + box.tile_columns - 1) / box.tile_columns;
  int64_t whole = std::min(count / across * box.tile_runs, runs);
  int64_t next = std::min<int64_t>(box.tile_runs, runs - whole);
  return whole * run + next * std::min(count % across * box.tile_columns, run);
}

static void add(Flow &to, const Flow &flow) {
  to.elements += flow.elements;
  to.bytes += flow.bytes;
}

Traffic::Traffic(const delta_tables_t &tables) {
  runtime::Expander expander(tables);
  numSources = expander.getSource().getNumRanks();
  numDestinations = expander.getDestination().getNumRanks();
  flows.resize(size_t(numSources) * numDestinations);
  packed.resize(numSources);
  for (uint32_t source = 0; source < numSources; ++source) {
    runtime::Expansion expansion = expander.expand(source);
    // Sets are few and rows are many.
    std::vector<Flow> ofSet(expansion.sets.size());
    for (const runtime::Row &row : expansion.rows) {
      const delta_box_t &box = tables.boxes[row.box];
      Flow flow;
      flow.elements =
          elementsOf(box, row.tileEnd) - elementsOf(box, row.tileBegin);
      flow.bytes = flow.elements * runtime::elementSize(expander.sentType(box));
      add(ofSet[row.set], flow);
    }
    for (size_t set = 0; set < ofSet.size(); ++set) {
      add(packed[source], ofSet[set]);
      for (uint32_t destination : expansion.sets[set])
        add(flows[size_t(source) * numDestinations + destination], ofSet[set]);
    }
  }
}

std::vector<Flow> Traffic::bySource() const {
  std::vector<Flow> sums(numSources);
  for (uint32_t source = 0; source < numSources; ++source)
    for (uint32_t i = 0; i < numDestinations; ++i)
      add(sums[source], at(source, i));
  return sums;
}

std::vector<Flow> Traffic::byDestination() const {
  std::vector<Flow> sums(numDestinations);
  for (uint32_t source = 0; source < numSources; ++source)
    for (uint32_t i = 0; i < numDestinations; ++i)
      add(sums[i], at(source, i));
  return sums;
}

int64_t report::wireBytes(const Flow &flow, double density) {
  return std::llround(density * double(flow.bytes + 2 * flow.elements));
}

Imbalance report::imbalanceOf(const std::vector<Flow> &flows) {
  double sum = 0, least = INFINITY, most = 0;
  for (const Flow &flow : flows) {
    auto bytes = double(wireBytes(flow, 1));
    sum += bytes;
    least = std::min(least, bytes);
    most = std::max(most, bytes);
  }
  double mean = sum / double(flows.size());
  if (mean == 0)
    return {};
  return {100 * (most - mean) / mean, 100 * (mean - least) / mean};
}

std::string report::trafficText(const Traffic &traffic,
                                const std::string &prefix) {
  std::string out;
  for (uint32_t source = 0; source < traffic.getNumSources(); ++source) {
    // Receivers of equal shares are told together, the largest first.
    std::map<int64_t, std::vector<uint32_t>, std::greater<>> shares;
    for (uint32_t i = 0; i < traffic.getNumDestinations(); ++i)
      if (int64_t elements = traffic.at(source, i).elements)
        shares[elements].push_back(i);
    out += prefix + "rank " + std::to_string(source) + " sends ";
    if (shares.empty())
      out += "nothing";
    for (const auto &[elements, receivers] : shares)
      out += (elements == shares.begin()->first ? "" : "; ") +
             std::to_string(elements) + " elements to " +
             (receivers.size() > 1 ? "each of " : "") +
             rangesText(receivers, "-");
    out += "\n";
  }
  auto total = [&](const char *what, const std::vector<Flow> &flows) {
    int64_t elements = 0;
    for (const Flow &flow : flows)
      elements += flow.elements;
    Imbalance off = imbalanceOf(flows);
    char text[160];
    snprintf(text, sizeof(text),
             "%s %lld elements on average, at most %.1f %% more and %.1f %% "
             "less\n",
             what, static_cast<long long>(elements / int64_t(flows.size())),
             off.above, off.below);
    out += prefix + text;
  };
  total("a rank owns", traffic.owned());
  total("a rank sends", traffic.bySource());
  total("a receiver gets", traffic.byDestination());
  return out;
}
