//===- Side.h - Ranks and parameters of one side ----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One side of a plan: the coordinates of its ranks, and the parameters that
/// each of them holds. Sender, receiver and index expand their tables here and
/// nowhere else.
///
/// Worked rank. TP 2, EP 4, ETP 1, DP 2, PP 2: a stage has 4 ranks. Rank 6 is
/// on stage 1; as a dense rank tp 0, dp 1; as an expert rank ep 2.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_SIDE_H
#define DELTA_RUNTIME_SIDE_H

#include "runtime/Slots.h"

#include <string>
#include <vector>

namespace delta::runtime {

struct Coordinates {
  uint32_t replica, pp;
  uint32_t tp, cp, dp;
  uint32_t etp, ep, edp;
};

/// What a rank holds of a class. Strides are those of memory.
struct ParamShape {
  int64_t shape[DELTA_MAX_RANK];
  int64_t stride[DELTA_MAX_RANK];
  int64_t numElements;
};

/// A parameter of a rank. `layer` is a row of the layer table and `expert` a
/// global number; DELTA_NONE where the class has none or stacks its experts.
struct Param {
  uint32_t classIndex;
  uint32_t layer;
  uint32_t expert;
};

/// One side. Borrows the tables.
class Side {
public:
  /// A neutral destination has the classes of the neutral side and the replicas
  /// of the destination. `placement` is where an engine's experts are now;
  /// null: where the plan was compiled for.
  Side(const delta_tables_t &tables, delta_side_id_t id,
       std::shared_ptr<const Slots> placement = nullptr);

  uint32_t getNumRanks() const { return numReplicas * getRanksPerReplica(); }
  uint32_t getRanksPerReplica() const { return side->ranks_per_replica; }
  uint32_t getRanksPerStage() const { return side->tp * side->cp * side->dp; }
  uint32_t getNumReplicas() const { return numReplicas; }
  bool isNeutral() const { return neutral; }
  /// An inference engine's ranks.
  bool isOfEngine() const { return isEngine; }
  const delta_side_t &getTable() const { return *side; }
  /// Null: experts lie as getTable().experts says.
  const std::shared_ptr<const Slots> &getSlots() const { return slots; }
  const delta_class_t &getClass(uint32_t index) const {
    return side->classes[index];
  }

  Coordinates coordinates(uint32_t rank) const;

  /// Which shard of the class a rank holds, whatever its layers and experts.
  uint32_t wayOf(const delta_class_t &type, const Coordinates &at) const;

  /// The stage on which `layer` of the class lives, DELTA_NONE if the class
  /// has no such layer.
  uint32_t stageOf(const delta_class_t &type, uint32_t layer) const;
  uint32_t chunkOf(const delta_class_t &type, uint32_t layer) const;

  /// Layers of the class on a stage, ascending; {DELTA_NONE} for a class
  /// outside layers that lives there.
  std::vector<uint32_t> layersOf(const delta_class_t &type,
                                 uint32_t stage) const;

  /// Whether the experts of the class lie in slots.
  bool hasSlots(const delta_class_t &type) const {
    return slots && type.expert_stride != 0;
  }

  /// Experts of the class at an expert-parallel coordinate, ascending;
  /// {DELTA_NONE} for a class without experts. Not for a class with slots.
  std::vector<uint32_t> expertsOf(const delta_class_t &type, uint32_t ep) const;

  /// Where the slice of `expert` begins in its parameter. Not for a class with
  /// slots.
  int64_t expertOffset(const delta_class_t &type, uint32_t expert) const;

  /// Where `slot`, one of those of `ep`, begins in the parameter of a class.
  int64_t slotOffset(const delta_class_t &type, uint32_t ep,
                     uint32_t slot) const {
    return int64_t(slot - slots->firstOf(ep)) * type.expert_stride;
  }

  /// Where the values of a class that is part of another begin in that one's
  /// parameter.
  int64_t partOffset(const delta_class_t &type, uint32_t ep) const;

  /// Sizes and strides of the class on a rank.
  ParamShape shapeOf(const delta_class_t &type, const Coordinates &at) const;

  /// Parameters of a rank by class, layer, expert. A class that is part of
  /// another has none.
  std::vector<Param> params(uint32_t rank) const;

  /// Position in `params` of what holds (class, layer, expert); DELTA_NONE if
  /// nothing does. Stacked experts are found by any of them, a class that is
  /// part of another in that one's parameter.
  uint32_t find(const std::vector<Param> &params, uint32_t classIndex,
                uint32_t layer, uint32_t expert) const;

  /// Name number `alternative` of a parameter: local numbers on a trainer side,
  /// global ones elsewhere.
  std::string name(const Param &param, uint32_t alternative = 0) const;

private:
  /// Slices of experts that a stacked parameter has at a coordinate, those that
  /// are not of the class itself left out.
  uint32_t numSlices(const delta_class_t &type, uint32_t ep) const;

  const delta_tables_t *tables;
  const delta_side_t *side;
  uint32_t numReplicas;
  bool neutral;
  bool isEngine;
  std::shared_ptr<const Slots> slots;
};

/// Number `position` of the dimensions of a class in the order of memory,
/// outermost first.
inline uint32_t dimensionAt(const delta_class_t &type, uint32_t position) {
  return type.order ? type.order >> 4 * position & 15 : position;
}

/// Elements of the largest shard of the class.
int64_t numElements(const delta_class_t &type);

/// Bytes of an element, 0 for an unknown type.
uint32_t elementSize(delta_dtype_t dtype);

/// "bf16", "fp16", "fp32", "int64", or "dtype 9".
std::string dtypeName(delta_dtype_t dtype);

/// "[2048, 512]".
std::string shapeText(const int64_t *shape, uint32_t rank);

} // namespace delta::runtime

#endif // DELTA_RUNTIME_SIDE_H
