//===- Session.cpp - Senders and receivers of one run ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Phases of a sync, with the time of each.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/Session.h"

#include <algorithm>
#include <thread>

namespace delta::run {

bool Session::eachRank(size_t count, const Call &call, std::string &error) {
  std::vector<std::string> errors(count);
  const auto one = [&](size_t rank) {
    char text[1024] = "";
    const delta_status_t status = call(rank, {text, sizeof(text)});
    if (status != DELTA_OK)
      errors[rank] = text[0] ? text : "status " + std::to_string(status);
  };
  std::vector<std::thread> threads;
  for (size_t rank = 1; rank < count; ++rank)
    threads.emplace_back(one, rank);
  if (count)
    one(0);
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &text : errors)
    if (!text.empty()) {
      error = text;
      return false;
    }
  return true;
}

Session::~Session() {
  for (delta_sender_t *sender : senders)
    if (sender)
      api.sender_destroy(sender);
  for (delta_receiver_t *receiver : receivers)
    if (receiver)
      api.receiver_destroy(receiver);
  if (inproc)
    api.inproc_destroy(inproc);
}

bool Session::create(uint64_t runId, uint32_t threads, uint64_t capacity,
                     std::string &error) {
  const size_t most = std::max(world.sources.size(), world.receivers.size());
  if (threads == 0)
    threads = std::max(1u, numCores() / unsigned(std::max<size_t>(most, 1)));
  if (!eachRank(
          1,
          [&](size_t, delta_error_t text) {
            return api.inproc_create(&inproc, text);
          },
          error))
    return false;
  mail.setInner(api.inproc_transport(inproc));
  senders.resize(world.sources.size());
  receivers.resize(world.receivers.size());
  const auto createSender = [&](size_t rank, delta_error_t text) {
    const auto params = world.sources[rank].bindings();
    return api.sender_create(uint32_t(rank), params.data(),
                             uint32_t(params.size()), runId, threads,
                             &senders[rank], text);
  };
  const auto createReceiver = [&](size_t rank, delta_error_t text) {
    const auto params = world.receivers[rank].bindings();
    return api.receiver_create(uint32_t(rank), params.data(),
                               uint32_t(params.size()), runId, threads,
                               &receivers[rank], text);
  };
  const auto limit = [&](size_t rank, delta_error_t text) {
    return api.sender_set_capacity(senders[rank], capacity, text);
  };
  return eachRank(senders.size(), createSender, error) &&
         eachRank(senders.size(), limit, error) &&
         eachRank(receivers.size(), createReceiver, error);
}

bool Session::stageAll(uint64_t version, std::string &error) {
  return eachRank(
             senders.size(),
             [&](size_t rank, delta_error_t text) {
               return api.sender_seed(senders[rank], version, nullptr, text);
             },
             error) &&
         send(error) && receive(error);
}

bool Session::seed(uint64_t version, std::string &error) {
  // Its parts count as one stage, not among those of the deltas.
  const Seconds before = seconds;
  Stopwatch watch;
  const bool good =
      stageAll(version, error) && commit(error) && acknowledge(version, error);
  seconds = before;
  seconds.seed += watch.lap();
  return good;
}

bool Session::diff(uint64_t version, std::string &error) {
  std::vector<delta_sync_stats_t> stats(senders.size());
  if (!eachRank(
          senders.size(),
          [&](size_t rank, delta_error_t text) {
            return api.sender_diff(senders[rank], version, &stats[rank], text);
          },
          error))
    return false;
  double diffSeconds = 0, packSeconds = 0;
  for (const delta_sync_stats_t &one : stats) {
    diffSeconds = std::max(diffSeconds, one.diff_seconds);
    packSeconds = std::max(packSeconds, one.pack_seconds);
    launches = std::max(launches, one.launches);
  }
  for (delta_sender_t *sender : senders)
    rounds = std::max(rounds, api.sender_rounds(sender));
  seconds.diff += diffSeconds;
  seconds.pack += packSeconds;
  return true;
}

bool Session::send(std::string &error) {
  Stopwatch watch;
  const delta_transport_t transport = mail.transport();
  const bool good = eachRank(
      senders.size(),
      [&](size_t rank, delta_error_t text) {
        return api.sender_send(senders[rank], &transport, text);
      },
      error);
  seconds.exchange += watch.lap();
  return good;
}

bool Session::forward(const Post::Messages &messages, std::string &error) {
  const delta_transport_t transport = mail.transport();
  for (const auto &[pair, rounds] : messages)
    for (const Post::Message &message : rounds) {
      const delta_bytes_t whole = {message.data(), message.size()};
      const auto sendOne = [&, &pair = pair](size_t, delta_error_t text) {
        return transport.send(transport.context, pair.first, pair.second,
                              &whole, 1, text);
      };
      if (!eachRank(1, sendOne, error))
        return false;
    }
  return true;
}

bool Session::receive(std::string &error) {
  Stopwatch watch;
  const delta_transport_t transport = mail.transport();
  const bool good = eachRank(
      receivers.size(),
      [&](size_t rank, delta_error_t text) {
        return api.receiver_receive(receivers[rank], &transport, text);
      },
      error);
  const double waited = mail.takeReceiveSeconds();
  seconds.exchange += waited;
  seconds.stage += std::max(0.0, watch.lap() - waited);
  return good;
}

bool Session::commit(std::string &error) {
  Stopwatch watch;
  const bool good = eachRank(
      receivers.size(),
      [&](size_t rank, delta_error_t text) {
        return api.receiver_commit(receivers[rank], text);
      },
      error);
  seconds.commit += watch.lap();
  return good;
}

bool Session::acknowledge(uint64_t version, std::string &error) {
  Stopwatch watch;
  const bool good = eachRank(
      senders.size(),
      [&](size_t rank, delta_error_t text) {
        return api.sender_acknowledge(senders[rank], version, text);
      },
      error);
  seconds.advance += watch.lap();
  return good;
}

void Session::abandon() {
  for (delta_sender_t *sender : senders)
    api.sender_abort(sender);
  for (delta_receiver_t *receiver : receivers)
    api.receiver_discard(receiver);
}

} // namespace delta::run
