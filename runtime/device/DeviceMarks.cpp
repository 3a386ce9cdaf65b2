//===- DeviceMarks.cpp - Casts, and what marks become of ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The part of DevicePacking that a bitmap needs.
///
//===----------------------------------------------------------------------===//

#include "runtime/device/DevicePacking.h"

using namespace delta::runtime;
namespace device = delta::device;

Status DevicePacking::cast(uint32_t param, const float *from, int64_t first,
                           int64_t count) {
  device::CastArguments arguments;
  Status status =
      bitmap.castArguments(*shard, param, from, first, count, arguments);
  if (status.failed() || count == 0)
    return status;
  if (device->kindOf(from) != MemoryKind::Device)
    return Status::error(DELTA_INVALID_ARGUMENT, "values: %s, required: %s",
                         textOf(device->kindOf(from)),
                         textOf(MemoryKind::Device));
  // A thread takes 8 elements.
  return launch(DeviceKernel::Cast,
                uint64_t(count) / (8 * shapeOf(DeviceKernel::Cast).numThreads) +
                    1,
                &arguments);
}

Status DevicePacking::mark(uint32_t param) {
  return bitmap.mark(param, stream);
}

Status DevicePacking::marks(bool ofExperts, void *&out, uint64_t &outBytes) {
  return bitmap.marksOf(ofExperts, out, outBytes);
}

Status DevicePacking::dropMarks() {
  void *marks = nullptr;
  uint64_t numBytes = 0;
  Status status = bitmap.marksOf(/*ofExperts=*/false, marks, numBytes);
  const device::DropArguments arguments = bitmap.dropArguments();
  if (status.failed() || !arguments.numTiles)
    return status;
  return launchWarps(DeviceKernel::Drop, arguments.numTiles, &arguments);
}

/// A warp takes a tile at a time.
Status DevicePacking::launchWarps(DeviceKernel kernel, int64_t numTiles,
                                  const void *arguments) {
  const uint64_t numWarps = shapeOf(kernel).numThreads / 32;
  return launch(kernel, (uint64_t(numTiles) + numWarps - 1) / numWarps,
                arguments);
}

bool DevicePacking::takesMarks(Extent of) const {
  return bitmap.isUsed() && of != Extent::Replay;
}

device::MarkedTiles DevicePacking::markedTiles() const {
  device::MarkedTiles out = work->markedTiles();
  out.ones = bitmap.getOnes();
  return out;
}

/// Directly behind the Diff of tiles [begin, end), so that no cast comes in
/// between. A packed delta tells which marks it took; of a full sync, which
/// does not, they become unsure tiles.
Status DevicePacking::takeMarks(Extent of, int64_t begin, int64_t end) {
  if (!takesMarks(of))
    return {};
  device::TakeArguments arguments = {};
  arguments.of = markedTiles();
  arguments.tileBegin = begin;
  arguments.tileEnd = end;
  arguments.totals = work->totalsOfDevice();
  arguments.taken = work->taken();
  arguments.numTaken = work->numTaken();
  arguments.unsure = of == Extent::Changed ? nullptr : unsure.as();
  return launchWarps(DeviceKernel::Take, end - begin, &arguments);
}

/// Of the taken tiles: marks what is packed of them again or, where the packed
/// round is sent and goes, makes them unsure.
Status DevicePacking::enqueueRestore(bool isSent) {
  if (!bitmap.isUsed())
    return {};
  const device::RestoreArguments arguments = {
      markedTiles(), work->taken(), &work->orders(),
      isSent ? nullptr : offsets.as<const uint16_t>(), unsure.as()};
  return launchWarps(DeviceKernel::Restore, work->getNumTiles(), &arguments);
}

/// Marks again what is packed and not acknowledged; nothing packed is left.
Status DevicePacking::restoreMarks() {
  if (!bitmap.isUsed() || !capacity)
    return {};
  Status status = enqueueRestore(/*isSent=*/false);
  return status.failed() ? status : forgetTaken();
}

Status DevicePacking::forgetTaken() {
  return device->fill(work->taken(), 0, sizeof(device::TakenTiles), stream);
}
