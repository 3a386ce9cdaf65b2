//===- ModelFuzz.cpp - Any text as model.json -----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads a text as a JSON document, everywhere lenient and nowhere, and as a
/// model. What is refused says so in one line.
///
//===----------------------------------------------------------------------===//

#include "models/Json.h"
#include "models/ModelReader.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

static void requireLine(const std::string &error) {
  if (error.empty() || error.find('\n') != std::string::npos)
    abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size), error;
  for (const char *lenient : {"", "/config", "/nowhere"})
    if (!delta::parseJson("model.json", text, lenient, error))
      requireLine(error);
  // A file without a name: the reader wants a path.
  static const int file = memfd_create("model.json", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (file < 0 || ftruncate(file, 0) != 0 ||
      pwrite(file, data, size, 0) != ssize_t(size))
    abort();
  error.clear();
  if (!delta::readModel(path, error))
    requireLine(error);
  return 0;
}
