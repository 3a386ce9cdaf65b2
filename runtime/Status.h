//===- Status.h - Status codes and their texts ------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A status code with its text, and the two ways across the C ABI: into a
/// caller's buffer, and out of one.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_STATUS_H
#define DELTA_RUNTIME_STATUS_H

#include "runtime/delta_abi.h"

#include <new>
#include <string>

namespace delta::runtime {

/// Ok, or a code and a text that names rank, parameter and call.
class [[nodiscard]] Status {
public:
  Status() = default;

  /// A failure with a text after the rules of printf.
  static Status error(delta_status_t code, const char *format, ...)
      __attribute__((format(printf, 2, 3)));

  bool failed() const { return code != DELTA_OK; }
  delta_status_t getCode() const { return code; }
  const std::string &getText() const { return text; }

  /// Writes the text, cut to the buffer, and returns the code.
  delta_status_t report(delta_error_t out) const;

private:
  delta_status_t code = DELTA_OK;
  std::string text;
};

/// Runs `body`, which returns a Status, and reports it. Exceptions stop here.
template <typename Body>
delta_status_t guarded(delta_error_t error, const Body &body) {
  try {
    return body().report(error);
  } catch (const std::bad_alloc &) {
    return Status::error(DELTA_NO_MEMORY, "out of memory").report(error);
  } catch (...) {
    return Status::error(DELTA_INTERNAL, "unexpected exception").report(error);
  }
}

} // namespace delta::runtime

#endif // DELTA_RUNTIME_STATUS_H
