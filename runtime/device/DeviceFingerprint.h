//===- DeviceFingerprint.h - Sums of rows, on a device ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What sumFingerprints of Fingerprint.h is for the host: the same sums, of
/// data in memory of the device, by one launch for all terms.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_DEVICEFINGERPRINT_H
#define DELTA_RUNTIME_DEVICE_DEVICEFINGERPRINT_H

#include "runtime/device/Device.h"
#include "runtime/device/FingerprintTable.h"

namespace delta::runtime {

class DeviceFingerprint {
public:
  /// Borrows the kernels.
  DeviceFingerprint(std::shared_ptr<Device> device,
                    const delta_kernels_t &kernels)
      : device(std::move(device)), kernels(kernels) {}

  /// Forms the sums of all terms, behind what is enqueued on the stream, and
  /// waits for them. The table of the last terms is kept: for the same ones,
  /// with other keys or not, nothing is allocated and no table is made.
  Status sum(const std::vector<FingerprintTerm> &terms, Stream stream,
             std::vector<uint64_t> &out);

  /// Bytes of the device that it keeps.
  uint64_t getNumBytes() const { return memory.getNumBytes(); }

private:
  bool isKept(const std::vector<FingerprintTerm> &terms) const;
  Status makeTable(const std::vector<FingerprintTerm> &terms, Stream stream);
  Status enqueue(const std::vector<FingerprintTerm> &terms, Stream stream);

  std::shared_ptr<Device> device;
  const delta_kernels_t &kernels;
  std::vector<FingerprintTerm> kept; ///< of which there is a table; may be none
  FingerprintTable table;
  DeviceBuffer memory; ///< pieces, places, keys, sums
  DeviceBuffer pinned; ///< keys, sums
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_DEVICEFINGERPRINT_H
