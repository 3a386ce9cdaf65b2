//===- Pipeline.h - The default order of the passes -------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_PASSES_PIPELINE_H
#define DELTA_PASSES_PIPELINE_H

namespace delta {

/// Binds the family; its result is the reference program's source.
inline constexpr const char *bindPipeline = "builtin.module(delta-instantiate)";

/// Everything from bound sides to proved routes, in the order in which it
/// runs.
inline constexpr const char *mapPipeline = "builtin.module("
                                           "delta-fold-instances,"
                                           "delta-fold-tensor-parallel,"
                                           "delta-fold-deinterleave,"
                                           "delta-compose-maps,"
                                           "delta-coalesce-runs,"
                                           "delta-align-layers,"
                                           "delta-verify-coverage,"
                                           "delta-plan-routes)";

} // namespace delta

#endif // DELTA_PASSES_PIPELINE_H
