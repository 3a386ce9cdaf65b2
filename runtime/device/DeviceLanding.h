//===- DeviceLanding.h - The tables of a receiver's kernels -----*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A landing as kernels read it: an entry for each tile and image, so that no
/// kernel searches for a row or divides by an extent, and what comes from which
/// source. Tiles are numbered over all sections of the rank, in their order.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_DEVICELANDING_H
#define DELTA_RUNTIME_DEVICE_DEVICELANDING_H

#include "codegen/device/DestinationArguments.h"
#include "runtime/Landing.h"
#include "runtime/Stage.h"
#include "runtime/device/Device.h"

namespace delta::runtime {

class DeviceLanding {
public:
  /// Makes the tables of a bound landing of a plan; waits for their upload.
  static Status create(const std::shared_ptr<Device> &device,
                       const delta_tables_t &tables, const Landing &landing,
                       Stream stream, DeviceLanding &out);

  const device::DestinationTables &getTables() const { return tables; }
  /// Its pointers are null where no parameter is padded.
  const device::ZeroArguments &getPadding() const { return padding; }
  uint64_t getNumTiles() const { return numTiles; }
  /// Segments of all sections, and sections of the source that has most.
  uint64_t getNumSegments() const { return numSegments; }
  uint32_t getMostSections() const { return mostSections; }

  /// Tile `tile` of `landing`, which has the rows that this was made of.
  LandedTile tileOf(const Landing &landing, uint32_t tile) const;
  /// The number of its row.
  size_t rowOf(uint32_t tile) const;

private:
  class Tables;

  DeviceBuffer buffer;
  device::DestinationTables tables = {};
  device::ZeroArguments padding = {};
  std::vector<uint64_t> rowBegins; ///< first tiles
  uint64_t numTiles = 0;
  uint64_t numSegments = 0;
  uint32_t mostSections = 0;
};

/// How the elements of a tile lie in an image whose element 0 is at `data`;
/// box and image are those that kernels read.
device::DestinationTile placeTile(const delta_box_t &box,
                                  const delta_image_t &image, int64_t boxTile,
                                  uint8_t *data, uint32_t elementSize);

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_DEVICELANDING_H
