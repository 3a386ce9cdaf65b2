//===- World.cpp - The memory of all ranks --------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Allocation and binding.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/World.h"

#include "tools/reference/TaggedSide.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

namespace delta::run {

using reference::Interpreter;
using reference::LocalParam;
using reference::Shape;

Bytes allocate(int64_t size) {
  constexpr size_t kAlignment = 64;
  const size_t rounded = (size_t(size) / kAlignment + 1) * kAlignment;
  return Bytes(
      static_cast<unsigned char *>(std::aligned_alloc(kAlignment, rounded)),
      std::free);
}

static Held makeHeld(std::string name, int64_t chunk, const std::string &dtype,
                     Shape shape) {
  Held held;
  held.name = std::move(name);
  held.chunk = chunk;
  held.dtype = dtype;
  held.numElements = reference::count(shape);
  held.width = reference::byteWidth(dtype);
  held.shape = std::move(shape);
  held.data = allocate(held.numElements * held.width);
  return held;
}

static delta_dtype_t dtypeOf(const std::string &name) {
  for (const delta_dtype_t dtype :
       {DELTA_BF16, DELTA_FP16, DELTA_FP32, DELTA_INT64})
    if (reference::dtypeName(dtype) == name)
      return dtype;
  return 0;
}

std::vector<delta_param_t> Rank::bindings() const {
  std::vector<delta_param_t> bindings;
  for (const Held &held : params) {
    delta_param_t param = {};
    param.name = held.name.c_str();
    param.chunk = uint32_t(held.chunk);
    param.dtype = dtypeOf(held.dtype);
    param.rank = uint32_t(held.shape.size());
    int64_t stride = 1;
    for (size_t i = held.shape.size(); i-- > 0; stride *= held.shape[i]) {
      param.shape[i] = held.shape[i];
      param.stride[i] = stride;
    }
    param.data = held.data.get();
    bindings.push_back(param);
  }
  return bindings;
}

const Held *Rank::find(int64_t chunk, const std::string &name) const {
  for (const Held &held : params)
    if (held.chunk == chunk && held.name == name)
      return &held;
  return nullptr;
}

static Rank trainerRank(const Interpreter &interpreter, int64_t rank) {
  Rank out;
  for (const LocalParam &local : interpreter.paramsOf(rank))
    out.params.push_back(
        makeHeld(local.names.front(), local.chunk,
                 interpreter.side().params[size_t(local.param)].dtype,
                 interpreter.localShape(local.param)));
  return out;
}

World makeWorld(const Interpreter &source, const Interpreter *destination,
                int64_t replicas) {
  World world;
  world.neutral = !destination;
  for (int64_t rank = 0; rank < source.numRanks(); ++rank)
    world.sources.push_back(trainerRank(source, rank));
  for (int64_t replica = 0; replica < replicas; ++replica) {
    for (int64_t rank = 0; destination && rank < destination->numRanks();
         ++rank)
      world.receivers.push_back(trainerRank(*destination, rank));
    if (destination)
      continue;
    Rank &rank = world.receivers.emplace_back();
    for (const auto &tensor : reference::neutralTensors(source)) {
      const auto &record = source.side().tensors[size_t(tensor.tensor)];
      rank.params.push_back(
          makeHeld(tensor.name, 0, record.dtype, record.shape));
    }
  }
  return world;
}

World makeWorld(reference::MapSource &map) {
  World world;
  world.neutral = map.destinationIsHf();
  for (const delta_side_id_t side : {DELTA_SOURCE, DELTA_DESTINATION})
    for (uint32_t r = 0; r < map.numRanks(side); ++r) {
      auto &ranks = side == DELTA_SOURCE ? world.sources : world.receivers;
      Rank &rank = ranks.emplace_back();
      for (uint32_t p = 0; p < map.numParams(side, r); ++p) {
        delta_param_info_t info = {};
        if (map.param(side, r, p, info))
          rank.params.push_back(makeHeld(
              reference::namesOf(info).front(), info.chunk,
              reference::dtypeName(info.dtype), reference::shapeOf(info)));
      }
    }
  return world;
}

void scramble(std::vector<Rank> &ranks) {
  for (Rank &rank : ranks)
    for (Held &held : rank.params)
      std::memset(held.data.get(), 0xa5, size_t(held.numElements * held.width));
}

unsigned numCores() {
  return std::max(1u, std::thread::hardware_concurrency());
}

void parallelFor(int64_t count, unsigned threads,
                 const std::function<void(int64_t)> &task) {
  std::atomic<int64_t> next(0);
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++)
      task(i);
  };
  std::vector<std::thread> helpers;
  for (int64_t t = 1; t < std::min<int64_t>(threads, count); ++t)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
}

} // namespace delta::run
