//===- EmitKernels.cpp - Kernel instantiations ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Names the hand-written kernels that a plan needs: one set an element type,
/// whatever the number of classes.
///
//===----------------------------------------------------------------------===//

#include "codegen/EmitParts.h"

#include <algorithm>

using namespace delta;

/// Rows of delta_kernels_t.host: delta_dtype_t up to its largest value.
static constexpr delta_dtype_t lastType = DELTA_INT64;

/// Name of an element type in codegen/device.
static const char *elementName(delta_dtype_t dtype) {
  switch (dtype) {
  case DELTA_BF16:
    return "Bf16";
  case DELTA_FP16:
    return "Fp16";
  case DELTA_FP32:
    return "Fp32";
  default:
    return "Int64";
  }
}

void delta::emitHostKernels(SourceText &out, const delta_tables_t &tables) {
  std::vector<delta_dtype_t> types = elementTypes(tables);
  out.comment("Rows by delta_dtype_t; a type that the plan does not have stays "
              "empty.");
  out.line("const delta_kernels_t delta_plan_kernels = {");
  out.line("    sizeof(delta_kernels_t),");
  out.line("    DELTA_ABI_VERSION,");
  out.line("    {");
  for (delta_dtype_t type = 0; type <= lastType; ++type) {
    bool isUsed = std::find(types.begin(), types.end(), type) != types.end();
    out.line(isUsed ? std::string("        delta::device::hostKernels<"
                                  "delta::device::") +
                          elementName(type) + ">(),"
                    : "        {},");
  }
  out.line("    },");
  out.line("};");
}

void delta::emitCudaKernels(SourceText &out, const delta_tables_t &tables) {}
