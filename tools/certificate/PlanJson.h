//===- PlanJson.h - A plan as a certificate writes it -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_CERTIFICATE_PLANJSON_H
#define DELTA_TOOLS_CERTIFICATE_PLANJSON_H

#include "runtime/delta_abi.h"

#include <nlohmann/json.hpp>

namespace delta::certificate {

/// Ends a check, by an exception: the first thing that is wrong.
[[noreturn]] void wrong(const std::string &text);

/// Every number and name of a plan's tables.
nlohmann::json planJson(const delta_tables_t &tables);

/// A certificate must say the same as the plan, but for the drops and maps
/// that only a certificate has.
void requireSame(const nlohmann::json &certificate, const nlohmann::json &plan);

} // namespace delta::certificate

#endif // DELTA_TOOLS_CERTIFICATE_PLANJSON_H
