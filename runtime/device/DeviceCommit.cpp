//===- DeviceCommit.cpp - Writing what is staged on a GPU -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/DeviceIntake.h"

#include <algorithm>

using namespace delta::runtime;
namespace device = delta::device;

/// Enqueues; what it reads stays until the stream has passed it.
Status DeviceIntake::commit(const Landing &, bool isSeed, bool listsRows) {
  Status status;
  hasReached = listsRows;
  wasMoved = isMoved;
  if (listsRows)
    status = device->fill(room.reached.as(), 0, room.numTiles, stream);
  const device::ZeroArguments &padding = room.landing.getPadding();
  if (!status.failed() && isSeed && padding.numPieces)
    status = launch(DeviceKernel::Zero, padding.numPieces, &padding);
  if (status.failed() || !numAccepted)
    return status;
  const device::ScatterArguments arguments = {
      room.staged.as<device::StagedTile>(), numAccepted,
      landingOf(isMoved).getTables().tiles,
      listsRows ? room.reached.as() : nullptr, totals()};
  return launch(DeviceKernel::Scatter, numAccepted, &arguments);
}

Status DeviceIntake::getReached(std::vector<uint8_t> &outRows) {
  outRows.clear();
  if (!hasReached)
    return {};
  const DeviceLanding &to = landingOf(wasMoved);
  std::vector<uint8_t> tiles(to.getNumTiles());
  Status status = fetch(room.reached.as(), tiles.data(), tiles.size());
  if (status.failed())
    return status;
  for (uint32_t i = 0; i < tiles.size(); ++i) {
    size_t row = to.rowOf(i);
    outRows.resize(std::max(outRows.size(), row + 1));
    outRows[row] |= tiles[i];
  }
  return {};
}

static uint64_t elementOf(const LandingRow &row, int64_t boxTile,
                          const LandingImage &image, uint32_t offset) {
  return uint64_t(device::elementAt(*row.box, device::tileOf(*row.box, boxTile),
                                    offset,
                                    device::Layout::image(*image.image)));
}

/// `number` has the staged tile, its image and its value in 32, 16 and 16 bits.
Status DeviceIntake::describe(const Landing &to, uint64_t number,
                              Difference &out) {
  const uint32_t value = uint32_t(number & 0xffff);
  device::StagedTile tile;
  Status status = fetch(room.staged.as<device::StagedTile>() + (number >> 32),
                        &tile, sizeof(tile));
  if (status.failed())
    return status;
  LandedTile landed = landingOf(isMoved).tileOf(to, tile.tile);
  out.row = landed.row;
  out.boxTile = landed.boxTile;
  out.image = &to.getImages()[landed.row->firstImage + (number >> 16 & 0xffff)];
  out.offset = value;
  uint16_t offset = 0;
  if (tile.offsets) {
    status = fetch(tile.offsets + value, &offset, sizeof(offset));
    out.offset = offset;
  }
  const uint32_t size = landed.row->kernels->element_size;
  if (!status.failed())
    status = fetch(tile.values + uint64_t(value) * size, &out.sent, size);
  if (!status.failed())
    status = fetch(
        out.image->data +
            elementOf(*out.row, out.boxTile, *out.image, out.offset) * size,
        &out.found, size);
  return status;
}

Status DeviceIntake::compare(const Landing &to, uint64_t &outMismatches,
                             Difference &outFirst) {
  outMismatches = 0;
  if (!numAccepted)
    return {};
  const device::CompareArguments arguments = {
      room.staged.as<device::StagedTile>(), numAccepted,
      landingOf(isMoved).getTables().tiles, totals()};
  Status status = launch(DeviceKernel::Compare, numAccepted, &arguments);
  device::StageTotals found = {};
  if (!status.failed())
    status = fetch(totals(), &found, sizeof(found));
  if (status.failed())
    return status;
  outMismatches = found.numDiffer;
  return found.numDiffer ? describe(to, found.firstDiffer, outFirst) : status;
}

Status DeviceIntake::listTiles(const Landing &to,
                               const std::vector<StagedTile> *&out) {
  std::vector<device::StagedTile> tiles(numAccepted);
  Status status;
  if (numAccepted)
    status = fetch(room.staged.as(), tiles.data(),
                   tiles.size() * sizeof(device::StagedTile));
  listed.clear();
  for (size_t i = 0; i < tiles.size() && !status.failed(); ++i) {
    LandedTile landed = landingOf(isMoved).tileOf(to, tiles[i].tile);
    listed.push_back({landed.row, landed.boxTile, tiles[i].numElements,
                      tiles[i].count, tiles[i].offsets, tiles[i].values});
  }
  out = &listed;
  return status;
}

Status DeviceIntake::compareElements(const std::vector<ElementPair> &pairs,
                                     std::vector<uint8_t> &outDiffer) {
  outDiffer.resize(pairs.size());
  if (pairs.empty())
    return {};
  std::vector<device::ProbePair> places;
  std::vector<uint8_t> sizes;
  for (const ElementPair &pair : pairs) {
    places.push_back({pair.staged, pair.held});
    sizes.push_back(uint8_t(pair.size));
  }
  const uint64_t sizesAt = places.size() * sizeof(places[0]);
  const uint64_t differAt = sizesAt + sizes.size();
  DeviceBuffer buffer;
  Status status = buffer.allocate(device, differAt + sizes.size());
  if (!status.failed())
    status = device->copy(buffer.as(), places.data(), sizesAt, stream);
  if (!status.failed())
    status =
        device->copy(buffer.as(sizesAt), sizes.data(), sizes.size(), stream);
  const device::ProbeArguments arguments = {buffer.as<device::ProbePair>(),
                                            buffer.as(sizesAt),
                                            buffer.as(differAt), pairs.size()};
  if (!status.failed())
    status =
        launch(DeviceKernel::Probe, (pairs.size() + 255) / 256, &arguments);
  return status.failed()
             ? status
             : fetch(buffer.as(differAt), outDiffer.data(), outDiffer.size());
}

Status DeviceIntake::sumTerms(const delta_kernels_t &kernels,
                              const std::vector<FingerprintTerm> &terms,
                              std::vector<uint64_t> &out) {
  if (!sums)
    sums = std::make_unique<DeviceFingerprint>(device, kernels);
  return sums->sum(terms, stream, out);
}
