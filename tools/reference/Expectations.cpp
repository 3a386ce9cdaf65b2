//===- Expectations.cpp - What every rank must hold -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Executes both sides with tags and joins them in the neutral layout.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/Expectations.h"

#include <algorithm>
#include <set>

namespace delta::reference {

/// Length of the beginning of `name` that a beginning with holes matches, each
/// hole a number; npos where it does not.
static size_t matched(const std::string &beginning, const std::string &name) {
  size_t at = 0;
  for (size_t i = 0; i < beginning.size(); ++i) {
    const size_t close =
        beginning[i] == '{' ? beginning.find('}', i) : std::string::npos;
    if (close == std::string::npos) {
      if (at == name.size() || name[at++] != beginning[i])
        return std::string::npos;
      continue;
    }
    const size_t end = name.find_first_not_of("0123456789", at);
    if (end == at || at == name.size())
      return std::string::npos;
    at = end == std::string::npos ? name.size() : end;
    i = close;
  }
  return at;
}

bool isUnheld(const Side &engine, const std::string &tensorName) {
  return std::any_of(engine.unheld.begin(), engine.unheld.end(),
                     [&](const std::string &beginning) {
                       return matched(beginning, tensorName) !=
                              std::string::npos;
                     });
}

/// The value op that turns a value of one side into one of the other when each
/// becomes the tensor's in its own way.
std::optional<delta_value_op_t>
Expectations::opBetween(const NeutralTensor &from,
                        const NeutralTensor &to) const {
  const Tensor &tensor = source->side().tensors[size_t(from.tensor)];
  const ValueFacts &facts = source->factsOf(tensor);
  const Tensor &held = destination->side().tensors[size_t(to.tensor)];
  const ValueFacts &heldFacts = destination->factsOf(held);
  if (destination->side().engine.empty()) {
    if (facts.scalars == heldFacts.scalars)
      return DELTA_VALUE_ID;
    return heldFacts.scalars.empty() ? neutralOp(facts) : std::nullopt;
  }
  if (!heldFacts.scalars.empty())
    return std::nullopt;
  return engineOp(
      facts, source->dtypeBefore(tensor),
      {tensor.dtype, heldFacts.form, destination->dtypeBefore(held)});
}

static bool makeSide(const Side &side, const char *label,
                     std::optional<Interpreter> &interpreter,
                     TaggedSide &tagged, std::string &error) {
  interpreter = Interpreter::create(side, error);
  if (interpreter && tagged.build(*interpreter, error))
    return true;
  error = std::string(label) + "." + error;
  return false;
}

bool Expectations::build(const Program &program, std::string &error) {
  if (!makeSide(program.source, "source", source, sourceTags, error))
    return false;
  for (const TaggedSide::Rank &rank : sourceTags.ranks())
    sourceRanks.push_back(trainerRank(*source, rank));
  if (!buildNeutral(error))
    return false;
  if (program.destination && (!makeSide(*program.destination, "destination",
                                        destination, destinationTags, error) ||
                              !compose(error)))
    return false;
  const size_t perReplica = destination ? destinationTags.ranks().size() : 1;
  rankImages.resize(perReplica);
  rankOps.resize(perReplica);
  for (size_t r = 0; destination && r < perReplica; ++r)
    imagesOfRank(r);
  for (size_t r = 0; r < perReplica * size_t(program.replicas); ++r) {
    if (!destination) {
      receiverRanks.push_back(neutralTensors);
      continue;
    }
    const size_t rank = r % perReplica;
    receiverRanks.push_back(
        trainerRank(*destination, destinationTags.ranks()[rank]));
    for (size_t i = 0; i < receiverRanks.back().size(); ++i) {
      receiverRanks.back()[i].tags = &rankImages[rank][i];
      receiverRanks.back()[i].valueOps = &rankOps[rank][i];
    }
  }
  return true;
}

std::vector<Expected> Expectations::trainerRank(const Interpreter &interpreter,
                                                const TaggedSide::Rank &rank) {
  std::vector<Expected> expected;
  for (size_t i = 0; i < rank.params.size(); ++i) {
    const LocalParam &local = rank.params[i];
    const Param &param = interpreter.side().params[size_t(local.param)];
    expected.push_back({local.names, local.chunk, param.dtype, local.shape,
                        param.view, local.layer, local.expert,
                        param.copyOf.has_value(), false, &rank.tags[i],
                        nullptr});
  }
  return expected;
}

bool Expectations::buildNeutral(std::string &error) {
  const std::vector<NeutralTensor> &tensors = sourceTags.tensors();
  for (const NeutralTensor &tensor : tensors) {
    const Tensor &record = source->side().tensors[size_t(tensor.tensor)];
    const auto op = neutralOp(source->factsOf(record));
    if (!op) {
      error =
          "\"" + tensor.name + "\" adds scalars that no value op stands for";
      return false;
    }
    neutralOps.emplace_back(size_t(count(record.shape)), *op);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const NeutralTensor &tensor = tensors[i];
    const Tensor &record = source->side().tensors[size_t(tensor.tensor)];
    neutralTensors.push_back({{tensor.name},
                              0,
                              record.dtype,
                              record.shape,
                              {},
                              tensor.layer,
                              tensor.expert,
                              false,
                              false,
                              &sourceTags.tensorTags()[i],
                              &neutralOps[i]});
  }
  return true;
}

bool Expectations::compose(std::string &error) {
  image.assign(destinationTags.space().size(), kPadding);
  imageOps.assign(image.size(), DELTA_VALUE_ID);
  std::map<std::string, size_t> byName;
  std::set<std::string> held;
  for (size_t i = 0; i < sourceTags.tensors().size(); ++i)
    byName[sourceTags.tensors()[i].name] = i;
  for (size_t i = 0; i < destinationTags.tensors().size(); ++i) {
    const std::string &name = destinationTags.tensors()[i].name;
    const auto found = byName.find(name);
    if (found == byName.end() || sourceTags.tensorTags()[found->second].shape !=
                                     destinationTags.tensorTags()[i].shape) {
      error = "\"" + name + "\" is not the same tensor on both sides";
      return false;
    }
    held.insert(name);
    if (!composeTensor(found->second, i, error))
      return false;
  }
  const Side &engine = destination->side();
  for (Expected &tensor : neutralTensors) {
    const std::string &name = tensor.names.front();
    tensor.isUnheld = !engine.engine.empty() && !held.count(name);
    if (tensor.isUnheld && !isUnheld(engine, name)) {
      error = "\"" + name + "\" is not held by " + engine.engine +
              ", which does not say so";
      return false;
    }
  }
  return true;
}

bool Expectations::composeTensor(size_t from, size_t to, std::string &error) {
  const NeutralTensor &tensor = destinationTags.tensors()[to];
  const auto op = opBetween(sourceTags.tensors()[from], tensor);
  if (!op) {
    error = "\"" + tensor.name + "\" adds scalars that no value op undoes";
    return false;
  }
  const Array<uint64_t> &sourceOf = sourceTags.tensorTags()[from];
  const Array<uint64_t> &tags = destinationTags.tensorTags()[to];
  for (int64_t e = 0; e < tags.size(); ++e) {
    uint64_t &tag = image[tags.data[e]];
    if (tag != kPadding && tag != sourceOf.data[e]) {
      error = "\"" + tensor.name + "\" " + elementText(tags.shape, e) +
              " and another element stand for the same destination element";
      return false;
    }
    tag = sourceOf.data[e];
    imageOps[tags.data[e]] = *op;
  }
  return true;
}

void Expectations::imagesOfRank(size_t rank) {
  for (const Array<uint64_t> &tags : destinationTags.ranks()[rank].tags) {
    Array<uint64_t> images(tags.shape);
    std::vector<delta_value_op_t> ops(size_t(tags.size()), DELTA_VALUE_ID);
    for (int64_t e = 0; e < tags.size(); ++e) {
      const uint64_t tag = tags.data[e];
      images.data[e] = tag == kNobody ? kPadding : image[tag];
      if (tag != kNobody)
        ops[size_t(e)] = imageOps[tag];
    }
    rankImages[rank].push_back(std::move(images));
    rankOps[rank].push_back(std::move(ops));
  }
}

} // namespace delta::reference
