//===- CompilePlan.cpp - From a lowered plan to a plan --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CompilePlan.h"

#include "codegen/Emit.h"
#include "codegen/Toolchain.h"

using namespace delta;

MaybeError delta::compilePlan(const LoweredPlan &plan,
                              const std::vector<Architecture> &architectures,
                              const std::string &outputPath,
                              const Installation &installation) {
  std::vector<Cubin> cubins;
  if (!architectures.empty())
    if (MaybeError error =
            compileCubins(emitCuda(plan), architectures, installation, cubins))
      return error;
  std::vector<EmbeddedCubin> embedded;
  for (const Cubin &cubin : cubins)
    embedded.push_back({cubin.architecture.major, cubin.architecture.minor,
                        cubinSymbol(cubin.architecture), cubin.image.size()});
  return compileHost(emitHost(plan, embedded), outputPath, installation,
                     cubins);
}
