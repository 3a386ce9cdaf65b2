//===- BoundModel.cpp - All ranks of a small model ------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundModel.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

using namespace delta::test;

static size_t byteWidth(delta_dtype_t dtype) {
  return dtype == DELTA_INT64 ? 8 : dtype == DELTA_FP32 ? 4 : 2;
}

int64_t RankParams::count(const delta_param_t &param) {
  int64_t count = 1;
  for (uint32_t dim = 0; dim < param.rank; ++dim)
    count *= param.shape[dim];
  return count;
}

RankParams::RankParams(const CompiledModel &model, delta_side_id_t side,
                       uint32_t rank) {
  const auto &all = model.params(side, rank);
  for (const ParamDescription &from : all)
    names.push_back(from.names.front());
  for (size_t i = 0; i < all.size(); ++i) {
    delta_param_t &param = params.emplace_back();
    param = {};
    param.name = names[i].c_str();
    param.chunk = all[i].chunk;
    param.dtype = all[i].dtype == "fp32"   ? DELTA_FP32
                  : all[i].dtype == "i64"  ? DELTA_INT64
                  : all[i].dtype == "fp16" ? DELTA_FP16
                                           : DELTA_BF16;
    param.rank = uint32_t(all[i].shape.size());
    int64_t stride = 1;
    for (uint32_t dim = param.rank; dim-- > 0; stride *= param.shape[dim]) {
      param.shape[dim] = all[i].shape[dim];
      param.stride[dim] = stride;
    }
  }
  allocate();
}

void RankParams::allocate() {
  memory.clear();
  for (delta_param_t &param : params) {
    memory.push_back(std::make_unique<uint8_t[]>(size_t(count(param)) *
                                                 byteWidth(param.dtype)));
    param.data = memory.back().get();
  }
}

void RankParams::reallocate(uint8_t garbage) {
  auto old = std::move(memory);
  allocate();
  for (size_t i = 0; i < params.size(); ++i) {
    const size_t size = size_t(count(params[i])) * byteWidth(params[i].dtype);
    std::memcpy(params[i].data, old[i].get(), size);
    std::memset(old[i].get(), garbage, size);
  }
}

delta_param_t &RankParams::find(const std::string &name, uint32_t chunk) {
  for (delta_param_t &param : params)
    if (param.chunk == chunk && name == param.name)
      return param;
  throw std::out_of_range("no parameter " + name);
}

static int64_t elementAt(const delta_param_t &param, const Index &index) {
  if (index.size() != param.rank)
    throw std::out_of_range(param.name);
  int64_t element = 0;
  for (uint32_t dim = 0; dim < param.rank; ++dim) {
    if (index[dim] < 0 || index[dim] >= param.shape[dim])
      throw std::out_of_range(param.name);
    element += index[dim] * param.stride[dim];
  }
  return element;
}

void RankParams::put(delta_param_t &param, int64_t element, uint64_t bits) {
  const size_t width = byteWidth(param.dtype);
  std::memcpy(static_cast<uint8_t *>(param.data) + size_t(element) * width,
              &bits, width);
}

uint64_t RankParams::get(const std::string &name, const Index &index,
                         uint32_t chunk) {
  const delta_param_t &param = find(name, chunk);
  const size_t width = byteWidth(param.dtype);
  uint64_t bits = 0;
  std::memcpy(&bits,
              static_cast<const uint8_t *>(param.data) +
                  size_t(elementAt(param, index)) * width,
              width);
  return bits;
}

void RankParams::set(const std::string &name, const Index &index, uint64_t bits,
                     uint32_t chunk) {
  delta_param_t &param = find(name, chunk);
  put(param, elementAt(param, index), bits);
}

std::string delta::test::bindSender(const CompiledModel &model, uint32_t rank,
                                    RankParams &params) {
  char text[512] = {};
  delta_sender_t *sender = nullptr;
  const delta_status_t status = model.api().sender_create(
      rank, params.bound().data(), uint32_t(params.bound().size()), /*run=*/1,
      /*num_threads=*/1, &sender, {text, sizeof(text)});
  if (status == DELTA_OK) {
    model.api().sender_destroy(sender);
    return "";
  }
  return status == DELTA_BIND_MISMATCH
             ? text
             : "status " + std::to_string(status) + ": " + text;
}

std::string delta::test::bindReceiver(const CompiledModel &model, uint32_t rank,
                                      RankParams &params) {
  char text[512] = {};
  delta_receiver_t *receiver = nullptr;
  const delta_status_t status = model.api().receiver_create(
      rank, params.bound().data(), uint32_t(params.bound().size()), /*run=*/1,
      /*num_threads=*/1, &receiver, {text, sizeof(text)});
  if (status == DELTA_OK) {
    model.api().receiver_destroy(receiver);
    return "";
  }
  return status == DELTA_BIND_MISMATCH
             ? text
             : "status " + std::to_string(status) + ": " + text;
}

