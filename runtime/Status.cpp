//===- Status.cpp - Status codes and their texts --------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Status.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

using namespace delta::runtime;

Status Status::error(delta_status_t code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char buffer[1024];
  vsnprintf(buffer, sizeof(buffer), format, arguments);
  va_end(arguments);
  Status status;
  status.code = code;
  status.text = buffer;
  return status;
}

delta_status_t Status::report(delta_error_t out) const {
  if (failed() && out.text && out.size) {
    size_t length = text.size() < out.size ? text.size() : out.size - 1;
    memcpy(out.text, text.data(), length);
    out.text[length] = '\0';
  }
  return code;
}
