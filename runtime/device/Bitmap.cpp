//===- Bitmap.cpp - What was written since a sync -------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Bitmap.h"

#include "runtime/Replicas.h"

#include <algorithm>
#include <map>
#include <tuple>

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
  auto typeOf = [&](const Param &param) -> const delta_class_t & {
    return side.getClass(param.classIndex);
  };
  mostOnes = numBytes = 0;
  params.clear();
  for (const Param &param : expansion.params) {
    const delta_class_t &type = typeOf(param);
    int64_t count =
        side.shapeOf(type, side.coordinates(expansion.rank)).numElements;
    uint64_t size = device::alignPart((uint64_t(count) + 7) / 8);
    if (!hasBits(type.dtype)) {
      mostOnes = std::max(mostOnes, size);
      size = 0;
    }
    params.push_back({0, size, count, type.dtype, side.name(param)});
  }
  for (bool ofExperts : {false, true}) {
    if (ofExperts)
      expertsAt = numBytes;
    for (size_t i = 0; i < params.size(); ++i)
      if ((typeOf(expansion.params[i]).num_experts != 0) == ofExperts) {
        params[i].at = numBytes;
        numBytes += params[i].size;
      }
  }
  Status status = allocate(stream);
  return status.failed() ? status : makeOthers(tables, shard, stream);
}

/// At least 16 bytes, so that there is something to point to.
Status Bitmap::allocate(Stream stream) {
  const uint64_t size = std::max(numBytes, device::PartAlignment);
  Status status = memory.allocate(owner, size);
  if (!status.failed())
    status = owner->fill(memory.as(), 0, size, stream);
  if (!status.failed())
    status = ones.allocate(owner, mostOnes);
  if (!status.failed() && mostOnes)
    status = owner->fill(ones.as(), 0xff, mostOnes, stream);
  return status;
}

/// What the rank holds of rows with several holders, less what it sends.
Status Bitmap::makeOthers(const delta_tables_t &tables, const Shard &shard,
                          Stream stream) {
  const Expansion &expansion = shard.getExpansion();
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>,
           std::pair<int64_t, int64_t>>
      own;
  for (const Row &row : expansion.rows)
    own[{row.box, row.layer, row.expert, row.param}] = {row.tileBegin,
                                                        row.tileEnd};
  std::vector<device::OtherRow> rows;
  numOtherTiles = 0;
  auto add = [&](const ReplicaRow &row, int64_t begin, int64_t end) {
    if (begin == end || !params[row.param].size)
      return;
    rows.push_back({owner->getBoxes() + row.box,
                    memory.as<uint32_t>(params[row.param].at), row.expertOffset,
                    begin, numOtherTiles});
    numOtherTiles += end - begin;
  };
  for (const ReplicaRow &row : replicaRows(Expander(tables), expansion.rank)) {
    const int64_t numTiles = tables.boxes[row.box].num_tiles;
    auto found = own.find({row.box, row.layer, row.expert, row.param});
    auto [begin, end] = found == own.end()
                            ? std::pair<int64_t, int64_t>(numTiles, numTiles)
                            : found->second;
    add(row, 0, begin);
    add(row, end, numTiles);
  }
  numOtherRows = int64_t(rows.size());
  const uint64_t size = rows.size() * sizeof(device::OtherRow);
  Status status = others.allocate(owner, size);
  if (!status.failed() && size)
    status = owner->copy(others.as(), rows.data(), size, stream);
  return status.failed() ? status : owner->wait(stream);
}

std::vector<const uint32_t *> Bitmap::bitsOf(const Shard &shard) const {
  std::vector<const uint32_t *> out;
  if (isUsed())
    for (const Row &row : shard.getExpansion().rows) {
      const Bits &bits = params[row.param];
      out.push_back(bits.size ? memory.as<const uint32_t>(bits.at) : getOnes());
    }
  return out;
}

Status Bitmap::marksOf(bool ofExperts, void *&out, uint64_t &outBytes) const {
  Status status = requireUsed();
  if (status.failed())
    return status;
  out = memory.as(ofExperts ? expertsAt : 0);
  outBytes = ofExperts ? numBytes - expertsAt : expertsAt;
  return {};
}

device::DropArguments Bitmap::dropArguments() const {
  return {others.as<const device::OtherRow>(), numOtherRows, numOtherTiles};
}

Status Bitmap::requireUsed() const {
  if (isUsed())
    return {};
  return Status::error(DELTA_INVALID_ARGUMENT,
                       "the plan has values as its snapshot, required: "
                       "sync.snapshot \"bitmap\"");
}

Status Bitmap::findParam(uint32_t param) const {
  Status status = requireUsed();
  if (status.failed())
    return status;
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
