//===- Api.cpp - The functions of a plan's table --------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The table itself, and what belongs to no one rank.
///
//===----------------------------------------------------------------------===//

#include "runtime/Api.h"

#include "codegen/device/Kernels.h"
#include "runtime/Index.h"
#include "runtime/Inproc.h"
#include "runtime/device/Handles.h"
#include "runtime/device/OpenDevice.h"

using namespace delta::runtime;

/// How long an in-process receiver waits for a message.
static constexpr std::chrono::seconds InprocTimeout(120);

struct delta_index {
  Index impl;
};
struct delta_inproc {
  Inproc impl;
};

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
  if (!index || !isSide(side) || rank >= index->impl.getNumRanks(side))
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
// In-process ranks
//===----------------------------------------------------------------------===//

static delta_status_t inprocCreate(delta_inproc_t **outInproc,
                                   delta_error_t error) {
  return guarded(error, [&] {
    if (!outInproc)
      return missing("inproc_create");
    std::shared_ptr<Device> device;
    std::shared_ptr<MessageMemory> memory;
    Status status = openDevice(delta_plan_kernels, device);
    if (!status.failed())
      status = messagesOn(device, memory);
    if (!status.failed())
      *outInproc = new delta_inproc{Inproc(InprocTimeout, memory)};
    return status;
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

static delta_status_t checkDevice(delta_target_t *outTarget,
                                  delta_error_t error) {
  return guarded(error, [&] {
    if (!outTarget)
      return missing("check_device");
    *outTarget =
        delta_plan_kernels.num_cubins ? DELTA_TARGET_CUDA : DELTA_TARGET_HOST;
    return checkDevice(delta_plan_kernels);
  });
}

Status delta::runtime::openDevice(uint32_t rank, std::shared_ptr<Device> &out) {
  Status status = openDevice(delta_plan_kernels, out);
  if (status.failed())
    return Status::error(status.getCode(), "rank %u: bind: %s", rank,
                         status.getText().c_str());
  return status;
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
  fillSender(api);
  fillReceiver(api);
  api.inproc_create = inprocCreate;
  api.inproc_destroy = inprocDestroy;
  api.inproc_transport = inprocTransport;
  api.check_device = checkDevice;
  return api;
}

extern "C" __attribute__((visibility("default"))) const delta_plan_api_t *
delta_plan_query(uint32_t maxVersion) {
  if (maxVersion < DELTA_ABI_VERSION)
    return nullptr;
  static const delta_plan_api_t api = makeApi();
  return &api;
}
