//===- Environment.h - What the environment tells the compiler --*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The one place that reads the compiler's environment variables, and the place
/// where the parts of an installation are found. None of this enters an output.
///
/// | variable      | meaning and default                                     |
/// | ------------- | ------------------------------------------------------- |
/// | `DELTA_CXX`   | host compiler of plans, with arguments after blanks:    |
/// |               | `ccache g++`; else `c++`, `g++` or `clang++` in PATH    |
/// | `DELTA_NVCC`  | CUDA compiler of plans; else `nvcc` in PATH or in       |
/// |               | `CUDA_HOME/bin`                                         |
/// | `DELTA_NVRTC` | library to use instead of nvcc; else, where there is    |
/// |               | no nvcc, `libnvrtc.so.13`, also in `CUDA_HOME/lib64`    |
/// | `CUDA_HOME`   | CUDA toolkit; else `/usr/local/cuda`                    |
/// | `TMPDIR`      | folder for temporary files; else `/tmp`                 |
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_ENVIRONMENT_H
#define DELTA_CODEGEN_ENVIRONMENT_H

#include <optional>
#include <string>
#include <vector>

namespace delta {

/// Where the parts of the project lie at run time. A build folder has the same
/// layout as an installation: `bin`, `lib`, `share/delta`.
struct Installation {
  /// Holds `runtime/delta_abi.h` and `codegen/device/`.
  std::string includeFolder;
  /// The run time that every plan links: of the host, and of GPUs.
  std::string runtimeArchive;
  std::string cudaRuntimeArchive;
  /// Families: `<family>.mlir`.
  std::string modelFolder;
};

/// The installation under `prefix`; nothing is checked.
Installation installationAt(const std::string &prefix);

/// The installation that the running executable is part of: the folder above
/// the one it lies in.
Installation findInstallation();

/// Program and leading arguments of the host compiler; empty if there is none.
std::vector<std::string> findHostCompiler();

/// Path of nvcc; nothing if there is none, or if NVRTC was chosen.
std::optional<std::string> findNvcc();

/// Names of the NVRTC library, to be tried in this order.
std::vector<std::string> findNvrtc();

/// Folder for temporary files.
std::string temporaryFolder();

} // namespace delta

#endif // DELTA_CODEGEN_ENVIRONMENT_H
