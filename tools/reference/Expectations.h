//===- Expectations.h - What every rank must hold ---------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The interpreter's answer for all ranks of both sides, laid out so that a
/// map can be compared with it one element at a time.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_EXPECTATIONS_H
#define DELTA_TOOLS_REFERENCE_EXPECTATIONS_H

#include "runtime/delta_abi.h"
#include "tools/reference/TaggedSide.h"
#include "tools/reference/Values.h"

namespace delta::reference {

/// An element that must receive nothing.
constexpr uint64_t kPadding = ~uint64_t(0);

/// One parameter of a rank, or one tensor of the neutral layout.
struct Expected {
  std::vector<std::string> names;
  int64_t chunk = 0;
  std::string dtype;
  Shape shape;               ///< of memory
  std::vector<int64_t> view; ///< how an engine shows it, see Param
  int64_t layer = kNone;
  int64_t expert = kNone;
  bool isCopy = false;
  bool isUnheld = false; ///< an engine holds none of it; it need not be sent
  /// The source tag of each element in memory, kPadding where there is none.
  /// Borrowed.
  const Array<uint64_t> *tags = nullptr;
  /// The value op of each element; null on the source side. Borrowed.
  const std::vector<delta_value_op_t> *valueOps = nullptr;
};

/// Whether an engine says that it does not hold a tensor.
bool isUnheld(const Side &engine, const std::string &tensorName);

class Expectations {
public:
  /// Executes the program. False, with `error` set, when it does not fit.
  bool build(const Program &program, std::string &error);

  const std::vector<std::vector<Expected>> &sources() const {
    return sourceRanks;
  }
  const std::vector<Expected> &neutral() const { return neutralTensors; }
  /// By receiver rank, replicas included.
  const std::vector<std::vector<Expected>> &receivers() const {
    return receiverRanks;
  }
  /// Numbers of the source side.
  const TagSpace &space() const { return sourceTags.space(); }

private:
  bool buildNeutral(std::string &error);
  bool compose(std::string &error);
  bool composeTensor(size_t from, size_t to, std::string &error);
  std::optional<delta_value_op_t> opBetween(const NeutralTensor &from,
                                            const NeutralTensor &to) const;
  void imagesOfRank(size_t rank);
  static std::vector<Expected> trainerRank(const Interpreter &interpreter,
                                           const TaggedSide::Rank &rank);

  std::optional<Interpreter> source, destination;
  TaggedSide sourceTags, destinationTags;
  /// Of each destination tag: the source tag and the value op.
  std::vector<uint64_t> image;
  std::vector<delta_value_op_t> imageOps;
  /// The same, of each parameter of each destination rank.
  std::vector<std::vector<Array<uint64_t>>> rankImages;
  std::vector<std::vector<std::vector<delta_value_op_t>>> rankOps;
  std::vector<std::vector<delta_value_op_t>> neutralOps;
  std::vector<std::vector<Expected>> sourceRanks;
  std::vector<Expected> neutralTensors;
  std::vector<std::vector<Expected>> receiverRanks;
};

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_EXPECTATIONS_H
