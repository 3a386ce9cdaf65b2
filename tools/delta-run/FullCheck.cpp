//===- FullCheck.cpp - Every element of every receiver --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// For checkpoint tensors: run the source side and compare. For another trainer
/// geometry: the destination side, run on numbers, tells which element of the
/// checkpoint each element of a destination parameter is; the source side, run
/// on values, fills it in; padding is zero.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/FullCheck.h"

#include "tools/delta-run/Weights.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace delta::run {

using reference::Array;
using reference::Group;
using reference::Interpreter;
using reference::Report;

//===--- preparation ------------------------------------------------------===//

bool FullCheck::prepare(std::string &error) {
  for (const Group &group : source.groups())
    addsScalars[&group] = true;
  if (!destination) {
    tensorsByName.resize(world.receivers.size());
    for (size_t r = 0; r < world.receivers.size(); ++r)
      for (const Held &held : world.receivers[r].params)
        tensorsByName[r][held.name] = &held;
    return true;
  }
  holders = holdersOf(*destination);
  groupOfTensor.resize(source.side().tensors.size());
  for (const Group &group : source.groups())
    for (const int64_t tensor : group.tensors)
      groupOfTensor[size_t(tensor)] = &group;
  for (const reference::NeutralTensor &tensor :
       reference::neutralTensors(source))
    sourceTensors[tensor.name] = tensor;
  return world.engine ? joinEngine(error) : joinSides(error);
}

const reference::NeutralTensor *
FullCheck::sourceOf(const reference::NeutralTensor &tensor,
                    std::string &error) const {
  const auto found = sourceTensors.find(tensor.name);
  if (found != sourceTensors.end() &&
      source.side().tensors[size_t(found->second.tensor)].shape ==
          destination->side().tensors[size_t(tensor.tensor)].shape)
    return &found->second;
  error = "\"" + tensor.name + "\" is not the same tensor on both sides";
  return nullptr;
}

bool FullCheck::joinSides(std::string &error) {
  std::map<const Group *, int> seen; // 1: cancel, 2: added on the way
  for (const auto &tensor : reference::neutralTensors(*destination)) {
    const auto &record = destination->side().tensors[size_t(tensor.tensor)];
    const reference::NeutralTensor *found = sourceOf(tensor, error);
    if (!found)
      return false;
    const auto index = size_t(found->tensor);
    const auto &from = source.factsOf(source.side().tensors[index]).scalars;
    const auto &to = destination->factsOf(record).scalars;
    const Group *group = groupOfTensor[index];
    seen[group] |= from == to ? 1 : 2;
    if ((from != to && !to.empty()) || seen[group] == 3) {
      error = "\"" + tensor.name + "\" adds scalars that are not undone alike";
      return false;
    }
    addsScalars[group] = from != to;
  }
  return true;
}

/// Elements of one instance of a group's parameters.
static int64_t sizeOf(const Interpreter &interpreter, const Group &group) {
  int64_t size = 0;
  for (const int64_t param : group.params)
    size += reference::count(interpreter.side().params[size_t(param)].shape);
  return size;
}

std::vector<FullCheck::Item>
FullCheck::itemsOf(const Interpreter &interpreter) const {
  std::vector<Item> items;
  for (const Group &group : interpreter.groups())
    for (const int64_t layer : group.domain.layers)
      for (const int64_t expert : interpreter.expertsOf(group.domain))
        items.push_back({&group, layer, expert});
  std::sort(items.begin(), items.end(), [&](const Item &a, const Item &b) {
    return sizeOf(interpreter, *a.group) > sizeOf(interpreter, *b.group);
  });
  return items;
}

//===--- values -----------------------------------------------------------===//

template <class T>
FullCheck::Arrays<T> FullCheck::runSource(const Group &group, int64_t layer,
                                          int64_t expert, int64_t step,
                                          bool addScalars) const {
  Arrays<T> whole;
  for (const int64_t param : group.params) {
    const reference::Param &record = source.side().params[size_t(param)];
    Array<T> &array = whole.emplace_back(record.shape);
    valuesOf(update, weights, source, {param, layer, expert}, step, array);
  }
  return source.run(group, std::move(whole), addScalars);
}

