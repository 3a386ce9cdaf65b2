//===- Cluster.cpp - All ranks of a test plan -----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Cluster.h"

#include "codegen/device/HostKernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

using namespace delta::test;
using namespace delta::runtime;
namespace device = delta::device;

static constexpr size_t GuardBytes = 64;
static constexpr uint8_t GuardByte = 0xa5;

const delta_kernels_t &delta::test::testKernels() {
  static const delta_kernels_t kernels = device::allHostKernels();
  return kernels;
}

RankMemory::RankMemory(const Side &side, uint32_t rank, bool unaligned,
                       const std::shared_ptr<Device> &device)
    : instances(side.params(rank)) {
  for (const Param &param : instances) {
    const delta_class_t &type = side.getClass(param.classIndex);
    uint32_t size = elementSize(type.dtype);
    names.push_back(side.name(param));
    const ParamShape shape = side.shapeOf(type, side.coordinates(rank));
    counts.push_back(shape.numElements);
    size_t begin = GuardBytes + (unaligned ? size : 0);
    Storage &storage = bytes.emplace_back();
    storage.size = begin + size_t(counts.back()) * size + GuardBytes;
    if (device) {
      EXPECT_FALSE(storage.device.allocate(device, storage.size).failed());
      storage.begin = storage.device.as();
    } else {
      storage.host.resize(storage.size);
      storage.begin = storage.host.data();
    }
    memset(storage.begin, GuardByte, storage.size);
    begins.push_back(begin);
    delta_param_t out = {};
    out.chunk = side.chunkOf(type, param.layer);
    out.dtype = type.dtype;
    out.rank = type.rank;
    for (uint32_t dim = 0; dim < type.rank; ++dim) {
      out.shape[dim] = shape.shape[dim];
      out.stride[dim] = shape.stride[dim];
    }
    bound.push_back(out);
  }
  for (size_t i = 0; i < bound.size(); ++i) {
    bound[i].name = names[i].c_str();
    bound[i].data = bytes[i].begin + begins[i];
  }
}

uint64_t RankMemory::get(uint32_t param, int64_t element) const {
  uint32_t size = elementSize(bound[param].dtype);
  uint64_t bits = 0;
  memcpy(&bits, bytes[param].begin + begins[param] + size_t(element) * size,
         size);
  return bits;
}

void RankMemory::set(uint32_t param, int64_t element, uint64_t bits) {
  uint32_t size = elementSize(bound[param].dtype);
  memcpy(bytes[param].begin + begins[param] + size_t(element) * size, &bits,
         size);
}

bool RankMemory::guardsIntact() const {
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (size_t at = 0; at < begins[i]; ++at)
      if (bytes[i].begin[at] != GuardByte)
        return false;
    for (size_t at = bytes[i].size - GuardBytes; at < bytes[i].size; ++at)
      if (bytes[i].begin[at] != GuardByte)
        return false;
  }
  return true;
}

