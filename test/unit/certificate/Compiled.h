//===- Compiled.h - A model between the steps of the compiler ---*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_CERTIFICATE_COMPILED_H
#define DELTA_TEST_UNIT_CERTIFICATE_COMPILED_H

#include "codegen/LoweredPlan.h"
#include "dialect/DeltaDialect.h"
#include "tools/reference/Program.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace delta::test {

/// The passes after binding, one by one; the proof is left out, so that a
/// fault goes on to the checks behind it.
extern const std::vector<std::string> passNames;

/// Small models, chosen for their shapes: sections, stacks, experts over ep
/// and etp, stages and virtual stages, copies, padding, both destinations.
extern const std::vector<std::string> modelTexts;

/// A model that was bound, with its reference program; the steps after that
/// are the test's.
class Compiled {
public:
  explicit Compiled(const std::string &modelText);

  mlir::ModuleOp module() { return *bound; }
  const reference::Program &program() const { return reference; }
  /// Runs one pass; false if it failed.
  bool run(const std::string &pass);
  /// Runs the proof alone.
  bool prove() { return run("delta-verify-coverage"); }
  std::optional<LoweredPlan> lower();
  std::string certificate(const LoweredPlan &plan);
  /// Starts over from the bound module.
  void reset();

private:
  mlir::DialectRegistry registry;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> pristine, bound;
  reference::Program reference;
  int64_t replicas = 1;
};

/// Empty, or what the checker says is wrong.
std::string checkerError(const std::string &certificate,
                         const LoweredPlan &plan);
/// Empty, or what the interpreter says is wrong, over every element or over a
/// sample.
std::string interpreterError(const reference::Program &program,
                             const LoweredPlan &plan);
std::string sampleError(const reference::Program &program,
                        const LoweredPlan &plan);

} // namespace delta::test

#endif // DELTA_TEST_UNIT_CERTIFICATE_COMPILED_H
