//===- Toolchain.h - From emitted text to binaries --------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Runs the machine's compilers on emitted text. The same text and the same
/// compiler give the same bytes. Nothing is written before all of it is there.
/// After a failure the error names the command and holds what the compiler
/// said, and the source is kept.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_TOOLCHAIN_H
#define DELTA_CODEGEN_TOOLCHAIN_H

#include "codegen/DeviceCode.h"
#include "codegen/Environment.h"
#include "codegen/Files.h"

#include <string>
#include <vector>

namespace delta {

/// Compiles and links host text into the plan `outputPath`: position
/// independent, for any CPU of the machine's family, with the whole run time
/// inside, `delta_plan_query` as the only export, and no need but for libc,
/// libm, libstdc++ and libgcc_s. The text may name the bytes of `cubins` by
/// their cubinSymbol; with some, the run time is that of GPUs.
MaybeError compileHost(const std::string &source, const std::string &outputPath,
                       const Installation &installation,
                       const std::vector<Cubin> &cubins = {});

/// The symbol of the first byte: "delta_cubin_sm_90".
std::string cubinSymbol(const Architecture &architecture);

/// The answer of a finished program.
struct CommandResult {
  /// Exit status, or 128 + signal.
  int status = 0;
  /// Standard output and error, in the order in which they came.
  std::string output;
};

/// Runs a program, found in PATH, in `folder` and waits for it. Fails if it
/// cannot be started.
MaybeError runCommand(const std::vector<std::string> &arguments,
                      const std::string &folder, CommandResult &out);

/// Runs a compiler in `work` on its file `sourceName`. The error names the
/// command and that file, and holds what the compiler said.
MaybeError runStep(const std::vector<std::string> &arguments,
                   const TemporaryFolder &work, std::string_view sourceName);

} // namespace delta

#endif // DELTA_CODEGEN_TOOLCHAIN_H
