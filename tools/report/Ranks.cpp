//===- Ranks.cpp - Bytes of every rank ------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/Html.h"
#include "tools/report/Sections.h"
#include "tools/report/Traffic.h"

#include <algorithm>

using namespace delta;
using namespace delta::report;
using runtime::Coordinates;

namespace {

struct RankBytes {
  int64_t held = 0;
  int64_t sent = 0; ///< by a full sync, to each set of receivers once
};

} // namespace

static int64_t heldBytes(const runtime::Side &side,
                         const std::vector<runtime::Param> &params) {
  int64_t bytes = 0;
  for (const runtime::Param &param : params) {
    const delta_class_t &type = side.getClass(param.classIndex);
    bytes += runtime::numElements(type) * runtime::elementSize(type.dtype);
  }
  return bytes;
}

static std::vector<RankBytes> sourceBytes(const View &view,
                                          const Traffic &traffic) {
  std::vector<RankBytes> out;
  for (uint32_t rank = 0; rank < view.source.getNumRanks(); ++rank)
    out.push_back({heldBytes(view.source, view.source.params(rank)),
                   traffic.owned()[rank].bytes});
  return out;
}

std::string report::rankName(const runtime::Side &side, uint32_t rank) {
  if (side.isNeutral())
    return "receiver " + std::to_string(rank);
  Coordinates at = side.coordinates(rank);
  const delta_side_t &table = side.getTable();
  std::string text = "rank " + std::to_string(rank);
  auto add = [&](const char *axis, uint32_t size, uint32_t value) {
    if (size > 1)
      text += std::string(", ") + axis + " " + std::to_string(value);
  };
  add("replica", side.getNumReplicas(), at.replica);
  add("pp", table.pp, at.pp);
  add("dp", table.dp, at.dp);
  add("cp", table.cp, at.cp);
  add("tp", table.tp, at.tp);
  add("ep", table.ep, at.ep);
  add("etp", table.etp, at.etp);
  return text;
}

/// One bar a rank: what it holds, and in front of it what it sends.
static std::string chart(const runtime::Side &side,
                         const std::vector<RankBytes> &ranks, bool sends) {
  constexpr double width = 900, height = 130, left = 64, top = 12;
  int64_t most = 1;
  for (const RankBytes &bytes : ranks)
    most = std::max(most, bytes.held);
  double step = width / double(ranks.size());
  double bar = std::min(step * (step > 6 ? 0.8 : 1.0), 48.0);
  auto number = [](double value) {
    char text[32];
    snprintf(text, sizeof(text), "%.1f", value);
    return std::string(text);
  };
  auto rectangle = [&](const char *style, double x, int64_t bytes) {
    double size = height * double(bytes) / double(most);
    return "<rect class=\"" + std::string(style) + "\" x=\"" + number(x) +
           "\" y=\"" + number(top + height - size) + "\" width=\"" +
           number(bar) + "\" height=\"" + number(size) + "\"/>";
  };
  std::string out = "<div class=\"scroll\"><svg class=\"bars\" role=\"img\" "
                    "viewBox=\"0 0 980 166\">\n<title>Bytes of each rank"
                    "</title>\n";
  for (int half = 0; half <= 2; ++half) {
    double y = top + height - height * half / 2;
    out += "<path class=\"grid\" d=\"M" + number(left) + " " + number(y) +
           "H980\"/><text class=\"at-row\" x=\"" + number(left - 6) +
           "\" y=\"" + number(y + 4) + "\">" + bytesText(most * half / 2) +
           "</text>\n";
  }
  // A number takes 30 pixels.
  size_t every = 1;
  while (step * double(every) < 30)
    every *= 2;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    double x = left + 8 + step * rank;
    out += "<g><title>" + rankName(side, rank) + ": holds " +
           bytesText(ranks[rank].held);
    if (sends)
      out += ", sends " + bytesText(ranks[rank].sent);
    out += "</title>" + rectangle("held", x, ranks[rank].held);
    if (sends)
      out += rectangle("sent", x, ranks[rank].sent);
    out += "</g>\n";
    if (rank % every == 0)
      out += "<text class=\"at-col\" x=\"" + number(x + bar / 2) +
             "\" y=\"158\">" + std::to_string(rank) + "</text>\n";
  }
  return out + "</svg></div>\n";
}

static std::string spread(const std::vector<RankBytes> &ranks,
                          int64_t RankBytes::*which) {
  int64_t least = ranks[0].*which, most = least, sum = 0;
  for (const RankBytes &bytes : ranks) {
    least = std::min(least, bytes.*which);
    most = std::max(most, bytes.*which);
    sum += bytes.*which;
  }
  if (ranks.size() == 1)
    return "<b>" + bytesText(sum) + "</b>";
  std::string text = bytesText(least);
  if (bytesText(most) != text)
    text += " to " + bytesText(most);
  return "<b>" + text + "</b> a rank, " + bytesText(sum) + " in all";
}

std::string report::ranksSection(const View &view, const Traffic &traffic) {
  std::vector<RankBytes> ranks = sourceBytes(view, traffic);
  std::string out = "<section id=\"ranks\">\n<h2>Bytes of each rank</h2>\n";
  out += "<p><span class=\"key held\"></span>trainer ranks hold " +
         spread(ranks, &RankBytes::held) +
         "<br><span class=\"key sent\"></span>and own of it, which a full sync "
         "sends, " +
         spread(ranks, &RankBytes::sent) + "</p>\n" +
         chart(view.source, ranks, true);
  std::vector<RankBytes> receivers;
  for (uint32_t rank = 0; rank < view.destination.getNumRanks(); ++rank)
    receivers.push_back(
        {heldBytes(view.destination, view.destination.params(rank)), 0});
  out += "<p><span class=\"key held\"></span>receivers hold " +
         spread(receivers, &RankBytes::held) + "</p>\n";
  if (!view.plan.destinationIsHf)
    out += chart(view.destination, receivers, false);
  return out + "</section>\n";
}
