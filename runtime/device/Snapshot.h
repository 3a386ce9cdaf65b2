//===- Snapshot.h - What the receivers hold, on a device --------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Where a sender of a CUDA plan keeps the values that the receivers hold, tile
/// by tile, each begun at a multiple of 16 bytes.
///
/// Pageable: the values lie in ordinary memory. A compare takes the tiles in
/// chunks; those of chunk i are uploaded to buffer i % 2, on a stream of our
/// own, while the chunk before is compared. The number of chunks depends on
/// the bytes alone, not on the number of parameters.
///
///   upload   | 0 -> A | 1 -> B |        | 2 -> A | 3 -> B |
///   caller            | diff 0 | diff 1 |        | diff 2 | ...
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_SNAPSHOT_H
#define DELTA_RUNTIME_DEVICE_SNAPSHOT_H

#include "runtime/Buffer.h"
#include "runtime/Shard.h"
#include "runtime/device/Device.h"

namespace delta::runtime {

class SourceTables;

/// Bytes of a chunk of a pageable snapshot. Two of them are the memory of the
/// device that it takes; a chunk takes 5 ms over PCIe, a launch some us.
constexpr uint64_t DefaultChunkBytes = uint64_t(256) << 20;

class Snapshot {
public:
  Snapshot() = default;
  Snapshot(const Snapshot &) = delete;
  ~Snapshot();

  /// Allocates what `shard` needs in `mode`.
  Status create(std::shared_ptr<Device> on, delta_snapshot_t mode,
                const Shard &shard, uint64_t chunkBytes);

  delta_snapshot_t getMode() const { return mode; }
  bool hasValues() const { return mode != DELTA_SNAPSHOT_BITMAP; }
  bool isUploaded() const { return mode == DELTA_SNAPSHOT_PAGEABLE; }
  /// Zeroes a snapshot on the device: an advance in rounds reads what it held.
  Status clear(Stream stream);
  /// Where the values of each tile of the shard lie, in their order; nothing
  /// without values.
  std::vector<uint8_t *> layOut(const Shard &shard) const;
  uint64_t getChunkBytes() const { return chunkBytes; }
  /// Where kernels find chunk number `index`.
  uint8_t *bufferOf(uint32_t index) const {
    return buffers.as((index % 2) * chunkBytes);
  }

  /// The upload stream follows what was enqueued on `stream`.
  Status beginUploads(Stream stream);
  /// Uploads tiles [begin, end), all of one chunk. Work enqueued on `stream`
  /// later finds them.
  Status upload(const SourceTables &tables, uint32_t chunk, int64_t begin,
                int64_t end, Stream stream);
  /// What was enqueued on `stream` for a chunk was the last that reads it.
  Status release(uint32_t chunk, Stream stream);

  /// Bytes that tiles take, each begun anew.
  static uint64_t bytesOf(const Shard &shard);

private:
  std::shared_ptr<Device> device;
  delta_snapshot_t mode = DELTA_SNAPSHOT_DEVICE;
  uint64_t chunkBytes = 0;
  DeviceBuffer values; ///< of the device, or pinned
  Buffer pageable;
  DeviceBuffer buffers; ///< two chunks
  Stream uploads = nullptr;
  void *begun = nullptr;
  void *uploaded[2] = {}, *released[2] = {};
  bool wasReleased[2] = {};
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_SNAPSHOT_H
