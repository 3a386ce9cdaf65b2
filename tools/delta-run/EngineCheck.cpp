//===- EngineCheck.cpp - Every element of every engine rank ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// By way of checkpoint tensors: the source side, run on values, gives them,
/// rounded to their types; the layout, run on numbers, tells where each of
/// their elements lies; and there it must be in the engine's form and type.
/// What a tensor fills in part is zero elsewhere; what none fills must be as
/// the engine had it.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/FullCheck.h"

#include "tools/delta-run/Weights.h"
#include "tools/reference/Expectations.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace delta::run {

using reference::Array;
using reference::Group;
using reference::kNone;
using reference::NeutralTensor;

bool FullCheck::joinEngine(std::string &error) {
  std::set<std::string> held;
  for (const NeutralTensor &tensor : reference::neutralTensors(*destination)) {
    const auto &record = destination->side().tensors[size_t(tensor.tensor)];
    const NeutralTensor *found = sourceOf(tensor, error);
    if (!found)
      return false;
    if (!destination->factsOf(record).scalars.empty()) {
      error = "\"" + tensor.name + "\" adds to what an engine holds";
      return false;
    }
    held.insert(tensor.name);
  }
  for (const auto &[name, tensor] : sourceTensors)
    if (!held.count(name) && !reference::isUnheld(destination->side(), name)) {
      error = "\"" + name + "\" is not held by " + destination->side().engine +
              ", which does not say so";
      return false;
    }
  return true;
}

/// What the source's groups give, kept while one item is checked.
class FullCheck::SourceResults {
public:
  SourceResults(const FullCheck &check, int64_t step)
      : check(check), step(step) {}

  template <class T>
  const Arrays<T> &of(const Group &group, int64_t layer, int64_t expert) {
    Arrays<T> &arrays =
        std::get<Known<T>>(known)[std::make_tuple(&group, layer, expert)];
    if (arrays.empty())
      arrays = check.runSource<T>(group, layer, expert, step,
                                  /*addScalars=*/true);
    return arrays;
  }

private:
  template <class T>
  using Known =
      std::map<std::tuple<const Group *, int64_t, int64_t>, Arrays<T>>;
  const FullCheck &check;
  const int64_t step;
  std::tuple<Known<uint16_t>, Known<uint32_t>, Known<uint64_t>> known;
};

/// Calls value(element, bits) for the elements [begin, end) of a tensor, in the
/// tensor's type.
template <class Value>
void FullCheck::forSource(const NeutralTensor &from, int64_t begin, int64_t end,
                          SourceResults &results, const Value &value) {
  const auto &record = source.side().tensors[size_t(from.tensor)];
  const Group &group = *groupOfTensor[size_t(from.tensor)];
  const auto place = size_t(
      std::find(group.tensors.begin(), group.tensors.end(), from.tensor) -
      group.tensors.begin());
  const auto cast = reference::castOf(group.dtype, record.dtype);
  const int64_t slice =
      reference::count(record.shape) / (record.stack ? record.shape[0] : 1);
  withWidth(reference::byteWidth(group.dtype), [&](auto element) {
    using S = decltype(element);
    for (int64_t at = begin; at < end;) {
      const int64_t expert = record.stack ? at / slice : from.expert;
      const int64_t first = record.stack ? expert * slice : 0;
      const int64_t next = std::min(end, first + slice);
      const S *bits =
          results.of<S>(group, from.layer, expert)[place].data.get();
      for (; at < next; ++at)
        value(at, cast ? cast(bits[at - first]) : uint64_t(bits[at - first]));
    }
  });
}

