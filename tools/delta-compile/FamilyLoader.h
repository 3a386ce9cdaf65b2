//===- FamilyLoader.h - Family texts and their imports ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_DELTA_COMPILE_FAMILYLOADER_H
#define DELTA_TOOLS_DELTA_COMPILE_FAMILYLOADER_H

#include "dialect/DeltaDialect.h"
#include "models/ModelReader.h"

#include "mlir/IR/OwningOpRef.h"

namespace delta {

/// A module with the one family of the model and the blocks it can use, and
/// with the attributes that the instantiate pass reads. The family is that of
/// `familyPath`, or else the one among the installed texts that names the
/// model's type or architecture. `keys` is the text of a key list, or empty.
/// Returns null after an error on the context's diagnostics.
mlir::OwningOpRef<mlir::ModuleOp> loadFamily(mlir::MLIRContext &context,
                                             const Model &model,
                                             const std::string &familyPath,
                                             const std::string &modelFolder,
                                             const std::string &keys);

} // namespace delta

#endif // DELTA_TOOLS_DELTA_COMPILE_FAMILYLOADER_H
