//===- Session.h - Senders and receivers of one run -------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// All ranks of a run, each a thread of its own in every phase, driven through
/// the ABI of the plan. A sync is: diff, send, receive, commit, acknowledge.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_RUN_SESSION_H
#define DELTA_TOOLS_RUN_SESSION_H

#include "tools/delta-run/Post.h"
#include "tools/delta-run/World.h"

#include <chrono>

namespace delta::run {

/// Seconds since it was made, or since the last call.
class Stopwatch {
public:
  double lap() {
    const auto now = Clock::now();
    const std::chrono::duration<double> seconds = now - begin;
    begin = now;
    return seconds.count();
  }

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
};

/// Seconds of each stage, summed over the steps.
struct Seconds {
  double compile = 0, seed = 0, update = 0, diff = 0, pack = 0, exchange = 0,
         stage = 0, commit = 0, advance = 0, verify = 0;
};

class Session {
public:
  /// The plan and the world must outlive it.
  Session(const delta_plan_api_t &api, const World &world, Seconds &seconds)
      : api(api), world(world), seconds(seconds) {}
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  /// Every function returns false after setting `error` to the message of the
  /// lowest rank that failed.
  bool create(uint64_t runId, uint32_t threads, uint64_t capacity,
              std::string &error);

  /// A full sync to `version`, from beginning to end.
  bool seed(uint64_t version, std::string &error);
  /// A delta to `version`: compare and pack.
  bool diff(uint64_t version, std::string &error);
  bool send(std::string &error);
  /// Instead of `send`: what it gave while the post was holding.
  bool forward(const Post::Messages &messages, std::string &error);
  bool receive(std::string &error);
  bool commit(std::string &error);
  bool acknowledge(uint64_t version, std::string &error);
  /// Drops what is packed and staged.
  void abandon();

  /// Packs and delivers a full sync without committing it.
  bool stageAll(uint64_t version, std::string &error);

  Post &post() { return mail; }
  delta_sender_t *sender(size_t rank) { return senders[rank]; }
  delta_receiver_t *receiver(size_t rank) { return receivers[rank]; }
  size_t numSenders() const { return senders.size(); }
  size_t numReceivers() const { return receivers.size(); }

  /// Kernels of one sync of the rank that started most of them.
  uint64_t maxLaunches() const { return launches; }
  /// Rounds of one delta of the rank that needed most of them.
  uint32_t maxRounds() const { return rounds; }

  /// Calls call(i, error of the ABI) for every rank at once.
  using Call = std::function<delta_status_t(size_t, delta_error_t)>;
  static bool eachRank(size_t count, const Call &call, std::string &error);

private:
  const delta_plan_api_t &api;
  const World &world;
  Seconds &seconds;
  delta_inproc_t *inproc = nullptr;
  Post mail;
  std::vector<delta_sender_t *> senders;
  std::vector<delta_receiver_t *> receivers;
  uint64_t launches = 0;
  uint32_t rounds = 0;
};

} // namespace delta::run

#endif // DELTA_TOOLS_RUN_SESSION_H
