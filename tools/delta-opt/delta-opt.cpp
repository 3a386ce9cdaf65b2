//===- delta-opt.cpp - Run passes on text ---------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"
#include "passes/Passes.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<delta::DeltaDialect>();
  delta::registerDeltaPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "delta pass driver\n", registry));
}
