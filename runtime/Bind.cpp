//===- Bind.cpp - Pointers to the parameters of a rank --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Bind.h"

#include <algorithm>
#include <map>

using namespace delta::runtime;

namespace {

using Key = std::pair<uint32_t, std::string>; // chunk, name

/// The memory of one bound parameter.
struct Extent {
  uintptr_t begin, end;
  uint32_t param;
};

class Binder {
public:
  Binder(const Side &side, uint32_t rank, const std::vector<Param> &required,
         std::vector<void *> &data)
      : side(side), rank(rank), required(required), data(data) {}

  Status bind(const delta_param_t *bound, uint32_t numBound);

private:
  Status mismatch(const Key &key, const std::string &what) const {
    return Status::error(DELTA_BIND_MISMATCH,
                         "rank %u: \"%s\" (chunk %u): bind: %s", rank,
                         key.second.c_str(), key.first, what.c_str());
  }
  Key keyOf(uint32_t param, uint32_t alternative = 0) const;
  Status collect(const delta_param_t *bound, uint32_t numBound);
  Status take(uint32_t param);
  ParamShape shapeOf(uint32_t param) const;
  Status check(const Key &key, uint32_t param,
               const delta_param_t &bound) const;
  Status checkOverlaps() const;
  bool isAlias(const delta_param_t &bound) const;
  bool mayShare(const Extent &left, const Extent &right) const;

  const Side &side;
  uint32_t rank;
  const std::vector<Param> &required;
  std::vector<void *> &data;
  std::map<Key, const delta_param_t *> unused;
};

} // namespace

Key Binder::keyOf(uint32_t param, uint32_t alternative) const {
  const Param &instance = required[param];
  const delta_class_t &type = side.getClass(instance.classIndex);
  return {side.chunkOf(type, instance.layer), side.name(instance, alternative)};
}

Status Binder::collect(const delta_param_t *bound, uint32_t numBound) {
  for (uint32_t i = 0; i < numBound; ++i) {
    if (!bound[i].name)
      return Status::error(DELTA_INVALID_ARGUMENT,
                           "rank %u: bind: parameter %u has no name", rank, i);
    Key key(bound[i].chunk, bound[i].name);
    if (!unused.emplace(key, bound + i).second)
      return mismatch(key, "bound twice");
  }
  return {};
}

ParamShape Binder::shapeOf(uint32_t param) const {
  return side.shapeOf(side.getClass(required[param].classIndex),
                      side.coordinates(rank));
}

Status Binder::check(const Key &key, uint32_t param,
                     const delta_param_t &bound) const {
  const delta_class_t &type = side.getClass(required[param].classIndex);
  const ParamShape required = shapeOf(param);
  if (bound.dtype != type.dtype)
    return mismatch(key, "dtype " + dtypeName(bound.dtype) + ", required " +
                             dtypeName(type.dtype));
  if (bound.rank > DELTA_MAX_RANK)
    return mismatch(key, std::to_string(bound.rank) + " dimensions");
  if (bound.rank != type.rank ||
      !std::equal(required.shape, required.shape + type.rank, bound.shape))
    return mismatch(key, "shape " + shapeText(bound.shape, bound.rank) +
                             ", required " +
                             shapeText(required.shape, type.rank));
  for (uint32_t dim = 0; dim < type.rank; ++dim)
    if (required.shape[dim] > 1 && bound.stride[dim] != required.stride[dim])
      return mismatch(key, "strides " + shapeText(bound.stride, bound.rank) +
                               (type.order == 0
                                    ? std::string(" are not row-major")
                                    : ", required " + shapeText(required.stride,
                                                                type.rank)));
  if (!bound.data && required.numElements > 0)
    return mismatch(key, "data is null");
  if (reinterpret_cast<uintptr_t>(bound.data) % elementSize(type.dtype) != 0)
    return mismatch(key, "data is not aligned to " +
                             std::to_string(elementSize(type.dtype)) +
                             " bytes");
  return {};
}

