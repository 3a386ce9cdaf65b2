//===- PlanFile.h - A compiled plan, opened ---------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Opens the shared object of a plan, and runs the compiler that makes one.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_PLANFILE_H
#define DELTA_TOOLS_REFERENCE_PLANFILE_H

#include "runtime/delta_abi.h"

#include <memory>
#include <string>
#include <vector>

namespace delta::reference {

/// An open plan; closes it at the end.
class PlanFile {
public:
  /// Null, with `error` set, when the file is no plan of this ABI.
  static std::unique_ptr<PlanFile> open(const std::string &path,
                                        std::string &error);
  ~PlanFile();
  PlanFile(const PlanFile &) = delete;
  PlanFile &operator=(const PlanFile &) = delete;

  const delta_plan_api_t &api() const { return *table; }

private:
  PlanFile(void *handle, const delta_plan_api_t *table)
      : handle(handle), table(table) {}
  void *handle;
  const delta_plan_api_t *table;
};

/// A new directory, removed with all in it at the end.
class TemporaryDirectory {
public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;

  /// Empty when it could not be made.
  const std::string &path() const { return directory; }

private:
  std::string directory;
};

/// Runs `delta-compile`, which lies in the folder of this program, and waits.
/// Its messages go where ours go, or nowhere when `quiet`. Returns its exit
/// code; 1 with `error` set when it could not be run.
int runCompiler(const std::vector<std::string> &arguments, bool quiet,
                std::string &error);

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_PLANFILE_H
