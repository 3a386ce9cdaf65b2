//===- Fault.cpp - Faults planted on purpose ------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Messages are handed to the receivers one by one, past the transport.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/Fault.h"

#include <iterator>

namespace delta::run {

/// Calls the ABI once; true when it refused, with its message.
template <class Call>
static bool refuses(const Call &call, std::string &message) {
  char text[1024] = "";
  const delta_status_t status = call(delta_error_t{text, sizeof(text)});
  if (status == DELTA_OK)
    return false;
  message = text[0] ? text : "status " + std::to_string(status);
  return true;
}

static bool stageRefuses(const delta_plan_api_t &api, Session &session,
                         uint32_t receiver,
                         const std::vector<unsigned char> &message,
                         std::string &text) {
  return refuses(
      [&](delta_error_t error) {
        return api.receiver_stage(session.receiver(receiver),
                                  {message.data(), message.size()}, error);
      },
      text);
}

static bool commitRefuses(const delta_plan_api_t &api, Session &session,
                          uint32_t receiver, std::string &text) {
  return refuses(
      [&](delta_error_t error) {
        return api.receiver_commit(session.receiver(receiver), error);
      },
      text);
}

Refusal commitWithoutOne(const delta_plan_api_t &api, Session &session,
                         const Post::Messages &messages, uint64_t seed) {
  Refusal result;
  if (messages.empty())
    return result;
  const auto lost =
      std::next(messages.begin(), std::ptrdiff_t(seed % messages.size()));
  const auto [source, receiver] = lost->first;
  const size_t lostRound = seed % lost->second.size();
  for (const auto &[pair, rounds] : messages)
    for (size_t round = 0; round < rounds.size(); ++round) {
      const bool isLosers = pair == lost->first;
      if (isLosers && round == lostRound)
        continue;
      const bool isGood = !isLosers || round < lostRound;
      if (stageRefuses(api, session, pair.second, rounds[round],
                       result.message) &&
          isGood) {
        result.message = "a good message was refused: " + result.message;
        session.abandon();
        return result;
      }
    }
  result.refused = commitRefuses(api, session, receiver, result.message);
  if (!result.refused)
    result.message = "receiver " + std::to_string(receiver) +
                     " committed without the message of rank " +
                     std::to_string(source);
  session.abandon();
  return result;
}

Refusal deliverWrongly(const delta_plan_api_t &api, Session &session,
                       const Post::Messages &messages) {
  Refusal result;
  bool allRefused = !messages.empty();
  for (const auto &[pair, rounds] : messages)
    for (const Post::Message &message : rounds) {
      std::string text;
      if (!stageRefuses(api, session, pair.second, message, text))
        allRefused = false;
      else if (result.message.empty())
        result.message = text;
    }
  for (uint32_t r = 0; !allRefused && r < session.numReceivers(); ++r)
    allRefused = commitRefuses(api, session, r, result.message);
  result.refused = allRefused;
  if (!allRefused)
    result.message = "a receiver took messages of another version";
  session.abandon();
  return result;
}

std::string flipElement(reference::MapSource &map, World &world,
                        uint64_t seed) {
  const uint32_t numRanks = map.numRanks(DELTA_SOURCE);
  reference::ElementPlaces places;
  for (uint32_t i = 0; i < numRanks; ++i) {
    const auto rank = uint32_t((seed + i) % numRanks);
    const uint64_t numTiles = map.numTiles(rank);
    delta_tile_info_t tile = {};
    const uint64_t number = numTiles ? seed * 7919 % numTiles : 0;
    if (!numTiles || !map.tile(rank, number, tile) || !tile.num_elements ||
        !map.element(rank, number, uint32_t(seed * 104729 % tile.num_elements),
                     places) ||
        places.destinations.empty())
      continue;
    const delta_place_t &place =
        places.destinations[seed % places.destinations.size()];
    delta_param_info_t info = {};
    map.param(DELTA_DESTINATION, place.rank, place.param, info);
    const Held *held = world.receivers[place.rank].find(
        info.chunk, reference::namesOf(info).front());
    if (!held)
      continue;
    held->data.get()[place.element * held->width] ^= 1;
    return "receiver " + std::to_string(place.rank) + " \"" + held->name +
           "\" " + reference::toText(held->indexOf(place.element));
  }
  return "";
}

} // namespace delta::run
