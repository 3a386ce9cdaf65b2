//===- SideChecker.h - Do the records of a side fit? ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Checks one side of a reference program and notes what every value is, so
/// that execution needs no checks.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_SIDECHECKER_H
#define DELTA_TOOLS_REFERENCE_SIDECHECKER_H

#include "tools/reference/Interpreter.h"

#include <algorithm>
#include <numeric>

namespace delta::reference {

inline std::string number(int64_t value) { return std::to_string(value); }

inline int64_t sum(const std::vector<int64_t> &values) {
  return std::accumulate(values.begin(), values.end(), int64_t(0));
}

inline bool hasNegative(const std::vector<int64_t> &values) {
  return std::any_of(values.begin(), values.end(),
                     [](int64_t value) { return value < 0; });
}

/// Fills the facts of an interpreter's values and splits. Every `check`
/// function returns false after setting the error.
class SideChecker {
public:
  SideChecker(Interpreter &interpreter, std::string &error)
      : side(interpreter.checked), values(interpreter.values),
        splits(interpreter.splits), axes(interpreter.axes), error(error) {}

  bool check();

private:
  bool checkGeometry();
  bool checkSlots();
  bool checkParam(size_t index);
  bool checkForm(const Param &param);
  bool checkPart(size_t index);
  bool checkCopy(size_t index);
  bool checkOp(size_t index);
  bool checkTensor(size_t index);

  /// Facts of the results of an op, one for each; false after an error.
  bool results(const Op &op, const std::vector<ValueFacts *> &in,
               std::vector<ValueFacts> &out);
  bool unshard(const Op &op, ValueFacts &in);
  /// Size of the axis that an op names, 0 when it may not.
  int64_t axisOf(const Op &op, const Param &param) const;
  bool checkSectionWays(const Op &op);
  bool checkSizes(const Op &op, const std::vector<int64_t> &sizes,
                  const ValueFacts &in);
  bool checkAlike(const Op &op, const std::vector<ValueFacts *> &in);

  bool fail(const std::string &message) {
    error = where + ": " + message;
    return false;
  }

  const Side &side;
  std::map<int64_t, ValueFacts> &values;
  std::vector<Split> &splits;
  std::vector<std::string> &axes;
  std::string &error;
  std::string where; ///< the record under check
};

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_SIDECHECKER_H
