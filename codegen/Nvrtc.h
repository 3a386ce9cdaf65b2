//===- Nvrtc.h - NVIDIA's compiler as a library -----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// NVRTC, opened at run time. It compiles device code and nothing else, and
/// needs no host compiler, no driver and no headers of a C library: the few
/// declarations that device code takes from these are given to it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_NVRTC_H
#define DELTA_CODEGEN_NVRTC_H

#include "codegen/Files.h"

#include <memory>
#include <string>
#include <vector>

namespace delta {

class Nvrtc {
public:
  Nvrtc();
  ~Nvrtc();

  /// Opens the first of the libraries that the loader finds, for the life of
  /// the process.
  MaybeError open(const std::vector<std::string> &libraries);

  /// Names of the architectures that it compiles for: "sm_90".
  MaybeError architectures(std::vector<std::string> &out) const;

  /// Compiles CUDA text; `outCubin` is the code. An error holds the options
  /// and what the compiler said. May be called by several threads at once.
  MaybeError compile(const std::string &source,
                     const std::vector<std::string> &options,
                     std::string &outCubin) const;

private:
  struct Symbols;
  MaybeError check(const char *call, int result) const;

  std::unique_ptr<Symbols> symbols;
};

} // namespace delta

#endif // DELTA_CODEGEN_NVRTC_H
