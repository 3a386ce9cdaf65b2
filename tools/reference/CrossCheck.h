//===- CrossCheck.h - A plan's map against the interpreter ------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares the index map of a plan with what the reference program does to
/// tagged elements, over all ranks of both sides.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_CROSSCHECK_H
#define DELTA_TOOLS_REFERENCE_CROSSCHECK_H

#include "tools/reference/MapSource.h"
#include "tools/reference/Program.h"
#include "tools/reference/Report.h"

namespace delta::reference {

/// Checks, element by element:
/// - every rank of every side holds the parameters of the program: names,
///   chunks, shapes, strides, dtypes, layers, experts, copies;
/// - every element of the neutral layout is provided exactly once, by one
///   source rank, from the right trainer element, with the right value op; a
///   tensor that an engine does not hold need not be;
/// - every element of every receiver, replicas included, receives the right
///   trainer element exactly once, and padding receives nothing.
///
/// Moves arrays of 64-bit tags, so memory is 8 bytes an element of every rank.
/// Returns nothing, with `error` set, when the program itself does not fit.
std::optional<Report> crossCheck(const Program &program, MapSource &map,
                                 std::string &error);

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_CROSSCHECK_H
