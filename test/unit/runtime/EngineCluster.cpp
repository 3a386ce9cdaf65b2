//===- EngineCluster.cpp - All ranks of the engine's plan -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EngineCluster.h"

#include "codegen/device/IndexFunctions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace delta::test;
using namespace delta::runtime;

static uint32_t bitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// A value of a few bits, so that it is the same in all types; of the norm one
/// that bf16 rounds.
uint64_t EngineCluster::value(uint32_t tensor, uint32_t layer, uint32_t expert,
                              int64_t element) const {
  uint64_t place =
      delta::device::mix(tensor * 1000003 + layer * 8191 +
                         (expert + 1) * 131071 + uint64_t(element));
  bool moved = double(delta::device::mix(place + 7) >> 11) * 0x1p-53 <= share;
  uint64_t random = delta::device::mix(place + (moved ? generation : 0));
  float value = float(int64_t(random % 255) - 127) / 32;
  if (tensor == TensorNorm)
    return bitsOf(1.0f + float(random % 100001) * 0x1p-20f);
  return bitsOf(value) >> 16;
}

std::optional<uint64_t> EngineCluster::expected(uint32_t receiver,
                                                const Param &param,
                                                int64_t element) const {
  const int64_t rank = receiver % NumRanks;
  const uint32_t layer = param.layer, none = DELTA_NONE;
  const int64_t row = element / 3, column = element % 3;
  switch (param.classIndex) {
  case ClassQkv:
    return row < 2 ? value(TensorQ, layer, none, (rank * 2 + row) * 3 + column)
                   : value(TensorK, layer, none,
                           (rank / 2 * 2 + row - 2) * 3 + column);
  case ClassStack: {
    const std::vector<uint32_t> &first = plan.slotFirst;
    size_t slot = first[size_t(rank)] + size_t(element / 12);
    if (slot == first[size_t(rank) + 1])
      return value(TensorShared, layer, none, element % 12);
    return value(TensorW, layer,
                 placement[placement.size() > 1 ? layer : 0][slot],
                 element % 12);
  }
  case ClassA: {
    uint32_t bits = uint32_t(value(TensorA, layer, none, rank)) << 16;
    float a;
    memcpy(&a, &bits, sizeof(a));
    return bitsOf(float(-std::exp(double(a))));
  }
  case ClassTurned:
    return value(TensorUp, layer, none, element % 4 * 6 + element / 4);
  case ClassNorm: {
    auto bits = uint32_t(value(TensorNorm, layer, none, element));
    return (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  }
  case ClassWords:
    if (rank * 2 + row < 6)
      return value(TensorWords, none, none, (rank * 2 + row) * 3 + column);
    return 0; // padding
  default:
    return std::nullopt;
  }
}

uint64_t EngineCluster::numHeld(uint32_t rank) const {
  uint64_t total = 0;
  for (uint32_t i = 0; i < memory[rank]->getParams().size(); ++i) {
    const Param &param = memory[rank]->getParams()[i];
    bool padding = param.classIndex == ClassWords && rank % NumRanks == 3;
    if (param.classIndex != ClassOwn && !padding)
      total += uint64_t(memory[rank]->getNumElements(i));
  }
  return total;
}

uint64_t EngineCluster::countMismatches(std::string &outFirst) const {
  uint64_t total = 0;
  for (uint32_t rank = 0; rank < NumReceivers; ++rank)
    for (uint32_t i = 0; i < memory[rank]->getParams().size(); ++i) {
      const Param &param = memory[rank]->getParams()[i];
      for (int64_t e = 0; e < memory[rank]->getNumElements(i); ++e) {
        uint64_t wanted = expected(rank, param, e).value_or(Untouched & 0xffff);
        if (memory[rank]->get(i, e) == wanted)
          continue;
        if (!total++)
          outFirst = std::string(memory[rank]->getBound()[i].name) + "[" +
                     std::to_string(e) + "] of rank " + std::to_string(rank);
      }
    }
  return total;
}

EngineCluster::EngineCluster(const EnginePlan &plan)
    : placement({plan.slotExperts}), plan(plan),
      inproc(std::chrono::seconds(5)) {
  device = makeTargetDevice(plan.tables);
  Side source(plan.tables, DELTA_SOURCE), to(plan.tables, DELTA_DESTINATION);
  senders.resize(NumSources);
  for (uint32_t rank = 0; rank < NumSources; ++rank) {
    sourceMemory.push_back(std::make_unique<RankMemory>(source, rank, false));
    auto &bound = sourceMemory.back()->getBound();
    Status status =
        Sender::create(plan.tables, testKernels(), rank, bound.data(),
                       uint32_t(bound.size()), 5, 1, senders[rank]);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
  receivers.resize(NumReceivers);
  for (uint32_t rank = 0; rank < NumReceivers; ++rank) {
    memory.push_back(std::make_unique<RankMemory>(to, rank, false, device));
    RankMemory &own = *memory.back();
    for (uint32_t i = 0; i < own.getParams().size(); ++i)
      for (int64_t e = 0; e < own.getNumElements(i); ++e)
        own.set(i, e, Untouched);
    auto &bound = own.getBound();
    Status status = Receiver::create(
        plan.tables, testKernels(), rank, bound.data(), uint32_t(bound.size()),
        5, 1, receivers[rank], makeTargetIntake(device, plan.tables));
    EXPECT_FALSE(status.failed()) << status.getText();
  }
}

void EngineCluster::fill(uint64_t newGeneration, double newShare) {
  generation = newGeneration;
  share = newShare;
  for (uint32_t rank = 0; rank < NumSources; ++rank) {
    RankMemory &own = *sourceMemory[rank];
    const int64_t tp = rank % 2;
    for (uint32_t i = 0; i < own.getParams().size(); ++i) {
      const Param &param = own.getParams()[i];
      const int64_t count = own.getNumElements(i);
      bool isCut = plan.sourceClasses[param.classIndex].ways > 1;
      for (int64_t e = 0; e < count; ++e)
        own.set(i, e,
                value(param.classIndex, param.layer, param.expert,
                      isCut ? tp * count + e : e));
    }
  }
}

void EngineCluster::deliver() {
  delta_transport_t transport = inproc.transport();
  for (auto &sender : senders) {
    Status status = sender->send(transport);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
  for (auto &receiver : receivers) {
    Status status = receiver->receive(transport);
    EXPECT_FALSE(status.failed()) << status.getText();
    status = receiver->commit();
    EXPECT_FALSE(status.failed()) << status.getText();
  }
}

void EngineCluster::acknowledge(uint64_t version) {
  for (auto &sender : senders) {
    Status status = sender->acknowledge(version);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
}
