//===- Sections.h - The sections of the page --------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Each function gives one section as HTML.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REPORT_SECTIONS_H
#define DELTA_TOOLS_REPORT_SECTIONS_H

#include "tools/report/Traffic.h"
#include "tools/report/View.h"

namespace delta::report {

/// What was proved and compared, and the counts.
std::string proofSection(const View &view);

/// What is left out, copied, or a second name.
std::string exceptionsSection(const View &view);

/// Axes, layers on stages and chunks, experts on ranks; tensors by kind.
std::string geometrySection(const View &view);

/// Bytes that each rank holds and sends.
std::string ranksSection(const View &view, const Traffic &traffic);

/// Who sends how much to whom, as a matrix.
std::string trafficSection(const View &view, const Traffic &traffic);

/// "rank 3, pp 1, tp 1", "receiver 0".
std::string rankName(const runtime::Side &side, uint32_t rank);

/// One class: its shards, its tensors, where they go.
std::string classCard(const View &view, uint32_t classIndex);

/// The drawings of a class, for its card.
std::string drawings(const View &view, uint32_t classIndex);

/// What happens to a box on its way beside the move, in words, or nothing.
std::string changesOf(const View &view, const LoweredBox &box);

/// Names and boxes, for the script.
std::string scriptData(const View &view);

/// Text without a name's common beginning: its last two parts.
std::string shortName(const std::string &name);

// Made from page.css and page.js by the build.
extern const char pageStyle[];
extern const char pageScript[];

} // namespace delta::report

#endif // DELTA_TOOLS_REPORT_SECTIONS_H
