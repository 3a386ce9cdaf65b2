//===- EmitKernels.cpp - Kernel instantiations ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Names the hand-written kernels that a plan needs, whatever the number of its
/// classes: on the host one set an element type or cast, on the device one
/// entry point a kernel, over all types.
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

void delta::emitCubinNames(SourceText &out,
                           const std::vector<EmbeddedCubin> &cubins) {
  if (cubins.empty())
    return;
  out.comment("Device code, which the linker puts beside this file.");
  for (const EmbeddedCubin &cubin : cubins)
    out.line("extern \"C\" const unsigned char " + cubin.symbol + "[];");
  out.line();
}

void delta::emitCubins(SourceText &out,
                       const std::vector<EmbeddedCubin> &cubins) {
  if (cubins.empty())
    return;
  out.comment("Compute capability, code, bytes.");
  out.line("constexpr delta_cubin_t cubins[] = {");
  for (const EmbeddedCubin &cubin : cubins)
    out.row({std::to_string(cubin.major), std::to_string(cubin.minor),
             cubin.symbol, std::to_string(cubin.numBytes)});
  out.line("};");
  out.line();
}

void delta::emitHostKernels(SourceText &out, const delta_tables_t &tables,
                            const std::vector<EmbeddedCubin> &cubins) {
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
  if (!cubins.empty()) {
    out.line("    /*num_cubins=*/" + std::to_string(cubins.size()) + ",");
    out.line("    /*reserved=*/0,");
    out.line("    cubins,");
  }
  out.line("};");
}

namespace {
/// A row of DeviceKernels.def.
struct DeviceKernel {
  const char *name;
  const char *arguments;
  const char *body;
  const char *file;
  uint32_t threads, blocks;
};
} // namespace

static constexpr DeviceKernel deviceKernels[] = {
#define DELTA_DEVICE_KERNEL(enumerator, name, arguments, body, file, threads,  \
                            blocks, shared)                                    \
  {#name, #arguments, #body, file, threads, blocks},
#include "codegen/device/DeviceKernels.def"
};

void delta::emitCudaIncludes(SourceText &out) {
  // Kernels may share a file.
  std::set<std::string> files = {"ElementList.h"};
  for (const DeviceKernel &kernel : deviceKernels)
    files.insert(kernel.file);
  for (const std::string &file : files)
    out.line("#include \"codegen/device/" + file + "\"");
  out.line();
}

void delta::emitCudaKernels(SourceText &out, const delta_tables_t &tables) {
  out.line("using namespace delta::device;");
  out.line();
  out.comment("Element types and casts of the plan.");
  // One a line: all eight would not fit.
  std::string list = "using Elements = ElementList<";
  const std::string separator = ",\n" + std::string(list.size(), ' ');
  bool isFirst = true;
  for (uint32_t row : kernelRows(tables)) {
    list += (isFirst ? "" : separator) + elementName(row);
    isFirst = false;
  }
  out.line(list + ">;");
  for (const DeviceKernel &kernel : deviceKernels) {
    out.line();
    out.line("extern \"C\" __global__ void");
    out.line("__launch_bounds__(" + std::to_string(kernel.threads) + ", " +
             std::to_string(kernel.blocks) + ")");
    out.line(std::string("    delta_") + kernel.name + "(const " +
             kernel.arguments + " arguments) {");
    out.line(std::string("  ") + kernel.body + "<Elements>(arguments);");
    out.line("}");
  }
}
