//===- SamplePlaces.h - Places of a plan, read ------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What a plan says of an element, in the terms of the program: which record,
/// which instance, which element of it. A place that is none is reported.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_SAMPLEPLACES_H
#define DELTA_TOOLS_REFERENCE_SAMPLEPLACES_H

#include "tools/reference/MapSource.h"
#include "tools/reference/Report.h"
#include "tools/reference/SampleSide.h"

#include <map>
#include <set>

namespace delta::reference {

/// All of it must outlive the reader. Functions that find a mismatch report it.
class PlaceReader {
public:
  PlaceReader(const Program &program, MapSource &map, SideView &source,
              Report &report)
      : program(program), map(map), source(source), report(report) {}

  /// The element of a place on a side with ranks; false after a mismatch.
  bool know(SideView &view, delta_side_id_t side, const delta_place_t &place,
            Known &out);

  /// The source's record of a place in the neutral layout, or kNone after a
  /// mismatch.
  int64_t neutralRecord(const delta_place_t &place, delta_param_info_t &info);

  /// The element of a place in the neutral layout, pulled back to the source;
  /// false after a mismatch.
  bool pull(const delta_place_t &place, Known &out);

  /// The element of a tensor record of a side, pulled back.
  static Known pullFrom(const SideView &view, int64_t tensor, int64_t element,
                        const delta_param_info_t &info);

  /// The source's record of a tensor of the plan, or kNone.
  int64_t tensorOf(const delta_param_info_t &info);

  static int64_t numberOf(uint32_t index);

protected:
  void wrong(const std::string &where, const std::string &expected,
             const std::string &found);

  const Program &program;
  MapSource &map;
  SideView &source;
  std::set<int64_t> metTensors; ///< records of the source

private:
  Report &report;
  /// Record of each class of the plan, by side.
  std::map<int, std::map<uint32_t, int64_t>> recordOfClass;
};

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_SAMPLEPLACES_H
