//===- EmitKernels.cpp - Kernel instantiations ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Names the hand-written kernels that a plan needs: one set an element type
/// or cast,
/// whatever the number of classes.
///
//===----------------------------------------------------------------------===//

#include "codegen/EmitParts.h"
#include "codegen/device/Kernels.h"

using namespace delta;

/// Names of element types and casts in codegen/device, by kernel row.
static const char *elementName(uint32_t row) {
  static constexpr const char *names[DELTA_NUM_KERNELS] = {"",
                                                           "Bf16",
                                                           "Fp16",
                                                           "Fp32",
                                                           "Int64",
                                                           "Widened<Bf16>",
                                                           "Widened<Fp16>",
                                                           "Narrowed<Bf16>",
                                                           "Narrowed<Fp16>"};
  return names[row];
}

/// "delta::device::Widened<delta::device::Bf16>"
static std::string deviceName(uint32_t row) {
  std::string name = std::string("delta::device::") + elementName(row);
  size_t inner = name.find('<');
  return inner == name.npos ? name : name.insert(inner + 1, "delta::device::");
}

void delta::emitHostKernels(SourceText &out, const delta_tables_t &tables) {
  std::set<uint32_t> rows = kernelRows(tables);
  out.comment("Rows by delta_kernel_row; what the plan does not need stays "
              "empty.");
  out.line("const delta_kernels_t delta_plan_kernels = {");
  out.line("    sizeof(delta_kernels_t),");
  out.line("    DELTA_ABI_VERSION,");
  out.line("    {");
  for (uint32_t row = 0; row < DELTA_NUM_KERNELS; ++row)
    out.line(rows.count(row)
                 ? std::string("        delta::device::hostKernels<") +
                       deviceName(row) + ">(),"
                 : "        {},");
  out.line("    },");
  out.line("};");
}

/// "bf16" for Bf16, "widened_bf16" for Widened<Bf16>: kernels are named in
/// lower case.
static std::string lowerCase(const std::string &word) {
  std::string out;
  for (char c : word)
    if (c == '<')
      out += '_';
    else if (c != '>')
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
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
  for (uint32_t row : kernelRows(tables)) {
    std::string element = elementName(row);
    emitEntryPoint(out, "diff_" + lowerCase(element), "DiffArguments",
                   "diffTiles<" + element + ">");
  }
  emitEntryPoint(out, "scatter", "ScatterArguments", "scatterTiles");
  emitEntryPoint(out, "advance", "AdvanceArguments", "advanceTiles");
}
