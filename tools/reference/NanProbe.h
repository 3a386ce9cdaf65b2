//===- NanProbe.h - A plan against the run-time probe -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What trainers do at run time today: fill every shard with NaN, put the
/// changed values in, run the converter, and take what is no NaN from its
/// output. It is done here by the interpreter, for comparison: it sees less
/// than tags do. A value that is itself a NaN is lost, two elements of equal
/// value may be swapped, a second name of a tensor and the padding of a
/// vocabulary are out of its sight.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_NANPROBE_H
#define DELTA_TOOLS_REFERENCE_NANPROBE_H

#include "tools/reference/MapSource.h"
#include "tools/reference/Program.h"
#include "tools/reference/Report.h"

#include <functional>

namespace delta::reference {

/// Bits of the value that an element of a trainer parameter changes to, or
/// nothing: it does not change. By record, layer, expert (-1: none) and index
/// in the unsharded parameter.
using ChangedTo = std::function<std::optional<uint32_t>(
    int64_t param, int64_t layer, int64_t expert, int64_t element)>;

/// Every 17th element, each to a value of its own.
ChangedTo someElements();

/// Compares what the probe finds in the neutral layout, (tensor, element,
/// value), with what the plan says of the same changes. `report.elements`
/// counts the changed elements that the probe sees. All arrays are in memory.
std::optional<Report> nanProbe(const Program &program, MapSource &map,
                               const ChangedTo &changedTo, std::string &error);

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_NANPROBE_H
