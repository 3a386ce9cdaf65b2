//===- ApiSender.cpp - One trainer rank, in C -----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Api.h"

#include "runtime/Sender.h"
#include "runtime/device/Handles.h"

using namespace delta::runtime;

struct delta_sender {
  std::unique_ptr<Sender> impl;
};

static delta_status_t senderCreate(uint32_t rank, const delta_param_t *params,
                                   uint32_t numParams, uint64_t run,
                                   uint32_t numThreads,
                                   delta_sender_t **outSender,
                                   delta_error_t error) {
  return guarded(error, [&] {
    if (!outSender || (numParams && !params))
      return missing("sender_create");
    std::shared_ptr<Device> device;
    Status status = openDevice(rank, device);
    if (status.failed())
      return status;
    std::unique_ptr<Sender> sender;
    status = Sender::create(delta_plan_tables, delta_plan_kernels, rank, params,
                            numParams, run, numThreads, sender,
                            packingOn(device, delta_plan_tables));
    if (!status.failed())
      *outSender = new delta_sender{std::move(sender)};
    return status;
  });
}

static void senderDestroy(delta_sender_t *sender) { delete sender; }

static delta_status_t senderSeed(delta_sender_t *sender, uint64_t version,
                                 delta_sync_stats_t *outStats,
                                 delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->seed(version, outStats)
                  : missing("sender_seed");
  });
}

static delta_status_t senderDiff(delta_sender_t *sender, uint64_t version,
                                 delta_sync_stats_t *outStats,
                                 delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->diff(version, outStats)
                  : missing("sender_diff");
  });
}

static delta_status_t senderSend(delta_sender_t *sender,
                                 const delta_transport_t *transport,
                                 delta_error_t error) {
  return guarded(error, [&] {
    return sender && transport ? sender->impl->send(*transport)
                               : missing("sender_send");
  });
}

static delta_status_t senderAcknowledge(delta_sender_t *sender,
                                        uint64_t version, delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->acknowledge(version)
                  : missing("sender_acknowledge");
  });
}

static void senderAbort(delta_sender_t *sender) {
  if (sender)
    sender->impl->abort();
}

static delta_status_t senderFingerprints(delta_sender_t *sender,
                                         uint32_t destinationRank, uint64_t key,
                                         uint64_t *out, uint64_t capacity,
                                         uint64_t *outCount,
                                         delta_error_t error) {
  return guarded(error, [&] {
    if (!sender || !outCount)
      return missing("sender_fingerprints");
    return sender->impl->fingerprints(destinationRank, key, out, capacity,
                                      *outCount);
  });
}

static delta_status_t senderReplicaSums(delta_sender_t *sender, uint64_t key,
                                        delta_replica_sum_t *out,
                                        uint64_t capacity, uint64_t *outCount,
                                        delta_error_t error) {
  return guarded(error, [&] {
    if (!sender || !outCount)
      return missing("sender_replica_sums");
    return sender->impl->replicaSums(key, out, capacity, *outCount);
  });
}

static delta_status_t senderSetCapacity(delta_sender_t *sender,
                                        uint64_t elements,
                                        delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->setCapacity(elements)
                  : missing("sender_set_capacity");
  });
}

static uint32_t senderRounds(const delta_sender_t *sender) {
  return sender ? sender->impl->getNumRounds() : 0;
}

static delta_status_t senderRebind(delta_sender_t *sender,
                                   const delta_param_t *params,
                                   uint32_t numParams, delta_error_t error) {
  return guarded(error, [&] {
    return sender && (params || !numParams)
               ? sender->impl->rebind(params, numParams)
               : missing("sender_rebind");
  });
}

static delta_status_t senderCheckBound(const delta_sender_t *sender,
                                       const delta_param_t *params,
                                       uint32_t numParams,
                                       delta_error_t error) {
  return guarded(error, [&] {
    return sender && (params || !numParams)
               ? sender->impl->checkBound(params, numParams)
               : missing("sender_check_bound");
  });
}

