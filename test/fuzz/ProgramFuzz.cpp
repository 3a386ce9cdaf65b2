//===- ProgramFuzz.cpp - Any text as a reference program ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/reference/Program.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string error;
  std::string text(reinterpret_cast<const char *>(data), size);
  if (!delta::reference::parse(text, error) && error.empty())
    abort();
  return 0;
}
