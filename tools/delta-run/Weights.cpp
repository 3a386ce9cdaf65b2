//===- Weights.cpp - Trainer weights out of a checkpoint ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/delta-run/Weights.h"

#include "tools/reference/TaggedSide.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <numeric>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace delta::run {

using reference::Array;
using reference::Group;
using reference::Interpreter;

static constexpr uint64_t noImage = ~uint64_t(0);
static constexpr int tensorShift = 48;

std::unique_ptr<Weights> Weights::open(const std::string &path,
                                       const Interpreter &interpreter,
                                       std::string &error) {
  std::optional<Checkpoint> checkpoint = openCheckpoint(path, error);
  if (!checkpoint)
    return nullptr;
  for (const auto &tensor : reference::neutralTensors(interpreter)) {
    const auto &record = interpreter.side().tensors[size_t(tensor.tensor)];
    auto it = checkpoint->tensors.find(tensor.name);
    if (it == checkpoint->tensors.end()) {
      error = path + ": error: tensor \"" + tensor.name +
              "\" is not in the checkpoint";
      return nullptr;
    }
    std::string stored = plainTypeName(it->second.dtype);
    if (it->second.shape != record.shape || stored != record.dtype) {
      error = path + ": error: tensor \"" + tensor.name + "\" is " +
              reference::toText(it->second.shape) + " " + it->second.dtype +
              ", required " + reference::toText(record.shape) + " " +
              record.dtype +
              (stored.empty() ? "; the checkpoint is quantized" : "");
      return nullptr;
    }
    const reference::ValueFacts &facts = interpreter.factsOf(record);
    if (!facts.scalars.empty() || facts.isCast) {
      error = path + ": error: tensor \"" + tensor.name + "\" is a " +
              (facts.isCast ? "cast" : "sum") +
              " that rounding does not let undo";
      return nullptr;
    }
  }
  std::unique_ptr<Weights> weights(new Weights(interpreter));
  weights->checkpoint = std::move(*checkpoint);
  for (const std::string &file : weights->checkpoint.files) {
    Mapping mapping;
    int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat facts = {};
    if (descriptor >= 0 && fstat(descriptor, &facts) == 0) {
      mapping.size = size_t(facts.st_size);
      mapping.data =
          mmap(nullptr, mapping.size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    }
    if (descriptor >= 0)
      close(descriptor);
    if (!mapping.data || mapping.data == MAP_FAILED) {
      error = file + ": error: cannot be mapped";
      return nullptr;
    }
    weights->files.push_back(mapping);
    // The file may have become shorter since its header was read.
    for (const auto &[name, tensor] : weights->checkpoint.tensors)
      if (tensor.file + 1 == weights->files.size() &&
          tensor.end > mapping.size) {
        error = file + ": error: is truncated: tensor \"" + name +
                "\" ends at byte " + std::to_string(tensor.end);
        return nullptr;
      }
  }
  weights->placeParams();
  return weights;
}

Weights::~Weights() {
  for (const Mapping &mapping : files)
    munmap(mapping.data, mapping.size);
}

/// Runs each group on the numbers of its elements: where number i arrives is
/// the place of element i.
void Weights::placeParams() {
  const reference::Side &side = interpreter.side();
  for (const Group &group : interpreter.groups()) {
    std::vector<Array<uint64_t>> numbers;
    std::vector<uint64_t> firsts = {0};
    for (const int64_t param : group.params) {
      Array<uint64_t> &array =
          numbers.emplace_back(side.params[size_t(param)].shape);
      std::iota(array.data.get(), array.data.get() + array.size(),
                firsts.back());
      firsts.push_back(firsts.back() + uint64_t(array.size()));
      Array<uint64_t> &place = places[param] =
          Array<uint64_t>(side.params[size_t(param)].shape);
      std::fill(place.data.get(), place.data.get() + place.size(), noImage);
    }
    const std::vector<Array<uint64_t>> arrived =
        interpreter.run(group, std::move(numbers), /*addScalars=*/false);
    for (size_t t = 0; t < arrived.size(); ++t)
      for (int64_t e = 0; e < arrived[t].size(); ++e) {
        const uint64_t number = arrived[t].data[e];
        const size_t p =
            size_t(std::upper_bound(firsts.begin(), firsts.end(), number) -
                   firsts.begin() - 1);
        uint64_t &place = places[group.params[p]].data[number - firsts[p]];
        // A second name of a tensor must hold the same; the check sees to it.
        if (place == noImage)
          place = uint64_t(group.tensors[t]) << tensorShift | uint64_t(e);
      }
  }
}

const uint8_t *Weights::tensor(const std::string &name) const {
  const StoredTensor &stored = checkpoint.tensors.at(name);
  return static_cast<const uint8_t *>(files[stored.file].data) + stored.begin;
}

template <class T>
void Weights::gather(const Instance &instance, const uint64_t *places,
                     int64_t count, T *out) const {
  std::map<uint64_t, const uint8_t *> tensors; // of this instance
  uint64_t last = noImage;
  const uint8_t *data = nullptr;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = 0;
    if (places[i] == noImage)
      continue;
    const uint64_t t = places[i] >> tensorShift;
    if (t != last) {
      last = t;
      const uint8_t *&known = tensors[t];
      if (!known) {
        const auto &record = interpreter.side().tensors[size_t(t)];
        known = tensor(interpreter.tensorName(int64_t(t), instance.layer,
                                              record.stack ? reference::kNone
                                                           : instance.expert));
        if (record.stack)
          known +=
              uint64_t(instance.expert) *
              uint64_t(reference::count(record.shape, 1, record.shape.size())) *
              sizeof(T);
      }
      data = known;
    }
    const uint64_t element = places[i] & ((uint64_t(1) << tensorShift) - 1);
    std::memcpy(&out[i], data + element * sizeof(T), sizeof(T));
  }
}

