//===- Trainer.h - Write the weights of every step --------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Stands for the optimizer. With a reference program, the values of an
/// unsharded parameter are cut into the shards of all ranks by the program's
/// rules, so that an error of the plan cannot cancel. With a plan alone, the
/// values are keyed by the plan's classes: good for fingerprints only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_RUN_TRAINER_H
#define DELTA_TOOLS_RUN_TRAINER_H

#include "tools/delta-run/World.h"
#include "tools/reference/Update.h"

#include <map>

namespace delta::run {

class Trainer {
public:
  virtual ~Trainer() = default;
  /// Writes the weights after `step` steps into the memory of all ranks.
  virtual void write(int64_t step) = 0;
};

class Weights;

/// The world must outlive it, and so must the interpreter and the weights to
/// start from, which may be null.
std::unique_ptr<Trainer>
referenceTrainer(const reference::Interpreter &interpreter,
                 std::vector<Rank> &ranks, const reference::Update &update,
                 const Weights *weights);

std::unique_ptr<Trainer> planTrainer(const delta_plan_api_t &api,
                                     reference::MapSource &map,
                                     std::vector<Rank> &ranks,
                                     const reference::Update &update);

/// Where an instance of a parameter lies: every rank that holds a way of it.
struct Holder {
  size_t rank;
  size_t param;
  int64_t way;
  int64_t offset; ///< of the shard in memory, in elements
};
struct Instance {
  int64_t param, layer, expert;
  bool operator<(const Instance &other) const {
    return std::tie(param, layer, expert) <
           std::tie(other.param, other.layer, other.expert);
  }
};
/// Holders of all instances of one side's parameters; those of a copy count
/// for the parameter that it repeats.
std::map<Instance, std::vector<Holder>>
holdersOf(const reference::Interpreter &interpreter);

/// Calls function(T()) with the unsigned integer of this many bytes.
template <class F> void withWidth(int64_t width, const F &function) {
  if (width == 2)
    function(uint16_t());
  else if (width == 4)
    function(uint32_t());
  else
    function(uint64_t());
}

} // namespace delta::run

#endif // DELTA_TOOLS_RUN_TRAINER_H
