//===- Checker.h - A second look at a proof ---------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Checks a certificate against the plan it is for, with code of its own: it
/// shares nothing with the compiler but the tables of delta_abi.h, and uses no
/// MLIR. What is checked, and why that suffices: passes/PROOF.md.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_CERTIFICATE_CHECKER_H
#define DELTA_TOOLS_CERTIFICATE_CHECKER_H

#include "runtime/delta_abi.h"

#include <string>

namespace delta::certificate {

/// Holds the certificate, a JSON text, against the plan's tables, which must be
/// readable as far as their counts say. Returns what was checked, one line; or
/// an empty text, with `error` set to the first thing that is wrong. Never
/// throws.
std::string check(const std::string &certificate, const delta_tables_t &tables,
                  std::string &error);

} // namespace delta::certificate

#endif // DELTA_TOOLS_CERTIFICATE_CHECKER_H