template <class T> void Weights::whole(const Instance &instance, T *out) const {
  const Array<uint64_t> &place = places.at(instance.param);
  gather(instance, place.data.get(), place.size(), out);
}

template <class T>
void Weights::shard(const Instance &instance, int64_t way, T *out) const {
  const Array<uint64_t> &place = places.at(instance.param);
  Array<uint64_t> own(interpreter.localShape(instance.param));
  reference::cutShard(place.data.get(), place.shape,
                      interpreter.splitOf(instance.param), way, own.data.get());
  gather(instance, own.data.get(), own.size(), out);
  shardBytes +=
      sizeof(T) *
      uint64_t(std::count_if(own.data.get(), own.data.get() + own.size(),
                             [](uint64_t p) { return p != noImage; }));
}

template <class T>
void valuesOf(const reference::Update &update, const Weights *weights,
              const Interpreter &interpreter, const Instance &instance,
              int64_t step, Array<T> &out) {
  const auto &param = interpreter.side().params[size_t(instance.param)];
  const std::string name =
      interpreter.globalName(instance.param, instance.layer, instance.expert);
  if (weights && step == 0)
    return weights->whole(instance, out.data.get());
  update.fill(name, param.dtype, 0, out.size(), step, out.data.get());
  if (!weights)
    return;
  Array<T> start(out.shape), base(out.shape);
  update.fill(name, param.dtype, 0, out.size(), 0, start.data.get());
  weights->whole(instance, base.data.get());
  for (int64_t i = 0; i < out.size(); ++i)
    out.data[i] = T(base.data[i] + (out.data[i] - start.data[i]));
}

#define DELTA_INSTANTIATE(T)                                                   \
  template void Weights::whole(const Instance &, T *) const;                   \
  template void Weights::shard(const Instance &, int64_t, T *) const;          \
  template void valuesOf(const reference::Update &, const Weights *,           \
                         const Interpreter &, const Instance &, int64_t,       \
                         Array<T> &);
DELTA_INSTANTIATE(uint16_t)
DELTA_INSTANTIATE(uint32_t)
DELTA_INSTANTIATE(uint64_t)
#undef DELTA_INSTANTIATE

} // namespace delta::run
