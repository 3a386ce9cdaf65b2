//===- FullCheck.h - Every element of every receiver ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares the memory of all receivers, bit for bit, with what the reference
/// program makes of the trainer's values. It knows nothing of the plan, and
/// works on one layer of one group of parameters at a time. For an engine the
/// values go through whole checkpoint tensors.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_RUN_FULLCHECK_H
#define DELTA_TOOLS_RUN_FULLCHECK_H

#include "tools/delta-run/Trainer.h"
#include "tools/reference/Report.h"
#include "tools/reference/TaggedSide.h"

#include <mutex>
#include <unordered_map>

namespace delta::run {

class FullCheck {
public:
  /// `destination` null: receivers hold checkpoint tensors. All of it must
  /// outlive the check.
  FullCheck(const reference::Interpreter &source,
            const reference::Interpreter *destination, const World &world,
            const reference::Update &update, const Weights *weights)
      : source(source), destination(destination), world(world), update(update),
        weights(weights) {}

  /// False, with `error` set, when the two sides cannot be joined.
  bool prepare(std::string &error);

  /// Compares with the weights after `step` steps.
  reference::Report check(int64_t step);

private:
  template <class T> using Arrays = std::vector<reference::Array<T>>;
  struct Item {
    const reference::Group *group;
    int64_t layer, expert;
  };
  /// Which element of the parameters of a group each element of its tensors is,
  /// counted one parameter after another from `firsts`.
  template <class Tag> struct Numbers {
    std::vector<uint64_t> firsts;
    Arrays<Tag> tags;
  };

  /// The source's tensor of the name and shape of one of the destination; null,
  /// with `error` set, if there is none.
  const reference::NeutralTensor *
  sourceOf(const reference::NeutralTensor &tensor, std::string &error) const;
  bool joinSides(std::string &error);
  std::vector<Item> itemsOf(const reference::Interpreter &interpreter) const;

  template <class T>
  Arrays<T> runSource(const reference::Group &group, int64_t layer,
                      int64_t expert, int64_t step, bool addScalars) const;
  template <class T> void checkNeutral(const Item &item, int64_t step);
  template <class T, class Tag>
  void checkTrainer(const Item &item, const Numbers<Tag> &numbers,
                    int64_t step);
  template <class T>
  void compare(const std::string &where, const Held &held, int64_t offset,
               const T *expected, int64_t size);

  // EngineCheck.cpp
  class SourceResults;
  bool joinEngine(std::string &error);
  template <class T, class Tag>
  void checkEngine(const Item &item, const Numbers<Tag> &numbers, int64_t step);
  template <class T, class Tag>
  void fillTensor(const Item &item, int64_t tensor, const Tag *to,
                  SourceResults &results, std::vector<T> &whole);
  template <class Value>
  void forSource(const reference::NeutralTensor &from, int64_t begin,
                 int64_t end, SourceResults &results, const Value &value);
  void checkSpareSlots();
  void checkAllCompared();

  template <class Tag>
  void checkGroup(const reference::Group &group, int64_t step);

  const reference::Interpreter &source;
  const reference::Interpreter *destination;
  const World &world;
  const reference::Update &update;
  const Weights *weights; ///< that the trainer started from, or null

  /// Of each receiver, its checkpoint tensors by name.
  std::vector<std::unordered_map<std::string, const Held *>> tensorsByName;
  std::map<Instance, std::vector<Holder>> holders; ///< of the destination
  /// Where the source side has each checkpoint tensor.
  std::unordered_map<std::string, reference::NeutralTensor> sourceTensors;
  std::vector<const reference::Group *> groupOfTensor;
  /// Whether the tensors of a source group get their scalars on the way.
  std::map<const reference::Group *, bool> addsScalars;
  /// An engine's parameters of which a tensor fills something.
  std::vector<bool> isReached;

  std::mutex mutex; ///< of the report
  reference::Report report;
};

} // namespace delta::run

#endif // DELTA_TOOLS_RUN_FULLCHECK_H
