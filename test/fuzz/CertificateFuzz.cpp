//===- CertificateFuzz.cpp - Any text as a certificate --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Holds texts against the tables of a real plan, plan.tables beside this file.
/// What differs from the plan's own certificate in a number must not hold; here
/// only crashes are sought.
///
//===----------------------------------------------------------------------===//

#include "TableCodec.h"

#include "tools/certificate/Checker.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace delta::fuzz;

static std::unique_ptr<OwnedTables> readTables() {
  std::ifstream in(DELTA_FUZZ_TABLES, std::ios::binary);
  std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(in)),
                             std::istreambuf_iterator<char>());
  return OwnedTables::decode(bytes.data(), bytes.size());
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::unique_ptr<OwnedTables> tables = readTables();
  if (!tables)
    abort();
  std::string text(reinterpret_cast<const char *>(data), size);
  std::string error;
  std::string summary = delta::certificate::check(text, tables->get(), error);
  if (summary.empty() == error.empty())
    abort();
  return 0;
}
