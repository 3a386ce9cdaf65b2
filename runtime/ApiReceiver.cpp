//===- ApiReceiver.cpp - One destination rank, in C -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Api.h"

#include "runtime/Receiver.h"
#include "runtime/device/Handles.h"

#include <algorithm>

using namespace delta::runtime;

struct delta_receiver {
  std::unique_ptr<Receiver> impl;
};

static delta_status_t receiverCreate(uint32_t rank, const delta_param_t *params,
                                     uint32_t numParams, uint64_t run,
                                     uint32_t numThreads,
                                     delta_receiver_t **outReceiver,
                                     delta_error_t error) {
  return guarded(error, [&] {
    if (!outReceiver || (numParams && !params))
      return missing("receiver_create");
    std::shared_ptr<Device> device;
    Status status = openDevice(rank, device);
    if (status.failed())
      return status;
    std::unique_ptr<Receiver> receiver;
    status = Receiver::create(delta_plan_tables, delta_plan_kernels, rank,
                              params, numParams, run, numThreads, receiver,
                              intakeOn(device, delta_plan_tables));
    if (!status.failed())
      *outReceiver = new delta_receiver{std::move(receiver)};
    return status;
  });
}

static void receiverDestroy(delta_receiver_t *receiver) { delete receiver; }

static delta_status_t receiverRebind(delta_receiver_t *receiver,
                                     const delta_param_t *params,
                                     uint32_t numParams, delta_error_t error) {
  return guarded(error, [&] {
    return receiver && (params || !numParams)
               ? receiver->impl->rebind(params, numParams)
               : missing("receiver_rebind");
  });
}

static delta_status_t receiverCheckBound(const delta_receiver_t *receiver,
                                         const delta_param_t *params,
                                         uint32_t numParams,
                                         delta_error_t error) {
  return guarded(error, [&] {
    return receiver && (params || !numParams)
               ? receiver->impl->checkBound(params, numParams)
               : missing("receiver_check_bound");
  });
}

static delta_status_t receiverStage(delta_receiver_t *receiver,
                                    delta_bytes_t message,
                                    delta_error_t error) {
  return guarded(error, [&] {
    return receiver ? receiver->impl->stage(message)
                    : missing("receiver_stage");
  });
}

static delta_status_t receiverReceive(delta_receiver_t *receiver,
                                      const delta_transport_t *transport,
                                      delta_error_t error) {
  return guarded(error, [&] {
    return receiver && transport ? receiver->impl->receive(*transport)
                                 : missing("receiver_receive");
  });
}

static delta_status_t receiverCommit(delta_receiver_t *receiver,
                                     delta_error_t error) {
  return guarded(error, [&] {
    return receiver ? receiver->impl->commit() : missing("receiver_commit");
  });
}

static void receiverDiscard(delta_receiver_t *receiver) {
  if (receiver)
    receiver->impl->discard();
}

static uint64_t receiverVersion(const delta_receiver_t *receiver) {
  return receiver ? receiver->impl->getVersion() : 0;
}

static delta_status_t receiverCompare(delta_receiver_t *receiver,
                                      uint64_t *outMismatches,
                                      delta_error_t first) {
  return guarded(first, [&] {
    if (!receiver || !outMismatches)
      return missing("receiver_compare");
    Status description;
    Status status = receiver->impl->compare(*outMismatches, description);
    if (!status.failed())
      (void)description.report(first);
    return status;
  });
}

static delta_status_t receiverFingerprints(delta_receiver_t *receiver,
                                           uint32_t sourceRank, uint64_t key,
                                           uint64_t *out, uint64_t capacity,
                                           uint64_t *outCount,
                                           delta_error_t error) {
  return guarded(error, [&] {
    if (!receiver || !outCount)
      return missing("receiver_fingerprints");
    return receiver->impl->fingerprints(sourceRank, key, out, capacity,
                                        *outCount);
  });
}

static delta_status_t receiverSetPlacement(delta_receiver_t *receiver,
                                           const uint32_t *experts,
                                           uint32_t numTables,
                                           uint32_t numSlots,
                                           delta_error_t error) {
  return guarded(error, [&] {
    return receiver && experts
               ? receiver->impl->setPlacement(experts, numTables, numSlots)
               : missing("receiver_set_placement");
  });
}

static delta_status_t receiverCheckLayout(delta_receiver_t *receiver,
                                          double share, delta_error_t error) {
  return guarded(error, [&] {
    return receiver ? receiver->impl->checkLayout(share)
                    : missing("receiver_check_layout");
  });
}

static delta_status_t receiverRefreshes(const delta_receiver_t *receiver,
                                        delta_refresh_call_t *out,
                                        uint64_t capacity, uint64_t *outCount,
                                        delta_error_t error) {
  return guarded(error, [&] {
    if (!receiver || !outCount)
      return missing("receiver_refreshes");
    const std::vector<delta_refresh_call_t> *calls = nullptr;
    Status status = receiver->impl->getRefreshes(calls);
    if (status.failed())
      return status;
    *outCount = calls->size();
    if (out && capacity < calls->size())
      return Status::error(
          DELTA_INVALID_ARGUMENT, "refreshes: room for %llu of %zu",
          static_cast<unsigned long long>(capacity), calls->size());
    if (out)
      std::copy(calls->begin(), calls->end(), out);
    return Status();
  });
}

static delta_status_t receiverSetStream(delta_receiver_t *receiver,
                                        void *stream, delta_error_t error) {
  return guarded(error, [&] {
    return receiver ? receiver->impl->setStream(stream)
                    : missing("receiver_set_stream");
  });
}

void delta::runtime::fillReceiver(delta_plan_api_t &api) {
  api.receiver_create = receiverCreate;
  api.receiver_destroy = receiverDestroy;
  api.receiver_stage = receiverStage;
  api.receiver_receive = receiverReceive;
  api.receiver_commit = receiverCommit;
  api.receiver_discard = receiverDiscard;
  api.receiver_version = receiverVersion;
  api.receiver_compare = receiverCompare;
  api.receiver_fingerprints = receiverFingerprints;
  api.receiver_rebind = receiverRebind;
  api.receiver_check_bound = receiverCheckBound;
  api.receiver_set_placement = receiverSetPlacement;
  api.receiver_check_layout = receiverCheckLayout;
  api.receiver_refreshes = receiverRefreshes;
  api.receiver_set_stream = receiverSetStream;
}
