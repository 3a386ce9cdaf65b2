//===- PlanRanks.cpp - Senders and receivers of a plan --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanRanks.h"

#include "BenchError.h"

using namespace delta::bench;

static constexpr uint64_t Run = 1;

PlanRanks::PlanRanks(const delta_plan_api_t &api, World &world,
                     Machine &machine, uint32_t numThreads)
    : api(api), world(world), machine(machine) {
  try {
    create(numThreads);
  } catch (...) {
    destroy();
    throw;
  }
}

void PlanRanks::create(uint32_t numThreads) {
  must([&](delta_error_t error) { return api.inproc_create(&inproc, error); });
  mail = api.inproc_transport(inproc);
  for (auto &source : world.sources) {
    std::vector<delta_param_t> params = source->bind();
    delta_sender_t *made = nullptr;
    must([&](delta_error_t error) {
      return api.sender_create(source->getLayout().getRank(), params.data(),
                               uint32_t(params.size()), Run, numThreads, &made,
                               error);
    });
    senders.push_back(made);
    must([&](delta_error_t error) {
      return api.sender_set_stream(made, machine.getStream(), error);
    });
  }
  for (ReceiverMemory &receiver : world.receivers) {
    std::vector<delta_param_t> params = receiver.bind();
    delta_receiver_t *made = nullptr;
    must([&](delta_error_t error) {
      return api.receiver_create(receiver.layout.getRank(), params.data(),
                                 uint32_t(params.size()), Run, numThreads,
                                 &made, error);
    });
    receivers.push_back(made);
    must([&](delta_error_t error) {
      return api.receiver_set_stream(made, machine.getStream(), error);
    });
  }
}

PlanRanks::~PlanRanks() { destroy(); }

void PlanRanks::destroy() {
  for (delta_sender_t *sender : senders)
    api.sender_destroy(sender);
  for (delta_receiver_t *receiver : receivers)
    api.receiver_destroy(receiver);
  if (inproc)
    api.inproc_destroy(inproc);
}

static delta_status_t drop(void *, uint32_t, uint32_t, const delta_bytes_t *,
                           uint32_t, delta_error_t) {
  return DELTA_OK;
}
static delta_status_t refuse(void *, uint32_t, uint32_t, delta_bytes_t *,
                             delta_error_t error) {
  return delta::runtime::Status::error(DELTA_REFUSED, "nothing is kept")
      .report(error);
}
static void ignore(void *, uint32_t, uint32_t, delta_bytes_t) {}

delta_transport_t PlanRanks::nowhere() const {
  return {/*context=*/nullptr, drop, refuse, ignore};
}

uint64_t PlanRanks::sendAll(uint64_t ofVersion) {
  const delta_transport_t to = hasReceivers() ? mail : nowhere();
  uint64_t numElements = 0;
  for (delta_sender_t *sender : senders) {
    delta_sync_stats_t stats = {};
    must([&](delta_error_t error) {
      return api.sender_seed(sender, ofVersion, &stats, error);
    });
    must([&](delta_error_t error) {
      return api.sender_send(sender, &to, error);
    });
    numElements += stats.elements;
  }
  for (delta_receiver_t *receiver : receivers)
    must([&](delta_error_t error) {
      return api.receiver_receive(receiver, &mail, error);
    });
  return numElements;
}

/// Not an abort: what several rounds have sent would be sent again.
void PlanRanks::acknowledgeAll() {
  for (delta_sender_t *sender : senders)
    must([&](delta_error_t error) {
      return api.sender_acknowledge(sender, version, error);
    });
  machine.wait();
}

void PlanRanks::seed() {
  world.clearReceivers();
  sendAll(1);
  for (delta_receiver_t *receiver : receivers)
    must([&](delta_error_t error) {
      return api.receiver_commit(receiver, error);
    });
  version = 1;
  acknowledgeAll();
}

PlanRanks::Verified PlanRanks::verify() {
  if (!hasReceivers())
    return {};
  const uint64_t numCompared = sendAll(version);
  for (size_t i = 0; i < receivers.size(); ++i) {
    uint64_t mismatches = 0;
    char first[1024] = "";
    delta_status_t status =
        api.receiver_compare(receivers[i], &mismatches, {first, sizeof(first)});
    if (status != DELTA_OK)
      throw BenchError(first);
    if (mismatches)
      throw BenchError("version " + std::to_string(version) + ": " +
                       std::to_string(mismatches) + " elements of receiver " +
                       std::to_string(i) + " differ: " + first);
  }
  acknowledgeAll();
  return {numCompared, readBack()};
}
