//===- BenchError.h - What stops a measurement ---------------- -*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Within `delta-bench` a failure is thrown, and caught by the command, which
/// prints it: nothing is left to do after the first one.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_BENCH_BENCHERROR_H
#define DELTA_TOOLS_DELTA_BENCH_BENCHERROR_H

#include "runtime/Status.h"

#include <stdexcept>
#include <string>

namespace delta::bench {

/// A sentence that says where, what was seen and what is required.
class BenchError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Calls body(delta_error_t), a function of the ABI; throws its text.
template <typename Body> void must(const Body &body) {
  char text[1024] = "";
  delta_status_t status = body(delta_error_t{text, sizeof(text)});
  if (status != DELTA_OK)
    throw BenchError(text[0] ? text : "status " + std::to_string(status));
}

inline void must(const runtime::Status &status) {
  if (status.failed())
    throw BenchError(status.getText());
}

} // namespace delta::bench

#endif // DELTA_TOOLS_DELTA_BENCH_BENCHERROR_H
