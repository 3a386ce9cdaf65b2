//===- TaggedSide.cpp - Every element under a number ----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Fills the shards of all ranks with tags and moves them.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/TaggedSide.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace delta::reference {

std::vector<NeutralTensor> neutralTensors(const Interpreter &interpreter) {
  std::vector<NeutralTensor> all;
  const std::vector<Tensor> &tensors = interpreter.side().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Domain domain = interpreter.factsOf(tensors[i]).domain;
    domain.expert &= !tensors[i].stack;
    for (const int64_t layer : domain.layers)
      for (const int64_t expert : interpreter.expertsOf(domain))
        all.push_back({int64_t(i), layer, expert,
                       interpreter.tensorName(int64_t(i), layer, expert)});
  }
  return all;
}

//===--- tags -------------------------------------------------------------===//

TagSpace::TagSpace(const Interpreter &interpreter) : interpreter(interpreter) {
  const std::vector<Param> &params = interpreter.side().params;
  for (int64_t param = 0; param < int64_t(params.size()); ++param) {
    if (params[size_t(param)].copyOf)
      continue;
    const Domain domain = interpreter.domainOf(param);
    for (const int64_t layer : domain.layers)
      for (const int64_t expert : interpreter.expertsOf(domain)) {
        firsts[{param, layer, expert}] = numTags;
        instances[numTags] = {param, layer, expert};
        numTags += uint64_t(count(params[size_t(param)].shape));
      }
  }
}

uint64_t TagSpace::first(int64_t param, int64_t layer, int64_t expert) const {
  return firsts.at({interpreter.original(param), layer, expert});
}

std::string TagSpace::describe(uint64_t tag) const {
  if (tag >= numTags)
    return "nothing";
  const auto &[first, instance] = *--instances.upper_bound(tag);
  const auto &[param, layer, expert] = instance;
  const Shape &shape = interpreter.side().params[size_t(param)].shape;
  return "\"" + interpreter.globalName(param, layer, expert) + "\" " +
         elementText(shape, int64_t(tag - first));
}

//===--- shards -----------------------------------------------------------===//

void TaggedSide::fillPiece(const Interpreter &interpreter, size_t rank,
                           size_t index, const Piece &piece) {
  const LocalParam &held = allRanks[rank].params[index];
  Array<uint64_t> whole(interpreter.side().params[size_t(piece.param)].shape);
  std::iota(whole.data.get(), whole.data.get() + whole.size(),
            tagSpace->first(piece.param, held.layer, piece.expert));
  cutShard(whole.data.get(), whole.shape, interpreter.splitOf(piece.param),
           piece.way, allRanks[rank].tags[index].data.get() + piece.offset);
  holders.emplace(std::make_tuple(interpreter.original(piece.param), held.layer,
                                  piece.expert, piece.way),
                  Place{rank, index, piece.offset});
}

void TaggedSide::fillRanks(const Interpreter &interpreter) {
  allRanks.resize(size_t(interpreter.numRanks()));
  for (size_t r = 0; r < allRanks.size(); ++r) {
    Rank &rank = allRanks[r];
    rank.params = interpreter.paramsOf(int64_t(r));
    for (size_t p = 0; p < rank.params.size(); ++p) {
      Array<uint64_t> &tags = rank.tags.emplace_back(rank.params[p].shape);
      std::fill_n(tags.data.get(), tags.size(), kNobody);
      for (const Piece &piece : rank.params[p].pieces)
        fillPiece(interpreter, r, p, piece);
    }
  }
}

bool TaggedSide::join(const Interpreter &interpreter, int64_t param,
                      int64_t layer, int64_t expert, Array<uint64_t> &whole,
                      std::string &error) {
  const Split &split = interpreter.splitOf(param);
  for (int64_t way = 0; way < split.ways; ++way) {
    const auto holder = holders.find({param, layer, expert, way});
    if (holder == holders.end()) {
      error = "no rank holds shard " + std::to_string(way) + " of \"" +
              interpreter.globalName(param, layer, expert) + "\"";
      return false;
    }
    const auto &[rank, index, offset] = holder->second;
    joinShard(allRanks[rank].tags[index].data.get() + offset, whole.shape,
              split, way, whole.data.get());
  }
  return true;
}

//===--- tensors ----------------------------------------------------------===//

bool TaggedSide::runGroup(const Interpreter &interpreter, const Group &group,
                          std::string &error) {
  const Side &side = interpreter.side();
  for (const int64_t layer : group.domain.layers)
    for (const int64_t expert : interpreter.expertsOf(group.domain)) {
      std::vector<Array<uint64_t>> whole;
      for (const int64_t param : group.params) {
        whole.emplace_back(side.params[size_t(param)].shape);
        if (!join(interpreter, param, layer, expert, whole.back(), error))
          return false;
      }
      const std::vector<Array<uint64_t>> results =
          interpreter.run(group, std::move(whole), /*addScalars=*/false);
      for (size_t i = 0; i < results.size(); ++i) {
        const int64_t tensor = group.tensors[i];
        const bool stack = side.tensors[size_t(tensor)].stack;
        Array<uint64_t> &out =
            tags[tensorIndex.at({tensor, layer, stack ? kNone : expert})];
        const int64_t offset = stack ? expert * results[i].size() : 0;
        std::copy_n(results[i].data.get(), results[i].size(),
                    out.data.get() + offset);
      }
    }
  return true;
}

bool TaggedSide::build(const Interpreter &interpreter, std::string &error) {
  tagSpace.emplace(interpreter);
  fillRanks(interpreter);
  allTensors = neutralTensors(interpreter);
  for (size_t i = 0; i < allTensors.size(); ++i) {
    const NeutralTensor &tensor = allTensors[i];
    tensorIndex[{tensor.tensor, tensor.layer, tensor.expert}] = i;
    tags.emplace_back(interpreter.side().tensors[size_t(tensor.tensor)].shape);
  }
  for (const Group &group : interpreter.groups())
    if (!group.tensors.empty() && !runGroup(interpreter, group, error))
      return false;
  return true;
}

} // namespace delta::reference
