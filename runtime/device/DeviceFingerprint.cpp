//===- DeviceFingerprint.cpp - Sums of rows, on a device ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/DeviceFingerprint.h"

#include <algorithm>

using namespace delta::runtime;
using namespace delta::device;

namespace {
/// Where the parts of the device's memory begin, in bytes.
struct Places {
  uint64_t places, keys, sums, end;

  Places(const FingerprintTable &table, size_t numTerms) {
    places = table.getPieces().size() * sizeof(FingerprintPiece);
    keys = places + table.getPlaces().size() * sizeof(FingerprintPlaces);
    sums = keys + numTerms * sizeof(FingerprintKeys);
    end = sums + numTerms * sizeof(uint64_t);
  }
};
} // namespace

/// The same but for keys.
static bool isSame(const FingerprintTerm &a, const FingerprintTerm &b) {
  return a.box == b.box && a.kernels == b.kernels && a.image == b.image &&
         a.data == b.data && a.op == b.op && a.tileBegin == b.tileBegin &&
         a.tileEnd == b.tileEnd && a.position.offset == b.position.offset &&
         a.position.stride == b.position.stride &&
         a.position.num_columns == b.position.num_columns;
}

bool DeviceFingerprint::isKept(
    const std::vector<FingerprintTerm> &terms) const {
  return std::equal(terms.begin(), terms.end(), kept.begin(), kept.end(),
                    isSame);
}

/// Memory is allocated anew only where the table before was smaller.
Status DeviceFingerprint::makeTable(const std::vector<FingerprintTerm> &terms,
                                    Stream stream) {
  kept.clear();
  table.build(terms, kernels);
  const Places at(table, terms.size());
  const uint64_t shared = at.end - at.keys;
  Status status;
  if (memory.getNumBytes() < at.end)
    status = memory.allocate(device, at.end);
  if (!status.failed() && pinned.getNumBytes() < shared)
    status = pinned.allocate(device, shared, /*pinned=*/true);
  if (!status.failed())
    status = device->copy(memory.as<uint8_t>(), table.getPieces().data(),
                          at.places, stream);
  if (!status.failed())
    status =
        device->copy(memory.as<uint8_t>(at.places), table.getPlaces().data(),
                     at.keys - at.places, stream);
  if (!status.failed())
    kept = terms;
  return status;
}

Status DeviceFingerprint::enqueue(const std::vector<FingerprintTerm> &terms,
                                  Stream stream) {
  Status status;
  if (!isKept(terms))
    status = makeTable(terms, stream);
  if (status.failed())
    return status;
  const Places at(table, terms.size());
  auto *keys = pinned.as<FingerprintKeys>();
  for (size_t i = 0; i < terms.size(); ++i)
    keys[i] = {terms[i].position.row_key, terms[i].position.column_key};
  status = device->copy(memory.as(at.keys), keys, at.sums - at.keys, stream);
  if (!status.failed())
    status = device->fill(memory.as(at.sums), 0, at.end - at.sums, stream);
  if (!status.failed() && !table.getPieces().empty()) {
    FingerprintArguments arguments = {memory.as<FingerprintPiece>(),
                                      memory.as<FingerprintPlaces>(at.places),
                                      memory.as<FingerprintKeys>(at.keys),
                                      memory.as<unsigned long long>(at.sums)};
    status =
        device->launch(DeviceKernel::Fingerprint,
                       uint32_t(table.getPieces().size()), &arguments, stream);
  }
  if (status.failed())
    return status;
  return device->copy(pinned.as(at.sums - at.keys), memory.as(at.sums),
                      at.end - at.sums, stream);
}

Status DeviceFingerprint::sum(const std::vector<FingerprintTerm> &terms,
                              Stream stream, std::vector<uint64_t> &out) {
  out.assign(terms.size(), 0);
  if (terms.empty())
    return {};
  Status status = enqueue(terms, stream);
  // Also where something failed: what was enqueued reads and writes our memory.
  const Status waited = device->wait(stream);
  if (!status.failed())
    status = waited;
  if (status.failed())
    return status;
  const Places at(table, terms.size());
  auto *sums = pinned.as<uint64_t>(at.sums - at.keys);
  std::copy(sums, sums + terms.size(), out.begin());
  return {};
}
