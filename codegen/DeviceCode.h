//===- DeviceCode.h - From CUDA text to code for GPUs -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compiles CUDA text for each architecture that a plan shall run on, all at
/// once: by nvcc, or where there is none by NVRTC, which is a library and needs
/// no compiler of the host. The same text and the same compiler give the same
/// bytes.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICECODE_H
#define DELTA_CODEGEN_DEVICECODE_H

#include "codegen/Environment.h"
#include "codegen/Files.h"

#include <cstdint>
#include <string>
#include <vector>

namespace delta {

/// A compute capability. Its code runs on GPUs of the same major number and the
/// same or a higher minor one.
struct Architecture {
  uint32_t major, minor;

  /// "sm_90"
  std::string name() const {
    return "sm_" + std::to_string(major) + std::to_string(minor);
  }
};

/// Code for one architecture.
struct Cubin {
  Architecture architecture;
  std::string image;
};

/// What a plan is compiled for if nothing else is said.
const std::vector<std::string> &defaultArchitectures();

/// Architectures in ascending order, whatever the order of `names`. Fails on
/// what is no such name, and on one that is there twice.
MaybeError parseArchitectures(const std::vector<std::string> &names,
                              std::vector<Architecture> &out);

/// Compiles `source` for all architectures, as many at a time as there are
/// processors. Fails on an architecture that the compiler does not know; if the
/// compiler fails, the error names the command and holds what it said, and the
/// source is kept.
MaybeError compileCubins(const std::string &source,
                         const std::vector<Architecture> &architectures,
                         const Installation &installation,
                         std::vector<Cubin> &out);

} // namespace delta

#endif // DELTA_CODEGEN_DEVICECODE_H
