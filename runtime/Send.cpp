//===- Send.cpp - Rounds and what follows them ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The part of Sender from a packed sync to its acknowledgement.
///
//===----------------------------------------------------------------------===//

#include "runtime/Sender.h"

using namespace delta::runtime;

static unsigned long long number(uint64_t value) { return value; }

/// Compares the tiles of a round again, since only their number was kept.
Status Sender::packRound(uint32_t round) {
  uint64_t found = 0, planned = packing->getNumSent(round);
  Status status = packing->compareRound(round, found);
  if (status.failed())
    return failure("sender_send", status);
  if (found != planned)
    return Status::error(
        DELTA_REFUSED,
        "rank %u: send: parameters changed since diff: round %u of %u has "
        "%llu elements, was %llu",
        rank(), round, packing->getNumRounds(), number(found), number(planned));
  status = packing->order(round, header());
  if (!status.failed())
    status = packing->seal();
  return failure("sender_send", status);
}

Status Sender::sendRound(const delta_transport_t &transport) {
  Status status = packing->finish();
  if (status.failed())
    return failure("sender_send", status);
  const std::vector<uint32_t> &destinations = packing->getDestinations();
  for (uint32_t i = 0; i < destinations.size(); ++i) {
    const std::vector<delta_bytes_t> &parts = packing->message(i);
    char text[512] = "";
    delta_status_t code =
        transport.send(transport.context, rank(), destinations[i], parts.data(),
                       uint32_t(parts.size()), {text, sizeof(text)});
    if (code != DELTA_OK)
      return Status::error(code, "rank %u: send to destination rank %u: %s",
                           rank(), destinations[i], text);
  }
  return {};
}

Status Sender::send(const delta_transport_t &transport) {
  if (!pending)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: send: nothing is packed", rank());
  uint32_t numRounds = packing->getNumRounds();
  if (numRounds == 1)
    return sendRound(transport);
  if (numSent)
    return Status::error(DELTA_REFUSED,
                         "rank %u: send: %u of %u rounds were sent already",
                         rank(), numSent, numRounds);
  for (uint32_t round = 0; round < numRounds; ++round) {
    Status status = packRound(round);
    // A round that fails half-way was sent to someone.
    numSent = round + 1;
    if (!status.failed())
      status = sendRound(transport);
    if (!status.failed() && pendingKind != Kind::Moved)
      status = failure("sender_send", packing->advance(/*isUnsure=*/true));
    if (status.failed()) {
      isBroken = true;
      return status;
    }
  }
  return {};
}

Status Sender::acknowledge(uint64_t acknowledged) {
  return acknowledge("acknowledge", acknowledged, /*advances=*/true);
}

Status Sender::confirm(uint64_t confirmed) {
  return acknowledge("confirm", confirmed, /*advances=*/false);
}

Status Sender::advance() {
  return failure("sender_advance", packing->advanceIfMay());
}

/// `advances`: else one round is left to `advance`.
Status Sender::acknowledge(const char *call, uint64_t acknowledged,
                           bool advances) {
  if (!pending || acknowledged != pending)
    return Status::error(DELTA_REFUSED,
                         "rank %u: %s: version %llu, packed is version %llu",
                         rank(), call, number(acknowledged), number(pending));
  uint32_t numRounds = packing->getNumRounds();
  if (numRounds > 1 && (isBroken || numSent != numRounds))
    return Status::error(
        DELTA_REFUSED, "rank %u: %s: version %llu: %u of %u rounds are sent",
        rank(), call, number(pending), numSent - isBroken, numRounds);
  if (pendingKind != Kind::Moved) {
    Status status;
    if (numRounds == 1)
      status = advances ? packing->advance(/*isUnsure=*/false)
                        : packing->letAdvance();
    if (!status.failed())
      status = packing->settle();
    if (status.failed())
      return failure(advances ? "sender_acknowledge" : "sender_confirm",
                     status);
    version = pending;
  }
  previous = nullptr; // what moved was sent, or everything
  abort();
  return {};
}