BoundModel::BoundModel(const CompiledModel &model) : api(model.api()) {
  for (uint32_t rank = 0; rank < model.numRanks(DELTA_SOURCE); ++rank)
    sources.emplace_back(model, DELTA_SOURCE, rank);
  for (uint32_t rank = 0; rank < model.numRanks(DELTA_DESTINATION); ++rank)
    destinations.emplace_back(model, DELTA_DESTINATION, rank);
  bind();
}

BoundModel::~BoundModel() { unbind(); }

namespace {
/// A call of the ABI with its error text.
struct Call {
  char text[512] = {};
  delta_error_t error() { return {text, sizeof(text)}; }
  void require(delta_status_t status) const {
    if (status != DELTA_OK)
      throw std::runtime_error("status " + std::to_string(status) + ": " +
                               text);
  }
};
} // namespace

void BoundModel::bind() {
  Call call;
  for (uint32_t rank = 0; rank < sources.size(); ++rank) {
    auto &bound = sources[rank].bound();
    call.require(api.sender_create(rank, bound.data(), uint32_t(bound.size()),
                                   /*run=*/7, /*num_threads=*/1,
                                   &senders.emplace_back(), call.error()));
  }
  for (uint32_t rank = 0; rank < destinations.size(); ++rank) {
    auto &bound = destinations[rank].bound();
    call.require(api.receiver_create(rank, bound.data(), uint32_t(bound.size()),
                                     /*run=*/7, /*num_threads=*/1,
                                     &receivers.emplace_back(), call.error()));
  }
}

void BoundModel::unbind() {
  for (delta_sender_t *sender : senders)
    api.sender_destroy(sender);
  for (delta_receiver_t *receiver : receivers)
    api.receiver_destroy(receiver);
  senders.clear();
  receivers.clear();
}

std::vector<std::vector<delta_replica_sum_t>>
BoundModel::replicaSums(uint64_t key) const {
  Call call;
  std::vector<std::vector<delta_replica_sum_t>> sums;
  for (delta_sender_t *sender : senders) {
    uint64_t count = 0;
    call.require(
        api.sender_replica_sums(sender, key, nullptr, 0, &count, call.error()));
    auto &own = sums.emplace_back(count);
    call.require(api.sender_replica_sums(sender, key, own.data(), count, &count,
                                         call.error()));
  }
  return sums;
}

delta_status_t BoundModel::sendTo(void *self, uint32_t source,
                                  uint32_t destination,
                                  const delta_bytes_t *parts, uint32_t numParts,
                                  delta_error_t) {
  auto &model = *static_cast<BoundModel *>(self);
  std::vector<uint8_t> message;
  for (uint32_t i = 0; i < numParts; ++i) {
    auto *begin = static_cast<const uint8_t *>(parts[i].data);
    message.insert(message.end(), begin, begin + parts[i].size);
  }
  model.sent.push_back(message);
  model.boxes[{source, destination}].push_back(std::move(message));
  return DELTA_OK;
}

delta_status_t BoundModel::receiveFrom(void *self, uint32_t source,
                                       uint32_t destination,
                                       delta_bytes_t *outMessage,
                                       delta_error_t) {
  auto &model = *static_cast<BoundModel *>(self);
  auto &box = model.boxes[{source, destination}];
  if (box.empty())
    return DELTA_REFUSED;
  model.lent.push_back(std::move(box.front()));
  box.pop_front();
  *outMessage = {model.lent.back().data(), model.lent.back().size()};
  return DELTA_OK;
}

delta_sync_stats_t BoundModel::deliver(uint64_t version, bool seeding) {
  const delta_transport_t transport = {this, sendTo, receiveFrom, release};
  delta_sync_stats_t total = {};
  Call call;
  for (delta_sender_t *sender : senders) {
    delta_sync_stats_t stats = {};
    call.require(seeding
                     ? api.sender_seed(sender, version, &stats, call.error())
                     : api.sender_diff(sender, version, &stats, call.error()));
    total.elements += stats.elements;
    total.changed += stats.changed;
    total.message_bytes += stats.message_bytes;
    call.require(api.sender_send(sender, &transport, call.error()));
  }
  for (delta_receiver_t *receiver : receivers) {
    call.require(api.receiver_receive(receiver, &transport, call.error()));
    call.require(api.receiver_commit(receiver, call.error()));
  }
  for (delta_sender_t *sender : senders)
    call.require(api.sender_acknowledge(sender, version, call.error()));
  return total;
}

delta_sync_stats_t BoundModel::seed(uint64_t version) {
  return deliver(version, /*seeding=*/true);
}

delta_sync_stats_t BoundModel::sync(uint64_t version) {
  return deliver(version, /*seeding=*/false);
}

uint64_t BoundModel::version() const {
  const uint64_t version = api.receiver_version(receivers.front());
  for (const delta_receiver_t *receiver : receivers)
    if (api.receiver_version(receiver) != version)
      throw std::runtime_error("receivers hold different versions");
  return version;
}