template <class T> static std::string hexOf(T bits) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%0*llx", int(sizeof(T) * 2),
                static_cast<unsigned long long>(bits));
  return text;
}

template <class T>
void FullCheck::compare(const std::string &where, const Held &held,
                        int64_t offset, const T *expected, int64_t size) {
  const T *found = reinterpret_cast<const T *>(held.data.get()) + offset;
  int64_t mismatches = 0, first = 0;
  if (std::memcmp(found, expected, size_t(size) * sizeof(T)) != 0)
    for (int64_t e = size; e-- > 0;)
      if (found[e] != expected[e]) {
        ++mismatches;
        first = e;
      }
  const std::lock_guard<std::mutex> lock(mutex);
  report.elements += size;
  if (mismatches == 0)
    return;
  // The first by receiver and name, whichever thread comes first.
  std::string tensor =
      held.chunk ? "chunk" + std::to_string(held.chunk) + "." + held.name
                 : held.name;
  report.mismatches += mismatches;
  if (!report.first || std::tie(where, tensor) <
                           std::tie(report.first->where, report.first->tensor))
    report.first = {where, std::move(tensor), held.indexOf(offset + first),
                    hexOf(expected[first]), hexOf(found[first])};
}

#define DELTA_INSTANTIATE(T)                                                   \
  template FullCheck::Arrays<T> FullCheck::runSource(                          \
      const Group &, int64_t, int64_t, int64_t, bool) const;                   \
  template void FullCheck::compare(const std::string &, const Held &, int64_t, \
                                   const T *, int64_t);
DELTA_INSTANTIATE(uint16_t)
DELTA_INSTANTIATE(uint32_t)
DELTA_INSTANTIATE(uint64_t)
#undef DELTA_INSTANTIATE

//===--- checkpoint tensors -----------------------------------------------===//

template <class T>
void FullCheck::checkNeutral(const Item &item, int64_t step) {
  if (item.group->tensors.empty())
    return;
  const Arrays<T> results = runSource<T>(*item.group, item.layer, item.expert,
                                         step, /*addScalars=*/true);
  for (size_t i = 0; i < results.size(); ++i) {
    const int64_t tensor = item.group->tensors[i];
    const bool stack = source.side().tensors[size_t(tensor)].stack;
    const std::string name = source.tensorName(tensor, item.layer, item.expert);
    const int64_t size = results[i].size();
    // At first the receivers must hold the file's own bytes.
    if (weights && step == 0)
      std::memcpy(results[i].data.get(),
                  weights->tensor(name) +
                      (stack ? size_t(item.expert * size) * sizeof(T) : 0),
                  size_t(size) * sizeof(T));
    const std::string &dtype = source.side().tensors[size_t(tensor)].dtype;
    const auto cast = reference::castOf(item.group->dtype, dtype);
    auto compareAll = [&](const auto *expected) {
      for (size_t r = 0; r < tensorsByName.size(); ++r)
        compare("receiver " + std::to_string(r), *tensorsByName[r].at(name),
                stack ? item.expert * size : 0, expected, size);
    };
    if (!cast) {
      compareAll(results[i].data.get());
      continue;
    }
    withWidth(reference::byteWidth(dtype), [&](auto element) {
      std::vector<decltype(element)> converted;
      for (int64_t e = 0; e < size; ++e)
        converted.push_back(
            static_cast<decltype(element)>(cast(results[i].data[e])));
      compareAll(converted.data());
    });
  }
}

//===--- another trainer geometry -----------------------------------------===//

