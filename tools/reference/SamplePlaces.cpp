//===- SamplePlaces.cpp - Places of a plan, read --------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/reference/SamplePlaces.h"

#include <algorithm>

namespace delta::reference {

void PlaceReader::wrong(const std::string &where, const std::string &expected,
                        const std::string &found) {
  report.add({where, "", std::nullopt, expected, found});
}

static int64_t sizeOf(const Tensor &tensor) {
  int64_t size = 1;
  for (int64_t extent : tensor.shape)
    size *= extent;
  return size;
}

bool PlaceReader::know(SideView &view, delta_side_id_t side,
                       const delta_place_t &place, Known &out) {
  delta_param_info_t info = {};
  std::string where =
      (side == DELTA_SOURCE ? "source rank " : "destination rank ") +
      std::to_string(place.rank);
  if (!map.param(side, place.rank, place.param, info)) {
    wrong(where, "parameter " + std::to_string(place.param), "an error");
    return false;
  }
  uint32_t rank = place.rank % uint32_t(view.interpreter.numRanks());
  std::string name = namesOf(info).front();
  int64_t layer = numberOf(info.layer), expert = numberOf(info.expert);
  const std::vector<Param> &records = view.interpreter.side().params;
  auto holds = [&](int64_t p) {
    return view.holds(p, rank, layer, expert, info.chunk, name);
  };
  // A class is the same record every time; the first time it is looked for.
  auto [known, isNew] = recordOfClass[side].try_emplace(info.class_index, 0);
  if (isNew)
    while (known->second + 1 < int64_t(records.size()) && !holds(known->second))
      ++known->second;
  int64_t param = known->second;
  if (!holds(param)) {
    wrong(where, "no \"" + name + "\"",
          "one in chunk " + std::to_string(info.chunk));
    return false;
  }
  const Param &record = records[size_t(param)];
  Shape shape = view.shownShape(param, rank);
  int64_t size = 1;
  for (int64_t extent : shape)
    size *= extent;
  if (shapeOf(info) != shape || dtypeName(info.dtype) != record.dtype ||
      place.element < 0 || place.element >= size) {
    wrong(where,
          "\"" + name + "\" of " + std::to_string(size) +
              " elements and type " + record.dtype,
          "element " + std::to_string(place.element) +
              " of another shape "
              "or type");
    return false;
  }
  std::optional<Known> located =
      view.locate(param, rank, layer, expert, place.element);
  if (!located) {
    wrong(where, "\"" + name + "\" with slots left alone",
          "element " + std::to_string(place.element));
    return false;
  }
  out = *located;
  return true;
}

int64_t PlaceReader::neutralRecord(const delta_place_t &place,
                                   delta_param_info_t &info) {
  if (!map.param(DELTA_HF, 0, place.param, info)) {
    wrong("", "tensor " + std::to_string(place.param), "an error");
    return kNone;
  }
  int64_t t = tensorOf(info);
  if (t == kNone) {
    wrong("", "no \"" + namesOf(info).front() + "\"", "one");
    return kNone;
  }
  const Tensor &record = program.source.tensors[size_t(t)];
  int64_t size = sizeOf(record);
  if (shapeOf(info) != record.shape || dtypeName(info.dtype) != record.dtype ||
      place.element < 0 || place.element >= size) {
    wrong("",
          "\"" + namesOf(info).front() + "\" of " + std::to_string(size) +
              " elements and type " + record.dtype,
          "element " + std::to_string(place.element) +
              " of another shape or type");
    return kNone;
  }
  metTensors.insert(t);
  return t;
}

Known PlaceReader::pullFrom(const SideView &view, int64_t t, int64_t element,
                            const delta_param_info_t &info) {
  const Tensor &record = view.interpreter.side().tensors[size_t(t)];
  const Domain &domain = view.interpreter.factsOf(record).domain;
  int64_t slice = sizeOf(record) / (record.stack ? record.shape[0] : 1);
  Known known;
  known.origin = view.puller.pull(t, element % slice);
  known.layer = numberOf(info.layer);
  known.expert = record.stack    ? element / slice
                 : domain.expert ? numberOf(info.expert)
                                 : kNone;
  return known;
}

bool PlaceReader::pull(const delta_place_t &place, Known &out) {
  delta_param_info_t info = {};
  int64_t t = neutralRecord(place, info);
  if (t == kNone)
    return false;
  out = pullFrom(source, t, place.element, info);
  return true;
}

int64_t PlaceReader::numberOf(uint32_t index) {
  return index == DELTA_NONE ? kNone : int64_t(index);
}

int64_t PlaceReader::tensorOf(const delta_param_info_t &info) {
  std::string name = namesOf(info).front();
  auto is = [&](int64_t t) {
    const Tensor &tensor = program.source.tensors[size_t(t)];
    Domain domain = source.interpreter.factsOf(tensor).domain;
    return std::binary_search(domain.layers.begin(), domain.layers.end(),
                              numberOf(info.layer)) &&
           (domain.expert && !tensor.stack) == (info.expert != DELTA_NONE) &&
           source.interpreter.tensorName(t, numberOf(info.layer),
                                         numberOf(info.expert)) == name;
  };
  auto [known, isNew] =
      recordOfClass[DELTA_HF].try_emplace(info.class_index, 0);
  if (isNew)
    while (known->second + 1 < int64_t(program.source.tensors.size()) &&
           !is(known->second))
      ++known->second;
  return is(known->second) ? known->second : kNone;
}

} // namespace delta::reference
