//===- Receive.cpp - Taking messages from a transport ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Receiver.h"

#include <algorithm>

using namespace delta::runtime;

/// All checks of a message that was read. Leaves everything as it was but for
/// what the intake keeps of it.
Status Receiver::check(Message &message, MessageHeader &header, Progress &known,
                       std::string &outFrom) {
  // Before the frame is checked, only the transport knows who sent it.
  outFrom = message.expectedSource == DELTA_NONE
                ? std::string("message")
                : "source " + std::to_string(message.expectedSource);
  Status status = intake->readFrame(message, header);
  if (status.failed())
    return status;
  outFrom = "source " + std::to_string(header.source);
  if (message.expectedSource != DELTA_NONE &&
      header.source != message.expectedSource)
    return Status::error(DELTA_REFUSED, "came from source %u",
                         message.expectedSource);
  status = checkIdentity(header);
  if (!status.failed())
    status = checkVersion(header);
  if (!status.failed())
    status = checkRound(header);
  StagedSpan span;
  if (!status.failed())
    status = intake->readSections(message, header, landingOf(header), span);
  if (status.failed())
    return status;
  known = progress[landing.findSource(header.source)];
  status = checkOrder(header, span, known);
  return status.failed() ? status : intake->accept(message);
}

/// Takes `held` over when all is well; else leaves everything as it was.
Status Receiver::stageHeld(Held &message) {
  MessageHeader header;
  Progress known;
  std::string from;
  Status status = check(message.message, header, known, from);
  if (status.failed())
    return Status::error(status.getCode(), "rank %u: %s: stage: %s",
                         landing.getRank(), from.c_str(),
                         status.getText().c_str());
  message.source = landing.findSource(header.source);
  progress[message.source] = known;
  if (held.empty())
    staged = header;
  held.push_back(std::move(message));
  return {};
}

Status Receiver::stage(delta_bytes_t bytes) {
  if (!bytes.data)
    return Status::error(DELTA_INVALID_ARGUMENT, "rank %u: stage: no message",
                         landing.getRank());
  Held copy;
  copy.message.bytes = bytes;
  Message *message = &copy.message;
  Status status = intake->add(*message);
  if (!status.failed())
    status = intake->read(&message, 1);
  if (status.failed()) {
    intake->drop(*message);
    return failure("stage", status);
  }
  status = stageHeld(copy);
  if (status.failed())
    intake->drop(*message);
  return status;
}

/// Rounds that should follow a message, DELTA_NONE if it does not say.
static uint32_t roundsLeft(const MessageHeader &header) {
  if (header.magic != WireMagic || header.wireVersion != WireVersion ||
      header.round >= header.numRounds)
    return DELTA_NONE;
  return header.numRounds - 1 - header.round;
}

void Receiver::release(Held &message) {
  if (message.transport.release)
    message.transport.release(message.transport.context,
                              landing.getSources()[message.source].rank,
                              landing.getRank(), message.lent);
  message.transport = {};
}

/// Receives one message.
Status Receiver::take(Incoming &source, const delta_transport_t &transport,
                      Held &out) {
  char text[512] = "";
  delta_status_t code =
      transport.receive(transport.context, source.rank, landing.getRank(),
                        &out.lent, {text, sizeof(text)});
  if (code != DELTA_OK)
    return Status::error(code, "rank %u: source %u: receive: %s",
                         landing.getRank(), source.rank, text);
  out.transport = transport;
  out.source = landing.findSource(source.rank);
  out.message.bytes = out.lent;
  out.message.isLent = true;
  out.message.expectedSource = source.rank;
  return {};
}

/// Learns from a message how many follow it, and lets go of it where it is not
/// staged. One that does not check may lie about their number: then too few or
/// too many are waited for, and the next sync is refused or this one times out.
void Receiver::finish(Incoming &source, Held &message) {
  MessageHeader header;
  uint32_t said =
      intake->peek(message.message, header) ? roundsLeft(header) : DELTA_NONE;
  if (source.isFirst)
    source.left = said == DELTA_NONE ? 0 : said;
  else
    source.left = std::min(source.left - 1, said);
  source.isFirst = false;
  if (source.failure.failed()) {
    release(message);
    return;
  }
  source.failure = stageHeld(message);
  if (source.failure.failed()) {
    intake->drop(message.message);
    release(message);
  } else if (!held.back().message.isLent) {
    release(held.back()); // it was copied
  }
}

/// Reads and stages messages, one of each of `sources`.
void Receiver::stageBatch(std::vector<Held> &batch,
                          std::vector<Incoming *> &sources) {
  std::vector<Message *> wanted;
  Status status;
  for (size_t i = 0; i < batch.size() && !status.failed(); ++i)
    if (!sources[i]->failure.failed()) {
      status = intake->add(batch[i].message);
      wanted.push_back(&batch[i].message);
    }
  if (!status.failed())
    status = intake->read(wanted.data(), wanted.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    if (status.failed() && !sources[i]->failure.failed()) {
      sources[i]->failure = Status::error(
          status.getCode(), "rank %u: source %u: stage: %s", landing.getRank(),
          sources[i]->rank, status.getText().c_str());
      intake->drop(batch[i].message);
    }
    finish(*sources[i], batch[i]);
  }
  batch.clear();
  sources.clear();
}

/// The next message of each source that has one.
void Receiver::receiveRound(std::vector<Incoming> &sources,
                            const delta_transport_t &transport,
                            bool &outIsOver) {
  std::vector<Held> batch;
  std::vector<Incoming *> senders;
  outIsOver = true;
  for (Incoming &source : sources) {
    if (!source.left)
      continue;
    Held message;
    Status status = take(source, transport, message);
    if (status.failed()) {
      if (!source.failure.failed())
        source.failure = status;
      stageBatch(batch, senders);
      outIsOver = true;
      return;
    }
    batch.push_back(std::move(message));
    senders.push_back(&source);
    if (!intake->readsTogether())
      stageBatch(batch, senders);
    outIsOver = false;
  }
  stageBatch(batch, senders);
}

/// Messages are taken from every source even when an earlier one does not fit,
/// and so are all rounds: the next sync shall not find what is left of this
/// one.
Status Receiver::receive(const delta_transport_t &transport) {
  std::vector<Incoming> sources(landing.getSources().size());
  for (size_t i = 0; i < sources.size(); ++i)
    sources[i].rank = landing.getSources()[i].rank;
  for (bool isOver = false; !isOver;)
    receiveRound(sources, transport, isOver);
  for (const Incoming &source : sources)
    if (source.failure.failed()) {
      Status failure = source.failure;
      discard();
      return failure;
    }
  return {};
}

void Receiver::discard() {
  for (Held &message : held) {
    intake->drop(message.message);
    release(message);
  }
  held.clear();
  progress.assign(progress.size(), Progress());
  if (intake)
    intake->clear();
}
