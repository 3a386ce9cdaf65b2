//===- Landing.cpp - Where messages of each source land -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Landing.h"

#include "codegen/device/IndexFunctions.h"
#include "runtime/Bind.h"
#include "runtime/Shard.h"

#include <algorithm>

using namespace delta::runtime;

Status Landing::layOut(Expander &expander, const delta_kernels_t &kernels,
                       uint32_t ownRank) {
  side = expander.getDestination();
  rank = ownRank;
  params = side->params(rank);
  for (const Param &param : params)
    names.push_back(side->name(param));
  numCovered.assign(params.size(), 0);
  for (uint32_t source = 0; source < expander.getSource().getNumRanks();
       ++source)
    addSource(expander, expander.expand(source), kernels);
  for (const LandingRow &row : rows)
    if (!row.kernels) {
      delta_dtype_t sent = expander.sentType(*row.box);
      return Status::error(DELTA_INTERNAL, "rank %u: bind: no kernels for %s",
                           rank, dtypeName(sent).c_str());
    }
  if (!side->isNeutral())
    listPadded(expander.getTables());
  return {};
}

Status Landing::create(Expander &expander, const delta_kernels_t &kernels,
                       uint32_t rank, const delta_param_t *params,
                       uint32_t numParams, Landing &out) {
  const uint32_t numRanks = expander.getDestination().getNumRanks();
  if (rank >= numRanks)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: bind: there are %u destination ranks", rank,
                         numRanks);
  Status status = out.layOut(expander, kernels, rank);
  return status.failed() ? status : out.rebind(params, numParams);
}

/// The slots of a rank are as many in each placement, so its parameters are the
/// same.
Status Landing::createLike(const Landing &bound, Expander &expander,
                           const delta_kernels_t &kernels, Landing &out) {
  Status status = out.layOut(expander, kernels, bound.rank);
  if (status.failed())
    return status;
  out.data = bound.data;
  out.place();
  return {};
}

void Landing::place() {
  for (LandingImage &image : images) {
    const delta_class_t &type = side->getClass(params[image.param].classIndex);
    image.data = static_cast<uint8_t *>(data[image.param]) +
                 image.expertOffset * elementSize(type.dtype);
  }
}

Status Landing::rebind(const delta_param_t *bound, uint32_t numBound) {
  std::vector<void *> found;
  Status status = bindParams(*side, rank, params, bound, numBound, found);
  if (status.failed())
    return status;
  data = std::move(found);
  place();
  return {};
}

void Landing::addSource(Expander &expander, const Expansion &expansion,
                        const delta_kernels_t &kernels) {
  size_t firstSection = sections.size();
  std::vector<bool> isMine;
  for (const std::vector<uint32_t> &set : expansion.sets)
    isMine.push_back(std::binary_search(set.begin(), set.end(), rank));
  for (const Row &row : expansion.rows) {
    if (!isMine[row.set])
      continue;
    if (sections.size() == firstSection || sections.back().set != row.set)
      sections.push_back({row.set, 0, rows.size(), rows.size()});
    addRow(expander, row, kernels);
    LandingSection &section = sections.back();
    rows.back().firstTile = int64_t(section.numTiles);
    section.numTiles += uint64_t(row.numTiles());
    section.endRow = rows.size();
  }
  if (sections.size() > firstSection)
    sources.push_back({expansion.rank, firstSection, sections.size()});
}

void Landing::addRow(Expander &expander, const Row &row,
                     const delta_kernels_t &kernels) {
  const delta_tables_t &tables = expander.getTables();
  const delta_box_t &box = tables.boxes[row.box];
  const delta_class_t &type = expander.getSource().getClass(box.source_class);
  const delta_host_kernels_t *rowKernels =
      kernelsOf(kernels, type.dtype, expander.sentType(box));
  int64_t numElements = device::elementsBefore(box, row.tileEnd) -
                        device::elementsBefore(box, row.tileBegin);
  LandingRow landed = {&box,
                       rowKernels,
                       row.layer,
                       row.expert,
                       row.tileBegin,
                       row.tileEnd,
                       /*firstTile=*/0,
                       images.size(),
                       images.size()};
  for (const ImagePlace &place : expander.imagesOn(row, rank, params)) {
    images.push_back({tables.images + place.image, place.param,
                      place.expertOffset, /*data=*/nullptr});
    numCovered[place.param] += numElements;
  }
  landed.endImage = images.size();
  rows.push_back(landed);
}

/// A parameter whose class no box reaches is not the plan's business, even if
/// another class is part of it; one that only this rank's share of which
/// nothing reaches is all padding.
void Landing::listPadded(const delta_tables_t &tables) {
  std::vector<bool> isReached(tables.destination.num_classes);
  for (uint32_t i = 0; i < tables.num_boxes; ++i) {
    const delta_box_t &box = tables.boxes[i];
    for (uint32_t j = 0; j < box.num_images; ++j)
      isReached[tables.images[box.first_image + j].class_index] = true;
  }
  for (uint32_t i = 0; i < params.size(); ++i) {
    const delta_class_t &type =
        tables.destination.classes[params[i].classIndex];
    int64_t count = side->shapeOf(type, side->coordinates(rank)).numElements;
    if (isReached[params[i].classIndex] && numCovered[i] < count)
      padded.emplace_back(i, uint64_t(count) * elementSize(type.dtype));
  }
}

uint32_t Landing::findSource(uint32_t sourceRank) const {
  auto it = std::lower_bound(
      sources.begin(), sources.end(), sourceRank,
      [](const LandingSource &a, uint32_t wanted) { return a.rank < wanted; });
  if (it == sources.end() || it->rank != sourceRank)
    return DELTA_NONE;
  return uint32_t(it - sources.begin());
}

const LandingSection *Landing::findSection(const LandingSource &source,
                                           uint32_t set) const {
  for (size_t i = source.firstSection; i < source.endSection; ++i)
    if (sections[i].set == set)
      return &sections[i];
  return nullptr;
}

std::string Landing::paramName(uint32_t param) const { return names[param]; }

int64_t Landing::getNumElements(uint32_t param) const {
  const delta_class_t &type = side->getClass(params[param].classIndex);
  return side->shapeOf(type, side->coordinates(rank)).numElements;
}

std::vector<std::pair<void *, uint64_t>> Landing::getPadded() const {
  std::vector<std::pair<void *, uint64_t>> out;
  for (auto [param, numBytes] : padded)
    out.emplace_back(data[param], numBytes);
  return out;
}
