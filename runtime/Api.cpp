//===- Api.cpp - The functions of a plan's table --------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Thin wrappers of the classes, over the tables and kernels of the plan that
/// this is linked into. No exception leaves them.
///
//===----------------------------------------------------------------------===//

#include "runtime/Index.h"
#include "runtime/Inproc.h"
#include "runtime/Receiver.h"
#include "runtime/Sender.h"

using namespace delta::runtime;

/// How long an in-process receiver waits for a message.
static constexpr std::chrono::seconds InprocTimeout(120);

struct delta_index {
  Index impl;
};
struct delta_sender {
  std::unique_ptr<Sender> impl;
};
struct delta_receiver {
  std::unique_ptr<Receiver> impl;
};
struct delta_inproc {
  Inproc impl;
};

static Status missing(const char *call) {
  return Status::error(DELTA_INVALID_ARGUMENT, "%s: a pointer is null", call);
}

static bool isSide(delta_side_id_t side) {
  return side == DELTA_SOURCE || side == DELTA_DESTINATION ||
         side == DELTA_HF || side == DELTA_COPIED;
}

//===----------------------------------------------------------------------===//
// Index
//===----------------------------------------------------------------------===//

static delta_status_t indexCreate(delta_index_t **outIndex,
                                  delta_error_t error) {
  return guarded(error, [&] {
    if (!outIndex)
      return missing("index_create");
    Status status = checkTables(delta_plan_tables);
    if (!status.failed())
      *outIndex = new delta_index{Index(delta_plan_tables)};
    return status;
  });
}

static void indexDestroy(delta_index_t *index) { delete index; }

static uint32_t numRanks(delta_side_id_t side) {
  return isSide(side) ? Side(delta_plan_tables, side).getNumRanks() : 0;
}

static uint32_t paramCount(delta_index_t *index, delta_side_id_t side,
                           uint32_t rank) {
  if (!index || rank >= numRanks(side))
    return 0;
  return uint32_t(index->impl.getParams(side, rank).size());
}

static delta_status_t paramInfo(delta_index_t *index, delta_side_id_t side,
                                uint32_t rank, uint32_t param,
                                delta_param_info_t *outInfo) {
  return guarded({}, [&] {
    if (!index || !outInfo || !isSide(side))
      return missing("param_info");
    return index->impl.paramInfo(side, rank, param, *outInfo);
  });
}

static uint64_t tileCount(delta_index_t *index, uint32_t sourceRank) {
  if (!index || sourceRank >= numRanks(DELTA_SOURCE))
    return 0;
  return uint64_t(index->impl.getExpansion(sourceRank).numTiles);
}

static delta_status_t tileInfo(delta_index_t *index, uint32_t sourceRank,
                               uint64_t tile, delta_tile_info_t *outInfo) {
  return guarded({}, [&] {
    if (!index || !outInfo)
      return missing("tile_info");
    return index->impl.tileInfo(sourceRank, tile, *outInfo);
  });
}

static delta_status_t tileElement(delta_index_t *index, uint32_t sourceRank,
                                  uint64_t tile, uint32_t offset,
                                  delta_place_t *outSource,
                                  delta_place_t *outHf,
                                  delta_place_t *outDestinations,
                                  uint32_t capacity, uint32_t *outCount) {
  return guarded({}, [&] {
    if (!index || !outSource || !outHf || !outCount ||
        (capacity && !outDestinations))
      return missing("tile_element");
    return index->impl.tileElement(sourceRank, tile, offset, *outSource, *outHf,
                                   outDestinations, capacity, *outCount);
  });
}

//===----------------------------------------------------------------------===//
// Sender
//===----------------------------------------------------------------------===//

