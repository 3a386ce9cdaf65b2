//===- Trainer.cpp - Write the weights of every step ----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One unsharded parameter at a time and thread, the largest first.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/Trainer.h"

#include "tools/delta-run/Weights.h"

#include <algorithm>

namespace delta::run {

using reference::Array;
using reference::Interpreter;
using reference::LocalParam;
using reference::Update;

std::map<Instance, std::vector<Holder>>
holdersOf(const Interpreter &interpreter) {
  std::map<Instance, std::vector<Holder>> holders;
  for (int64_t rank = 0; rank < interpreter.numRanks(); ++rank) {
    const std::vector<LocalParam> held = interpreter.paramsOf(rank);
    for (size_t p = 0; p < held.size(); ++p)
      for (const reference::Piece &piece : held[p].pieces)
        holders[{interpreter.original(piece.param), held[p].layer,
                 piece.expert}]
            .push_back({size_t(rank), p, piece.way, piece.offset});
  }
  return holders;
}

namespace {

class ReferenceTrainer : public Trainer {
public:
  ReferenceTrainer(const Interpreter &interpreter, std::vector<Rank> &ranks,
                   const Update &update, const Weights *weights)
      : interpreter(interpreter), ranks(ranks), update(update),
        weights(weights) {
    for (const auto &[instance, holders] : holdersOf(interpreter))
      items.push_back({instance, holders});
    std::sort(items.begin(), items.end(),
              [&](const Item &a, const Item &b) { return size(a) > size(b); });
  }

  void write(int64_t step) override {
    parallelFor(int64_t(items.size()), numCores(), [&](int64_t i) {
      const Item &item = items[size_t(i)];
      const auto &param = interpreter.side().params[size_t(item.first.param)];
      withWidth(reference::byteWidth(param.dtype), [&](auto element) {
        writeItem<decltype(element)>(item, step);
      });
    });
  }

private:
  using Item = std::pair<Instance, std::vector<Holder>>;

  int64_t size(const Item &item) const {
    return reference::count(
        interpreter.side().params[size_t(item.first.param)].shape);
  }

  template <class T> void writeItem(const Item &item, int64_t step) {
    const auto &[instance, holders] = item;
    const auto &param = interpreter.side().params[size_t(instance.param)];
    auto memory = [&](const Holder &holder) {
      return reinterpret_cast<T *>(
          ranks[holder.rank].params[holder.param].data.get());
    };
    // From a checkpoint every rank reads its own shard and no more.
    if (weights && step == 0) {
      for (const Holder &holder : holders)
        weights->shard(instance, holder.way, memory(holder));
      return;
    }
    Array<T> whole(param.shape);
    valuesOf(update, weights, interpreter, instance, step, whole);
    for (const Holder &holder : holders)
      reference::cutShard(whole.data.get(), whole.shape,
                          interpreter.splitOf(instance.param), holder.way,
                          memory(holder));
  }

  const Interpreter &interpreter;
  std::vector<Rank> &ranks;
  const Update update;
  const Weights *weights;
  std::vector<Item> items;
};

/// Elements are keyed by (class, layer, expert, way) and their place in the
/// shard, which all replicas of a shard share.
class PlanTrainer : public Trainer {
public:
  PlanTrainer(const delta_plan_api_t &api, reference::MapSource &map,
              std::vector<Rank> &ranks, const Update &update)
      : side(api.tables->source), update(update) {
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
      for (uint32_t p = 0; p < ranks[rank].params.size(); ++p) {
        delta_param_info_t info = {};
        if (map.param(DELTA_SOURCE, rank, p, info))
          items.push_back({keyOf(rank, info), &ranks[rank].params[p]});
      }
  }

  void write(int64_t step) override {
    parallelFor(int64_t(items.size()), numCores(), [&](int64_t i) {
      const auto &[key, held] = items[size_t(i)];
      withWidth(held->width, [&, &key = key, held = held](auto element) {
        using T = decltype(element);
        update.fill(key, held->dtype, 0, held->numElements, step,
                    reinterpret_cast<T *>(held->data.get()));
      });
    });
  }

private:
  std::string keyOf(uint32_t rank, const delta_param_info_t &info) const {
    const delta_class_t &own = side.classes[info.class_index];
    const uint32_t inStage = rank % (side.tp * side.cp * side.dp);
    const uint32_t size = own.axis == DELTA_AXIS_TP    ? side.tp
                          : own.axis == DELTA_AXIS_ETP ? side.etp
                                                       : 1;
    const uint32_t ways = own.ways ? own.ways : 1;
    const uint32_t way = inStage % size / (size / ways);
    const uint32_t named =
        own.copy_of == DELTA_NONE ? info.class_index : own.copy_of;
    std::string key;
    for (const uint32_t part : {named, info.layer, info.expert, way})
      key += std::to_string(part) + "/";
    return key;
  }

  const delta_side_t &side;
  const Update update;
  std::vector<std::pair<std::string, Held *>> items;
};

} // namespace

std::unique_ptr<Trainer> referenceTrainer(const Interpreter &interpreter,
                                          std::vector<Rank> &ranks,
                                          const Update &update,
                                          const Weights *weights) {
  return std::make_unique<ReferenceTrainer>(interpreter, ranks, update,
                                            weights);
}

std::unique_ptr<Trainer> planTrainer(const delta_plan_api_t &api,
                                     reference::MapSource &map,
                                     std::vector<Rank> &ranks,
                                     const Update &update) {
  return std::make_unique<PlanTrainer>(api, map, ranks, update);
}

} // namespace delta::run
