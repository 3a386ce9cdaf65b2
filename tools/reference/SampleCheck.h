//===- SampleCheck.h - A plan against samples -------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_SAMPLECHECK_H
#define DELTA_TOOLS_REFERENCE_SAMPLECHECK_H

#include "tools/reference/MapSource.h"
#include "tools/reference/Program.h"
#include "tools/reference/Report.h"

namespace delta::reference {

/// Checks elements of every class of a plan of any size: the corners of a few
/// instances of each of its boxes and a seeded sample inside, pulled back from
/// the tensor through the ops, on both sides; the names, shapes and types of
/// the parameters met; and the number of receivers. Every class and every
/// tensor record is met at least once, or that is a mismatch. `report.tensors`
/// counts boxes of instances, `report.elements` elements.
///
/// Returns nothing, with `error` set, when the program itself does not fit.
std::optional<Report> sampleCheck(const Program &program, MapSource &map,
                                  uint64_t seed, std::string &error);

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_SAMPLECHECK_H
