//===- BoundModel.h - All ranks of a small model ----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Memory, senders and receivers of every rank of a plan, and whole syncs
/// between them. Values are bits, written and read by name and index.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_CASES_BOUNDMODEL_H
#define DELTA_TEST_UNIT_CASES_BOUNDMODEL_H

#include "CompiledModel.h"

#include <deque>

namespace delta::test {

/// The parameters of one rank in memory, ready to be bound. Tests may change
/// what they bind.
class RankParams {
public:
  RankParams(const CompiledModel &model, delta_side_id_t side, uint32_t rank);

  std::vector<delta_param_t> &bound() { return params; }
  /// The parameter with this usual name.
  delta_param_t &find(const std::string &name, uint32_t chunk = 0);
  /// The same parameters in other memory; the old one is overwritten with
  /// `garbage` and freed.
  void reallocate(uint8_t garbage);

  uint64_t get(const std::string &name, const Index &index, uint32_t chunk = 0);
  void set(const std::string &name, const Index &index, uint64_t bits,
           uint32_t chunk = 0);
  /// Element number i of a parameter gets `bits(parameter number, i)`.
  template <class Bits> void fill(const Bits &bits) {
    for (size_t p = 0; p < params.size(); ++p)
      for (int64_t i = 0; i < count(params[p]); ++i)
        put(params[p], i, bits(p, i));
  }

private:
  static int64_t count(const delta_param_t &param);
  static void put(delta_param_t &param, int64_t element, uint64_t bits);
  void allocate();

  std::vector<std::string> names;
  std::vector<delta_param_t> params;
  std::vector<std::unique_ptr<uint8_t[]>> memory;
};

/// Binds a sender of `rank`; the text of the refusal, empty if it was bound.
std::string bindSender(const CompiledModel &model, uint32_t rank,
                       RankParams &params);

/// The same for a receiver.
std::string bindReceiver(const CompiledModel &model, uint32_t rank,
                         RankParams &params);

class BoundModel {
public:
  explicit BoundModel(const CompiledModel &model);
  ~BoundModel();
  BoundModel(const BoundModel &) = delete;
  BoundModel &operator=(const BoundModel &) = delete;

  RankParams &source(uint32_t rank) { return sources.at(rank); }
  RankParams &destination(uint32_t rank) { return destinations.at(rank); }

  /// A full sync, or a delta sync; throws when any call fails. The statistics
  /// are summed over the senders.
  delta_sync_stats_t seed(uint64_t version);
  delta_sync_stats_t sync(uint64_t version);
  /// The version that every receiver holds; throws when they differ.
  uint64_t version() const;

  /// Sums of what the trainer ranks hold more than once.
  std::vector<std::vector<delta_replica_sum_t>> replicaSums(uint64_t key) const;

  /// Drops all senders and receivers, moves all parameters to other memory with
  /// `change` applied in between, and binds anew.
  template <class Change> void rebind(uint8_t garbage, const Change &change) {
    unbind();
    for (RankParams &params : sources)
      params.reallocate(garbage);
    for (RankParams &params : destinations)
      params.reallocate(garbage);
    change();
    bind();
  }

  /// Every message since the start, in the order of sending.
  const std::vector<std::vector<uint8_t>> &messages() const { return sent; }

private:
  void bind();
  void unbind();
  delta_sync_stats_t deliver(uint64_t version, bool seeding);
  static delta_status_t sendTo(void *self, uint32_t source,
                               uint32_t destination, const delta_bytes_t *parts,
                               uint32_t numParts, delta_error_t error);
  static delta_status_t receiveFrom(void *self, uint32_t source,
                                    uint32_t destination,
                                    delta_bytes_t *outMessage,
                                    delta_error_t error);
  static void release(void *, uint32_t, uint32_t, delta_bytes_t) {}

  const delta_plan_api_t &api;
  std::deque<RankParams> sources, destinations;
  std::vector<delta_sender_t *> senders;
  std::vector<delta_receiver_t *> receivers;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<std::vector<uint8_t>>>
      boxes;
  std::deque<std::vector<uint8_t>> lent;
  std::vector<std::vector<uint8_t>> sent;
};

} // namespace delta::test

#endif // DELTA_TEST_UNIT_CASES_BOUNDMODEL_H