Status Binder::take(uint32_t param) {
  const delta_class_t &type = side.getClass(required[param].classIndex);
  const delta_param_t *found = nullptr;
  Key foundKey;
  for (uint32_t i = 0; i < type.num_names; ++i) {
    Key key = keyOf(param, i);
    auto entry = unused.find(key);
    if (entry == unused.end())
      continue;
    bool same =
        side.isOfEngine() && found && entry->second->data == found->data;
    if (found && !same)
      return mismatch(key, "bound besides \"" + foundKey.second +
                               "\", which is another name for it");
    if (!found) {
      found = entry->second;
      foundKey = key;
    }
    unused.erase(entry);
  }
  if (!found)
    return mismatch(keyOf(param), "missing");
  data[param] = found->data;
  return check(foundKey, param, *found);
}

/// Whether it is the storage of a parameter that is bound, under a name that
/// the plan does not know.
bool Binder::isAlias(const delta_param_t &bound) const {
  if (!side.isOfEngine() || !bound.data || bound.rank > DELTA_MAX_RANK)
    return false;
  int64_t size = 1;
  for (uint32_t dim = 0; dim < bound.rank; ++dim)
    if (__builtin_mul_overflow(size, bound.shape[dim], &size))
      return false;
  for (uint32_t i = 0; i < required.size(); ++i)
    if (data[i] == bound.data)
      return side.getClass(required[i].classIndex).dtype == bound.dtype &&
             shapeOf(i).numElements == size;
  return false;
}

/// A copy may be the very storage of what it repeats, as tied weights are.
bool Binder::mayShare(const Extent &left, const Extent &right) const {
  uint32_t leftClass = required[left.param].classIndex;
  uint32_t rightClass = required[right.param].classIndex;
  return left.begin == right.begin && left.end == right.end &&
         (side.getClass(leftClass).copy_of == rightClass ||
          side.getClass(rightClass).copy_of == leftClass);
}

Status Binder::checkOverlaps() const {
  std::vector<Extent> extents;
  for (uint32_t i = 0; i < required.size(); ++i) {
    const delta_class_t &type = side.getClass(required[i].classIndex);
    uintptr_t begin = reinterpret_cast<uintptr_t>(data[i]);
    uint64_t size = uint64_t(shapeOf(i).numElements) * elementSize(type.dtype);
    if (size)
      extents.push_back({begin, begin + size, i});
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent &a, const Extent &b) { return a.begin < b.begin; });
  // `last` reaches furthest of all before.
  for (size_t i = 1, last = 0; i < extents.size(); ++i) {
    if (extents[i].begin < extents[last].end &&
        !mayShare(extents[last], extents[i]))
      return mismatch(keyOf(extents[i].param),
                      "overlaps \"" + keyOf(extents[last].param).second + "\"");
    if (extents[i].end > extents[last].end)
      last = i;
  }
  return {};
}

Status Binder::bind(const delta_param_t *bound, uint32_t numBound) {
  data.assign(required.size(), nullptr);
  Status status = collect(bound, numBound);
  for (uint32_t i = 0; i < required.size() && !status.failed(); ++i)
    status = take(i);
  if (status.failed())
    return status;
  for (const auto &[key, param] : unused)
    if (!isAlias(*param))
      return mismatch(key, "not a parameter of this rank");
  return checkOverlaps();
}

Status delta::runtime::bindParams(const Side &side, uint32_t rank,
                                  const std::vector<Param> &required,
                                  const delta_param_t *bound, uint32_t numBound,
                                  std::vector<void *> &outData) {
  return Binder(side, rank, required, outData).bind(bound, numBound);
}

void BoundAddresses::take(const delta_param_t *params, uint32_t numParams) {
  addresses.clear();
  for (uint32_t i = 0; i < numParams; ++i)
    addresses.push_back(params[i].data);
}

Status BoundAddresses::check(uint32_t rank, const delta_param_t *params,
                             uint32_t numParams) const {
  if (numParams != addresses.size())
    return Status::error(DELTA_BIND_MISMATCH,
                         "rank %u: check: %u parameters, %zu are bound", rank,
                         numParams, addresses.size());
  for (uint32_t i = 0; i < numParams; ++i)
    if (params[i].data != addresses[i])
      return Status::error(DELTA_BIND_MISMATCH,
                           "rank %u: \"%s\" (chunk %u): check: moved since it "
                           "was bound",
                           rank, params[i].name ? params[i].name : "",
                           params[i].chunk);
  return {};
}