/// Writes a tensor, or an expert's slice of one, to where its elements lie.
template <class T, class Tag>
void FullCheck::fillTensor(const Item &item, int64_t tensor, const Tag *to,
                           SourceResults &results, std::vector<T> &whole) {
  const auto &record = destination->side().tensors[size_t(tensor)];
  const NeutralTensor &from = sourceTensors.at(
      destination->tensorName(tensor, item.layer, item.expert));
  const int64_t total = reference::count(record.shape);
  const int64_t size = record.stack ? total / record.shape[0] : total;
  const int64_t begin = record.stack ? item.expert * size : 0;
  const auto held = reference::engineValue(
      {source.side().tensors[size_t(from.tensor)].dtype,
       destination->factsOf(record).form, item.group->dtype});
  forSource(from, begin, begin + size, results,
            [&](int64_t element, uint64_t bits) {
              whole[to[element - begin]] = T(held ? held(bits) : bits);
            });
}

template <class T, class Tag>
void FullCheck::checkEngine(const Item &item, const Numbers<Tag> &numbers,
                            int64_t step) {
  const Group &group = *item.group;
  std::vector<T> whole(numbers.firsts.back(), T(0));
  SourceResults results(*this, step);
  for (size_t i = 0; i < group.tensors.size(); ++i)
    fillTensor(item, group.tensors[i], numbers.tags[i].data.get(), results,
               whole);
  const size_t perReplica = size_t(destination->numRanks());
  for (size_t p = 0; p < group.params.size(); ++p) {
    const int64_t param = group.params[p];
    const auto &shape = destination->side().params[size_t(param)].shape;
    Array<T> shard(destination->localShape(param));
    std::memset(shard.data.get(), kScrambled, size_t(shard.size()) * sizeof(T));
    for (const Holder &holder : holders.at({param, item.layer, item.expert})) {
      if (isReached[size_t(param)])
        reference::cutShard(whole.data() + numbers.firsts[p], shape,
                            destination->splitOf(param), holder.way,
                            shard.data.get());
      for (size_t r = holder.rank; r < world.receivers.size(); r += perReplica)
        compare("receiver " + std::to_string(r),
                world.receivers[r].params[holder.param], holder.offset,
                shard.data.get(), shard.size());
    }
  }
}

/// Slots behind the experts' in which no parameter lies: zero.
void FullCheck::checkSpareSlots() {
  const int64_t perReplica = destination->numRanks();
  for (size_t r = 0; r < world.receivers.size(); ++r) {
    const auto params = destination->paramsOf(int64_t(r) % perReplica);
    for (size_t p = 0; p < params.size(); ++p) {
      const int64_t param = params[p].param;
      if (!destination->side().params[size_t(param)].stack)
        continue;
      const int64_t size = reference::count(destination->localShape(param));
      std::set<int64_t> taken;
      for (const reference::Piece &piece : params[p].pieces)
        taken.insert(piece.offset);
      const Held &held = world.receivers[r].params[p];
      withWidth(held.width, [&](auto element) {
        using T = decltype(element);
        std::vector<T> expected(static_cast<size_t>(size));
        if (!isReached[size_t(param)])
          std::memset(expected.data(), kScrambled, size_t(size) * sizeof(T));
        for (int64_t slot = 0; slot < params[p].shape[0]; ++slot)
          if (!taken.count(slot * size))
            compare("receiver " + std::to_string(r), held, slot * size,
                    expected.data(), size);
      });
    }
  }
}

/// No element may have been forgotten, or met twice.
void FullCheck::checkAllCompared() {
  int64_t numElements = 0;
  for (const Rank &rank : world.receivers)
    for (const Held &held : rank.params)
      numElements += held.numElements;
  if (numElements != report.elements)
    report.add({"all receivers", "", std::nullopt,
                std::to_string(numElements) + " elements to be compared",
                std::to_string(report.elements)});
}

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are types.
#define DELTA_INSTANTIATE(T)                                                   \
  template void FullCheck::checkEngine<T>(const Item &,                        \
                                          const Numbers<uint32_t> &, int64_t); \
  template void FullCheck::checkEngine<T>(const Item &,                        \
                                          const Numbers<uint64_t> &, int64_t);
DELTA_INSTANTIATE(uint16_t)
DELTA_INSTANTIATE(uint32_t)
DELTA_INSTANTIATE(uint64_t)
#undef DELTA_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

} // namespace delta::run