static delta_status_t senderCreate(uint32_t rank, const delta_param_t *params,
                                   uint32_t numParams, uint64_t run,
                                   uint32_t numThreads,
                                   delta_sender_t **outSender,
                                   delta_error_t error) {
  return guarded(error, [&] {
    if (!outSender || (numParams && !params))
      return missing("sender_create");
    std::unique_ptr<Sender> sender;
    Status status = Sender::create(delta_plan_tables, delta_plan_kernels, rank,
                                   params, numParams, run, numThreads, sender);
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

//===----------------------------------------------------------------------===//
// Receiver
//===----------------------------------------------------------------------===//

static delta_status_t receiverCreate(uint32_t rank, const delta_param_t *params,
                                     uint32_t numParams, uint64_t run,
                                     uint32_t numThreads,
                                     delta_receiver_t **outReceiver,
                                     delta_error_t error) {
  return guarded(error, [&] {
    if (!outReceiver || (numParams && !params))
      return missing("receiver_create");
    std::unique_ptr<Receiver> receiver;
    Status status =
        Receiver::create(delta_plan_tables, delta_plan_kernels, rank, params,
                         numParams, run, numThreads, receiver);
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

//===----------------------------------------------------------------------===//
// In-process ranks
//===----------------------------------------------------------------------===//

static delta_status_t inprocCreate(delta_inproc_t **outInproc,
                                   delta_error_t error) {
  return guarded(error, [&] {
    if (!outInproc)
      return missing("inproc_create");
    *outInproc = new delta_inproc{Inproc(InprocTimeout)};
    return Status();
  });
}

static void inprocDestroy(delta_inproc_t *inproc) {
  if (inproc)
    inproc->impl.close();
  delete inproc;
}

static delta_transport_t inprocTransport(delta_inproc_t *inproc) {
  return inproc ? inproc->impl.transport() : delta_transport_t{};
}

/// Filled on the first query; nothing runs at load.
static delta_plan_api_t makeApi() {
  delta_plan_api_t api = {};
  api.version = DELTA_ABI_VERSION;
  api.size = sizeof(delta_plan_api_t);
  api.name = delta_plan_tables.model;
  api.fingerprint[0] = delta_plan_tables.fingerprint[0];
  api.fingerprint[1] = delta_plan_tables.fingerprint[1];
  api.tables = &delta_plan_tables;
  api.index_create = indexCreate;
  api.index_destroy = indexDestroy;
  api.num_ranks = numRanks;
  api.param_count = paramCount;
  api.param_info = paramInfo;
  api.tile_count = tileCount;
  api.tile_info = tileInfo;
  api.tile_element = tileElement;
  api.sender_create = senderCreate;
  api.sender_destroy = senderDestroy;
  api.sender_seed = senderSeed;
  api.sender_diff = senderDiff;
  api.sender_send = senderSend;
  api.sender_acknowledge = senderAcknowledge;
  api.sender_abort = senderAbort;
  api.receiver_create = receiverCreate;
  api.receiver_destroy = receiverDestroy;
  api.receiver_stage = receiverStage;
  api.receiver_receive = receiverReceive;
  api.receiver_commit = receiverCommit;
  api.receiver_discard = receiverDiscard;
  api.receiver_version = receiverVersion;
  api.receiver_compare = receiverCompare;
  api.sender_fingerprints = senderFingerprints;
  api.receiver_fingerprints = receiverFingerprints;
  api.inproc_create = inprocCreate;
  api.inproc_destroy = inprocDestroy;
  api.inproc_transport = inprocTransport;
  api.sender_set_capacity = senderSetCapacity;
  api.sender_rounds = senderRounds;
  api.sender_rebind = senderRebind;
  api.receiver_rebind = receiverRebind;
  api.sender_check_bound = senderCheckBound;
  api.receiver_check_bound = receiverCheckBound;
  return api;
}

extern "C" __attribute__((visibility("default"))) const delta_plan_api_t *
delta_plan_query(uint32_t maxVersion) {
  if (maxVersion < DELTA_ABI_VERSION)
    return nullptr;
  static const delta_plan_api_t api = makeApi();
  return &api;
}
