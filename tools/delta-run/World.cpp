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
#include "tools/reference/Values.h"

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
                     Shape shape, Shape stride) {
  Held held;
  held.name = std::move(name);
  held.chunk = chunk;
  held.dtype = dtype;
  held.numElements = reference::count(shape);
  held.width = reference::byteWidth(dtype);
  held.shape = std::move(shape);
  held.stride = std::move(stride);
  held.data = allocate(held.numElements * held.width);
  return held;
}

/// Memory has no gaps, so the strides alone tell the digits of a place.
Shape Held::indexOf(int64_t element) const {
  Shape index;
  for (size_t i = 0; i < shape.size(); ++i)
    index.push_back(element / stride[i] % shape[i]);
  return index;
}

Bytes Held::rowMajor() const {
  Bytes out = allocate(numElements * width);
  Shape index(shape.size(), 0);
  for (int64_t e = 0; e < numElements; ++e) {
    int64_t place = 0;
    for (size_t i = 0; i < shape.size(); ++i)
      place += index[i] * stride[i];
    std::memcpy(out.get() + e * width, data.get() + place * width,
                size_t(width));
    for (size_t i = shape.size(); i-- > 0 && ++index[i] == shape[i];)
      index[i] = 0;
  }
  return out;
}

std::vector<delta_param_t> Rank::bindings() const {
  std::vector<delta_param_t> bindings;
  for (const Held &held : params) {
    delta_param_t param = {};
    param.name = held.name.c_str();
    param.chunk = uint32_t(held.chunk);
    param.dtype = reference::dtypeNumber(held.dtype);
    param.rank = uint32_t(held.shape.size());
    std::copy(held.shape.begin(), held.shape.end(), param.shape);
    std::copy(held.stride.begin(), held.stride.end(), param.stride);
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

/// A rank of a trainer or of an engine.
static Rank rankOf(const Interpreter &interpreter, int64_t rank) {
  Rank out;
  for (const LocalParam &local : interpreter.paramsOf(rank)) {
    const auto &param = interpreter.side().params[size_t(local.param)];
    out.params.push_back(makeHeld(
        local.names.front(), local.chunk, param.dtype,
        reference::viewed(local.shape, param.view),
        reference::viewed(reference::stridesOf(local.shape), param.view)));
  }
  return out;
}

World makeWorld(const Interpreter &source, const Interpreter *destination,
                int64_t replicas) {
  World world;
  world.neutral = !destination;
  world.engine = destination && !destination->side().engine.empty();
  for (int64_t rank = 0; rank < source.numRanks(); ++rank)
    world.sources.push_back(rankOf(source, rank));
  for (int64_t replica = 0; replica < replicas; ++replica) {
    for (int64_t rank = 0; destination && rank < destination->numRanks();
         ++rank)
      world.receivers.push_back(rankOf(*destination, rank));
    if (destination)
      continue;
    Rank &rank = world.receivers.emplace_back();
    for (const auto &tensor : reference::neutralTensors(source)) {
      const auto &record = source.side().tensors[size_t(tensor.tensor)];
      rank.params.push_back(makeHeld(tensor.name, 0, record.dtype, record.shape,
                                     reference::stridesOf(record.shape)));
    }
  }
  return world;
}

World makeWorld(reference::MapSource &map, bool engine) {
  World world;
  world.engine = engine;
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
              reference::dtypeName(info.dtype), reference::shapeOf(info),
              Shape(info.stride, info.stride + info.rank)));
      }
    }
  return world;
}

void scramble(std::vector<Rank> &ranks) {
  for (Rank &rank : ranks)
    for (Held &held : rank.params)
      std::memset(held.data.get(), kScrambled,
                  size_t(held.numElements * held.width));
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
