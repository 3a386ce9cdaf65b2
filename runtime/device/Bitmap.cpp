//===- Bitmap.cpp - What was written since a sync -------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Bitmap.h"

#include "codegen/device/PackFormat.h"

#include <algorithm>

using namespace delta::runtime;
namespace device = delta::device;

static bool hasBits(delta_dtype_t dtype) {
  return dtype == DELTA_BF16 || dtype == DELTA_FP16;
}

Status Bitmap::create(std::shared_ptr<Device> on, const delta_tables_t &tables,
                      const Shard &shard, Stream stream) {
  owner = std::move(on);
  const Side side(tables, DELTA_SOURCE);
  const Expansion &expansion = shard.getExpansion();
  uint64_t mostOnes = 0;
  numBytes = 0;
  params.clear();
  for (const Param &param : expansion.params) {
    const delta_class_t &type = side.getClass(param.classIndex);
    int64_t count =
        side.shapeOf(type, side.coordinates(expansion.rank)).numElements;
    uint64_t size = device::alignPart((uint64_t(count) + 7) / 8);
    if (!hasBits(type.dtype)) {
      mostOnes = std::max(mostOnes, size);
      size = 0;
    }
    params.push_back({numBytes, size, count, type.dtype, side.name(param)});
    numBytes += size;
  }
  // At least 16 bytes, so that there is something to point to.
  numBytes = std::max(numBytes, device::PartAlignment);
  Status status = memory.allocate(owner, 2 * numBytes);
  if (!status.failed())
    status = owner->fill(memory.as(), 0, 2 * numBytes, stream);
  if (!status.failed())
    status = ones.allocate(owner, mostOnes);
  if (!status.failed() && mostOnes)
    status = owner->fill(ones.as(), 0xff, mostOnes, stream);
  return status;
}

std::vector<const uint32_t *> Bitmap::bitsOf(const Shard &shard) const {
  std::vector<const uint32_t *> out;
  if (isUsed())
    for (const Row &row : shard.getExpansion().rows) {
      const Bits &bits = params[row.param];
      out.push_back(bits.size ? memory.as<const uint32_t>(numBytes + bits.at)
                              : ones.as<const uint32_t>());
    }
  return out;
}

device::TakeArguments Bitmap::takeArguments() const {
  return {memory.as(), memory.as(numBytes), numBytes};
}

Status Bitmap::findParam(uint32_t param) const {
  if (!isUsed())
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "the plan has values as its snapshot, required: "
                         "sync.snapshot \"bitmap\"");
  if (param >= params.size())
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "parameter %u, the rank has %zu", param,
                         params.size());
  return {};
}

Status Bitmap::castArguments(const Shard &shard, uint32_t param,
                             const float *values, int64_t first, int64_t count,
                             device::CastArguments &out) const {
  Status status = findParam(param);
  if (status.failed())
    return status;
  const Bits &bits = params[param];
  if (!bits.size)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "\"%s\": dtype %s, required: bf16 or fp16",
                         bits.name.c_str(), dtypeName(bits.dtype).c_str());
  if (first < 0 || count < 0 || first > bits.numElements - count)
    return Status::error(
        DELTA_INVALID_ARGUMENT,
        "\"%s\": %lld elements from %lld, the parameter has %lld",
        bits.name.c_str(), static_cast<long long>(count),
        static_cast<long long>(first),
        static_cast<long long>(bits.numElements));
  out = {values,
         static_cast<uint16_t *>(shard.getData()[param]),
         memory.as(bits.at),
         first,
         count,
         bits.dtype,
         0};
  return {};
}

Status Bitmap::mark(uint32_t param, Stream stream) {
  Status status = findParam(param);
  if (status.failed() || !params[param].size)
    return status;
  return owner->fill(memory.as(params[param].at), 0xff, params[param].size,
                     stream);
}

Status Bitmap::clear(Stream stream) {
  return owner->fill(memory.as(numBytes), 0, numBytes, stream);
}