Cluster::Cluster(const TestPlan &plan, ClusterOptions options)
    : plan(plan), inproc(std::chrono::seconds(5)) {
  const delta_tables_t &tables = plan.getTables();
  device = makeTargetDevice(tables);
  Side source(tables, DELTA_SOURCE), destination(tables, DELTA_DESTINATION);
  senders.resize(source.getNumRanks());
  stats.resize(senders.size());
  for (uint32_t rank = 0; rank < source.getNumRanks(); ++rank) {
    sourceMemory.push_back(
        std::make_unique<RankMemory>(source, rank, options.unaligned));
    auto &bound = sourceMemory.back()->getBound();
    Status status = Sender::create(tables, testKernels(), rank, bound.data(),
                                   uint32_t(bound.size()), options.run,
                                   options.numThreads, senders[rank]);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
  receivers.resize(destination.getNumRanks());
  for (uint32_t rank = 0; rank < destination.getNumRanks(); ++rank) {
    destinationMemory.push_back(std::make_unique<RankMemory>(
        destination, rank, options.unaligned, device));
    auto &bound = destinationMemory.back()->getBound();
    Status status = Receiver::create(tables, testKernels(), rank, bound.data(),
                                     uint32_t(bound.size()), options.run,
                                     options.numThreads, receivers[rank],
                                     makeTargetIntake(device, tables));
    EXPECT_FALSE(status.failed()) << status.getText();
  }
}

static uint64_t originOf(const TestPlan &plan, const Param &param,
                         const TestPlan::Place &place) {
  return plan.value(plan.getMatrix(param.classIndex, DELTA_SOURCE), param.layer,
                    place.expert, place.row, place.column);
}

void Cluster::fill() {
  for (uint32_t rank = 0; rank < sourceMemory.size(); ++rank) {
    RankMemory &memory = *sourceMemory[rank];
    for (uint32_t i = 0; i < memory.getParams().size(); ++i) {
      const Param &param = memory.getParams()[i];
      for (const auto &[element, place] :
           plan.coordinates(DELTA_SOURCE, rank, param))
        memory.set(i, element, originOf(plan, param, place));
    }
  }
}

void Cluster::update(double share, uint64_t seed,
                     const std::function<uint64_t(uint64_t)> &change) {
  uint64_t limit = share >= 1 ? UINT64_MAX : uint64_t(share * 0x1p64);
  for (uint32_t rank = 0; rank < sourceMemory.size(); ++rank) {
    RankMemory &memory = *sourceMemory[rank];
    for (uint32_t i = 0; i < memory.getParams().size(); ++i) {
      const Param &param = memory.getParams()[i];
      for (const auto &[element, place] :
           plan.coordinates(DELTA_SOURCE, rank, param)) {
        // The coordinates decide, so whoever holds the element changes it.
        uint64_t key = device::mix(uint64_t(place.row) << 32 | place.column) +
                       device::mix(uint64_t(place.expert) << 32 | param.layer);
        if (device::mix(key + seed) <= limit)
          memory.set(i, element, change(memory.get(i, element)));
      }
    }
  }
}

void Cluster::deliver(uint64_t version, const delta_transport_t &transport) {
  for (auto &sender : senders) {
    Status status = sender->send(transport);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
  for (auto &receiver : receivers) {
    Status status = receiver->receive(transport);
    EXPECT_FALSE(status.failed()) << status.getText();
    status = receiver->commit();
    EXPECT_FALSE(status.failed()) << status.getText();
    EXPECT_EQ(receiver->getVersion(), version);
  }
  for (auto &sender : senders) {
    Status status = sender->acknowledge(version);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
}

void Cluster::seed(uint64_t version) {
  for (size_t i = 0; i < senders.size(); ++i) {
    Status status = senders[i]->seed(version, &stats[i]);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
}

void Cluster::diff(uint64_t version) {
  for (size_t i = 0; i < senders.size(); ++i) {
    Status status = senders[i]->diff(version, &stats[i]);
    EXPECT_FALSE(status.failed()) << status.getText();
  }
}

static uint64_t shifted(const Matrix &matrix, uint64_t bits) {
  if (matrix.op == DELTA_VALUE_ID)
    return bits;
  switch (matrix.dtype) {
  case DELTA_BF16:
    return device::Bf16::addOne(uint16_t(bits));
  case DELTA_FP16:
    return device::Fp16::addOne(uint16_t(bits));
  default:
    return device::Fp32::addOne(uint32_t(bits));
  }
}

/// Sources are read through the coordinates that their original values name, so
/// the plan's own maps take no part.
uint64_t Cluster::countMismatches() const {
  using Key = std::tuple<const Matrix *, uint32_t, uint32_t, int64_t, int64_t>;
  std::map<Key, uint64_t> current;
  const delta_tables_t &tables = plan.getTables();
  Side source(tables, DELTA_SOURCE), destination(tables, DELTA_DESTINATION);
  for (uint32_t rank = 0; rank < sourceMemory.size(); ++rank) {
    const RankMemory &memory = *sourceMemory[rank];
    for (uint32_t i = 0; i < memory.getParams().size(); ++i) {
      const Param &param = memory.getParams()[i];
      if (source.getClass(param.classIndex).copy_of != DELTA_NONE)
        continue;
      for (const auto &[element, place] :
           plan.coordinates(DELTA_SOURCE, rank, param))
        current[{&plan.getMatrix(param.classIndex, DELTA_SOURCE), param.layer,
                 place.expert, place.row, place.column}] =
            memory.get(i, element);
    }
  }
  uint64_t mismatches = 0;
  for (uint32_t rank = 0; rank < destinationMemory.size(); ++rank) {
    const RankMemory &memory = *destinationMemory[rank];
    for (uint32_t i = 0; i < memory.getParams().size(); ++i) {
      const Param &param = memory.getParams()[i];
      const Matrix &matrix = plan.getMatrix(
          param.classIndex,
          destination.isNeutral() ? DELTA_HF : DELTA_DESTINATION);
      for (const auto &[element, place] :
           plan.coordinates(DELTA_DESTINATION, rank, param)) {
        uint64_t bits = 0;
        if (place.row < matrix.rows)
          bits = shifted(matrix, current.at({&matrix, param.layer, place.expert,
                                             place.row, place.column}));
        mismatches += memory.get(i, element) != bits;
      }
    }
  }
  return mismatches;
}

bool Cluster::guardsIntact() const {
  for (const auto &memory : sourceMemory)
    if (!memory->guardsIntact())
      return false;
  for (const auto &memory : destinationMemory)
    if (!memory->guardsIntact())
      return false;
  return true;
}

std::vector<uint8_t> Cluster::bytesOf(const Sender &sender, uint32_t index) {
  std::vector<uint8_t> bytes;
  for (const delta_bytes_t &part : sender.getPacking().message(index)) {
    auto *begin = static_cast<const uint8_t *>(part.data);
    bytes.insert(bytes.end(), begin, begin + part.size);
  }
  return bytes;
}

std::vector<std::vector<uint8_t>> Cluster::allMessages() const {
  std::vector<std::vector<uint8_t>> messages;
  for (const auto &sender : senders)
    for (uint32_t i = 0; i < sender->getPacking().getDestinations().size(); ++i)
      messages.push_back(bytesOf(*sender, i));
  return messages;
}