template <class T, class Tag>
void FullCheck::checkTrainer(const Item &item, const Numbers<Tag> &numbers,
                             int64_t step) {
  const Group &group = *item.group;
  const auto &[firsts, tags] = numbers;
  std::vector<T> whole(firsts.back(), T(0));
  // A source group and the layer that it is run for.
  std::map<std::pair<const Group *, int64_t>, Arrays<T>> results;
  for (size_t i = 0; i < group.tensors.size(); ++i) {
    const reference::NeutralTensor &tensor = sourceTensors.at(
        destination->tensorName(group.tensors[i], item.layer, item.expert));
    const Group *from = groupOfTensor[size_t(tensor.tensor)];
    Arrays<T> &arrays = results[{from, tensor.layer}];
    if (arrays.empty())
      arrays = runSource<T>(*from, tensor.layer, item.expert, step,
                            addsScalars.at(from));
    const auto place =
        std::find(from->tensors.begin(), from->tensors.end(), tensor.tensor) -
        from->tensors.begin();
    const T *values = arrays[size_t(place)].data.get();
    const Tag *to = tags[i].data.get();
    for (int64_t e = 0, size = tags[i].size(); e < size; ++e)
      whole[to[e]] = values[e];
  }
  const size_t perReplica = size_t(destination->numRanks());
  for (size_t p = 0; p < group.params.size(); ++p) {
    const int64_t param = group.params[p];
    const auto &shape = destination->side().params[size_t(param)].shape;
    Array<T> shard(destination->localShape(param));
    for (const Holder &holder : holders.at({param, item.layer, item.expert})) {
      reference::cutShard(whole.data() + firsts[p], shape,
                          destination->splitOf(param), holder.way,
                          shard.data.get());
      for (size_t r = holder.rank; r < world.receivers.size(); r += perReplica)
        compare("receiver " + std::to_string(r),
                world.receivers[r].params[holder.param], 0, shard.data.get(),
                shard.size());
    }
  }
}

/// All instances of one group of the destination. A group without tensors must
/// be zero. Tag is wide enough to number the elements of an instance.
template <class Tag>
void FullCheck::checkGroup(const Group &group, int64_t step) {
  Numbers<Tag> numbers;
  std::vector<uint64_t> &firsts = numbers.firsts;
  firsts = {0};
  Arrays<Tag> counted;
  for (const int64_t param : group.params) {
    Array<Tag> &array =
        counted.emplace_back(destination->side().params[size_t(param)].shape);
    std::iota(array.data.get(), array.data.get() + array.size(),
              Tag(firsts.back()));
    firsts.push_back(firsts.back() + uint64_t(array.size()));
  }
  numbers.tags =
      destination->run(group, std::move(counted), /*addScalars=*/false);
  for (size_t p = 0; p < group.params.size(); ++p)
    isReached[size_t(group.params[p])] = std::any_of(
        numbers.tags.begin(), numbers.tags.end(), [&](const Array<Tag> &tags) {
          return std::any_of(
              tags.data.get(), tags.data.get() + tags.size(),
              [&](Tag tag) { return tag >= firsts[p] && tag < firsts[p + 1]; });
        });
  std::vector<Item> items;
  for (const int64_t layer : group.domain.layers)
    for (const int64_t expert : destination->expertsOf(group.domain))
      items.push_back({&group, layer, expert});
  parallelFor(int64_t(items.size()), numCores(), [&](int64_t i) {
    withWidth(reference::byteWidth(group.dtype), [&](auto element) {
      using T = decltype(element);
      if (world.engine)
        checkEngine<T>(items[size_t(i)], numbers, step);
      else
        checkTrainer<T>(items[size_t(i)], numbers, step);
    });
  });
}

Report FullCheck::check(int64_t step) {
  report = Report();
  for (const Rank &rank : world.receivers)
    report.tensors += int64_t(rank.params.size());
  if (destination) {
    isReached.assign(destination->side().params.size(), false);
    for (const Group &group : destination->groups())
      if (sizeOf(*destination, group) < int64_t(UINT32_MAX))
        checkGroup<uint32_t>(group, step);
      else
        checkGroup<uint64_t>(group, step);
    if (world.engine) {
      checkSpareSlots();
      checkAllCompared();
    }
    return report;
  }
  const std::vector<Item> items = itemsOf(source);
  parallelFor(int64_t(items.size()), numCores(), [&](int64_t i) {
    withWidth(reference::byteWidth(items[size_t(i)].group->dtype),
              [&](auto element) {
                checkNeutral<decltype(element)>(items[size_t(i)], step);
              });
  });
  return report;
}

} // namespace delta::run
