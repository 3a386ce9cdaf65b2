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

/// "bf16" for Bf16: kernels are named in lower case.
static std::string lowerCase(std::string word) {
  for (char &c : word)
    if (c >= 'A' && c <= 'Z')
      c = static_cast<char>(c - 'A' + 'a');
  return word;
}

/// An entry point `delta_<name>` whose body is a call of `body`.
static void emitEntryPoint(SourceText &out, const std::string &name,
                           const std::string &arguments,
                           const std::string &body) {
  out.line();
  out.line("extern \"C\" __global__ void");
  out.line("__launch_bounds__(BlockThreads, BlocksOfProcessor)");
  out.line("    delta_" + name + "(const " + arguments + " arguments) {");
  out.line("  " + body + "(arguments);");
  out.line("}");
}

void delta::emitCudaKernels(SourceText &out, const delta_tables_t &tables) {
  out.line("using namespace delta::device;");
  for (delta_dtype_t type : elementTypes(tables)) {
    std::string element = elementName(type);
    emitEntryPoint(out, "diff_" + lowerCase(element), "DiffArguments",
                   "diffTiles<" + element + ">");
  }
  emitEntryPoint(out, "scatter", "ScatterArguments", "scatterTiles");
  emitEntryPoint(out, "advance", "AdvanceArguments", "advanceTiles");
}