static delta_status_t senderSetPlacement(delta_sender_t *sender,
                                         const uint32_t *experts,
                                         uint32_t numTables, uint32_t numSlots,
                                         delta_error_t error) {
  return guarded(error, [&] {
    return sender && experts
               ? sender->impl->setPlacement(experts, numTables, numSlots)
               : missing("sender_set_placement");
  });
}

static delta_status_t senderBeginMoved(delta_sender_t *sender,
                                       delta_sync_stats_t *outStats,
                                       delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->beginMoved(outStats)
                  : missing("sender_begin_moved");
  });
}

static delta_status_t senderSetStream(delta_sender_t *sender, void *stream,
                                      delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->setStream(stream)
                  : missing("sender_set_stream");
  });
}

static delta_status_t senderCompare(delta_sender_t *sender,
                                    delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->compare() : missing("sender_compare");
  });
}

static delta_status_t senderPack(delta_sender_t *sender, uint64_t version,
                                 delta_sync_stats_t *outStats,
                                 delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->pack(version, outStats)
                  : missing("sender_pack");
  });
}

static delta_status_t senderRead(delta_sender_t *sender, uint64_t version,
                                 delta_sync_stats_t *outStats,
                                 delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->read(version, outStats)
                  : missing("sender_read");
  });
}

static delta_status_t senderSeal(delta_sender_t *sender, delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->seal() : missing("sender_seal");
  });
}

static delta_status_t senderConfirm(delta_sender_t *sender, uint64_t version,
                                    delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->confirm(version) : missing("sender_confirm");
  });
}

static delta_status_t senderAdvance(delta_sender_t *sender,
                                    delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->advance() : missing("sender_advance");
  });
}

static delta_status_t senderCast(delta_sender_t *sender, uint32_t param,
                                 const float *values, int64_t first,
                                 int64_t count, delta_error_t error) {
  return guarded(error, [&] {
    return sender && (values || !count)
               ? sender->impl->cast(param, values, first, count)
               : missing("sender_cast");
  });
}

static delta_status_t senderMark(delta_sender_t *sender, uint32_t param,
                                 delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->mark(param) : missing("sender_mark");
  });
}

static delta_status_t senderMarks(delta_sender_t *sender, uint32_t ofExperts,
                                  void **outMarks, uint64_t *outBytes,
                                  delta_error_t error) {
  return guarded(error, [&] {
    return sender && outMarks && outBytes
               ? sender->impl->marks(ofExperts != 0, *outMarks, *outBytes)
               : missing("sender_marks");
  });
}

static delta_status_t senderDropMarks(delta_sender_t *sender,
                                      delta_error_t error) {
  return guarded(error, [&] {
    return sender ? sender->impl->dropMarks() : missing("sender_drop_marks");
  });
}

void delta::runtime::fillSender(delta_plan_api_t &api) {
  api.sender_create = senderCreate;
  api.sender_destroy = senderDestroy;
  api.sender_seed = senderSeed;
  api.sender_diff = senderDiff;
  api.sender_send = senderSend;
  api.sender_acknowledge = senderAcknowledge;
  api.sender_abort = senderAbort;
  api.sender_fingerprints = senderFingerprints;
  api.sender_set_capacity = senderSetCapacity;
  api.sender_rounds = senderRounds;
  api.sender_rebind = senderRebind;
  api.sender_check_bound = senderCheckBound;
  api.sender_replica_sums = senderReplicaSums;
  api.sender_set_placement = senderSetPlacement;
  api.sender_begin_moved = senderBeginMoved;
  api.sender_set_stream = senderSetStream;
  api.sender_compare = senderCompare;
  api.sender_pack = senderPack;
  api.sender_cast = senderCast;
  api.sender_mark = senderMark;
  api.sender_read = senderRead;
  api.sender_seal = senderSeal;
  api.sender_confirm = senderConfirm;
  api.sender_advance = senderAdvance;
  api.sender_marks = senderMarks;
  api.sender_drop_marks = senderDropMarks;
}
