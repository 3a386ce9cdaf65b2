//===- Checks.h - What delta-check compares ---------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One function for each kind of data. All compile a plan, read its map back
/// through the ABI and compare it with files that this project did not write.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_CHECK_CHECKS_H
#define DELTA_TOOLS_CHECK_CHECKS_H

#include "tools/reference/Report.h"

#include <string>
#include <vector>

namespace delta::check {

struct CheckReport : reference::Report {
  /// Elements of rows beyond the vocabulary that the data has and the
  /// published checkpoint has not; they are the padded rows, in order.
  int64_t bridgePadding = 0;
  /// Elements of engine parameters that no tensor fills and the plan leaves
  /// out.
  int64_t unbound = 0;
};

/// Each returns false, with `error` set, when nothing could be compared: a file
/// that cannot be read, or a model that the compiler refuses (then the message
/// is its own and `error` says so).

/// A folder of trainer -> neutral index maps, element by element.
bool checkGolden(const std::string &directory, const std::string &family,
                 CheckReport &report, std::string &error);

/// A folder of trainer -> trainer index maps, element by element.
bool checkReshard(const std::string &directory, const std::string &family,
                  CheckReport &report, std::string &error);

/// A folder of what an engine's loader did with a checkpoint, element by
/// element. `geometry` may be empty.
bool checkRollout(const std::string &directory, const std::string &geometry,
                  const std::string &family, CheckReport &report,
                  std::string &error);

/// Names, shapes and dtypes of a published checkpoint. `geometry` may be empty.
/// `copied`: names, with the manifest's braces, of all tensors that no trainer
/// holds and an export copies.
bool checkManifest(const std::string &manifest, const std::string &config,
                   const std::string &geometry, const std::string &family,
                   const std::vector<std::string> &copied, CheckReport &report,
                   std::string &error);

/// A certificate against the plan it is for, and both against model.json and
/// its checkpoint's key list. `summary` says in one line what was checked.
bool checkCertificate(const std::string &certificate, const std::string &plan,
                      const std::string &model, std::string &summary,
                      std::string &error);

} // namespace delta::check

#endif // DELTA_TOOLS_CHECK_CHECKS_H
