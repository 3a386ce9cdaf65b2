//===- World.h - The memory of all ranks ------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The parameters of every trainer rank and every receiver, as they would lie
/// in processes of their own.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_RUN_WORLD_H
#define DELTA_TOOLS_RUN_WORLD_H

#include "runtime/delta_abi.h"
#include "tools/reference/Interpreter.h"
#include "tools/reference/MapSource.h"

#include <cstdlib>
#include <functional>
#include <memory>

namespace delta::run {

/// Memory aligned for vector loads.
using Bytes = std::unique_ptr<unsigned char, void (*)(void *)>;
Bytes allocate(int64_t size);

/// One parameter of one rank.
struct Held {
  std::string name; ///< local
  int64_t chunk = 0;
  std::string dtype;
  reference::Shape shape;
  reference::Shape stride; ///< in elements; not descending where it is viewed
  int64_t numElements = 0;
  int64_t width = 0; ///< bytes an element
  Bytes data = Bytes(nullptr, std::free);

  /// The index of element number `element` of memory.
  reference::Shape indexOf(int64_t element) const;
  /// Its memory in the order of its dimensions.
  Bytes rowMajor() const;
};

struct Rank {
  std::vector<Held> params;
  /// For the ABI; pointers into this rank.
  std::vector<delta_param_t> bindings() const;
  /// The parameter with this chunk and name, null when there is none.
  const Held *find(int64_t chunk, const std::string &name) const;
};

struct World {
  std::vector<Rank> sources;
  std::vector<Rank> receivers; ///< replicas included
  bool neutral = true;         ///< receivers hold checkpoint tensors
  bool engine = false;         ///< receivers hold an engine's parameters
};

/// Ranks as the reference program has them. `destination` null: whole tensors.
World makeWorld(const reference::Interpreter &source,
                const reference::Interpreter *destination, int64_t replicas);

/// Ranks as the plan has them; `engine`: its receivers are an engine's.
World makeWorld(reference::MapSource &map, bool engine);

/// Fills all receivers with this byte: a pattern that is no weight, so that an
/// element that was never written shows.
constexpr unsigned char kScrambled = 0xa5;
void scramble(std::vector<Rank> &ranks);

/// Calls task(i) for i in [0, count) on `threads` threads.
void parallelFor(int64_t count, unsigned threads,
                 const std::function<void(int64_t)> &task);

/// Threads that the machine runs at once.
unsigned numCores();

} // namespace delta::run

#endif // DELTA_TOOLS_RUN_WORLD_H
