//===- Cluster.h - All ranks of a test plan ---------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Memory, senders and receivers of every rank of a plan, and syncs between
/// them over the in-process transport.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_RUNTIME_CLUSTER_H
#define DELTA_TEST_UNIT_RUNTIME_CLUSTER_H

#include "Target.h"
#include "TestPlan.h"

#include "runtime/Inproc.h"
#include "runtime/Receiver.h"
#include "runtime/Sender.h"
#include "runtime/device/Device.h"

#include <functional>
#include <memory>

namespace delta::test {

/// The parameters of one rank, each with a guard on either side and, if asked,
/// moved off its natural 16-byte alignment by one element. With a device they
/// lie in its memory, which must be one that the host reads too.
class RankMemory {
public:
  RankMemory(const runtime::Side &side, uint32_t rank, bool unaligned,
             const std::shared_ptr<runtime::Device> &device = nullptr);

  const std::vector<runtime::Param> &getParams() const { return instances; }
  std::vector<delta_param_t> &getBound() { return bound; }
  uint64_t get(uint32_t param, int64_t element) const;
  void set(uint32_t param, int64_t element, uint64_t bits);
  int64_t getNumElements(uint32_t param) const { return counts[param]; }
  bool guardsIntact() const;

private:
  std::vector<runtime::Param> instances;
  std::vector<std::string> names;
  /// Bytes of a parameter with its guards.
  struct Storage {
    std::vector<uint8_t> host;
    runtime::DeviceBuffer device;
    uint8_t *begin = nullptr;
    size_t size = 0;
  };
  std::vector<Storage> bytes;
  std::vector<size_t> begins;
  std::vector<int64_t> counts;
  std::vector<delta_param_t> bound;
};

struct ClusterOptions {
  uint32_t numThreads = 1;
  bool unaligned = false;
  uint64_t run = 77;
};

class Cluster {
public:
  Cluster(const TestPlan &plan, ClusterOptions options = {});

  /// Fills all sources with the values of their coordinates.
  void fill();
  /// Calls change(bits) for a fixed, random share of the elements of each
  /// shard; replicas of a shard change alike.
  void update(double share, uint64_t seed,
              const std::function<uint64_t(uint64_t)> &change);

  /// One whole sync; EXPECTs success of each call.
  void seed(uint64_t version);
  void diff(uint64_t version);
  void deliver(uint64_t version) { deliver(version, inproc.transport()); }
  void deliver(uint64_t version, const delta_transport_t &transport);

  /// Number of receiver elements that differ from what the sources hold now.
  uint64_t countMismatches() const;
  bool guardsIntact() const;

  /// Packed message of a source for its destination number `index`.
  static std::vector<uint8_t> bytesOf(const runtime::Sender &sender,
                                      uint32_t index);
  std::vector<std::vector<uint8_t>> allMessages() const;

  const TestPlan &plan;
  std::shared_ptr<runtime::Device> device; ///< of the receivers, or null
  std::vector<std::unique_ptr<RankMemory>> sourceMemory, destinationMemory;
  std::vector<std::unique_ptr<runtime::Sender>> senders;
  std::vector<std::unique_ptr<runtime::Receiver>> receivers;
  std::vector<delta_sync_stats_t> stats;
  runtime::Inproc inproc;
};

/// Kernels of all types.
const delta_kernels_t &testKernels();

} // namespace delta::test

#endif // DELTA_TEST_UNIT_RUNTIME_CLUSTER_H
