//===- Receiver.cpp - One rollout rank ------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Receiver.h"

#include "codegen/device/PackFormat.h"

#include <algorithm>
#include <cstring>

using namespace delta::runtime;

static unsigned long long number(uint64_t value) { return value; }

Status Receiver::create(const delta_tables_t &tables,
                        const delta_kernels_t &kernels, uint32_t rank,
                        const delta_param_t *params, uint32_t numParams,
                        uint64_t run, uint32_t numThreads,
                        std::unique_ptr<Receiver> &out) {
  Status status = checkTables(tables);
  if (status.failed())
    return status;
  std::unique_ptr<Receiver> receiver(
      new Receiver(tables, kernels, run, numThreads));
  Expander expander(tables);
  receiver->placement = expander.getDestination().getSlots();
  status = Landing::create(expander, kernels, rank, params, numParams,
                           receiver->landing);
  if (status.failed())
    return status;
  receiver->bound.take(params, numParams);
  receiver->progress.resize(receiver->landing.getSources().size());
  out = std::move(receiver);
  return {};
}

Status Receiver::rebind(const delta_param_t *params, uint32_t numParams) {
  Status status = landing.rebind(params, numParams);
  if (status.failed())
    return status;
  bound.take(params, numParams);
  return moved ? moved->rebind(params, numParams) : status;
}

/// All is made before anything is replaced.
Status Receiver::setPlacement(const uint32_t *experts, uint32_t numTables,
                              uint32_t numSlots) {
  if (!held.empty())
    return Status::error(DELTA_REFUSED,
                         "rank %u: set_placement: a %s is staged",
                         landing.getRank(), staged.kind());
  std::shared_ptr<const Slots> next;
  Status status = Slots::create(tables, experts, numTables, numSlots, next);
  if (status.failed())
    return Status::error(status.getCode(), "rank %u: set_placement: %s",
                         landing.getRank(), status.getText().c_str());
  if (next->getFingerprint() == placement->getFingerprint())
    return {};
  // What was not committed moves from where it was before.
  std::shared_ptr<const Slots> from = isMoving ? previous : placement;
  Expander expander(tables, next);
  Landing made;
  status = Landing::createLike(landing, expander, kernels, made);
  std::optional<Landing> madeMoved;
  if (!status.failed() && version)
    status = expandMoved(next, from, madeMoved);
  if (status.failed())
    return status;
  std::vector<Progress> none(made.getSources().size());
  landing = std::move(made);
  progress = std::move(none);
  moved = std::move(madeMoved);
  previous = version ? std::move(from) : nullptr;
  placement = std::move(next);
  isMoving = version != 0;
  return {};
}

/// Expands what is at this rank in `to` and was not in `from`.
Status Receiver::expandMoved(const std::shared_ptr<const Slots> &to,
                             const std::shared_ptr<const Slots> &from,
                             std::optional<Landing> &out) const {
  Expander expander(tables, to, from);
  Landing made;
  Status status = Landing::createLike(landing, expander, kernels, made);
  if (!status.failed())
    out.emplace(std::move(made));
  return status;
}

Status Receiver::checkIdentity(const MessageHeader &header) const {
  if (header.run != run)
    return Status::error(DELTA_REFUSED, "run %016llx, this is run %016llx",
                         number(header.run), number(run));
  if (header.plan[0] != tables.fingerprint[0] ||
      header.plan[1] != tables.fingerprint[1])
    return Status::error(
        DELTA_REFUSED, "plan %016llx%016llx, this is plan %016llx%016llx",
        number(header.plan[0]), number(header.plan[1]),
        number(tables.fingerprint[0]), number(tables.fingerprint[1]));
  uint64_t own = placement ? placement->getFingerprint() : 0;
  if (header.placement != own)
    return Status::error(DELTA_REFUSED,
                         "placement %016llx of the experts, this rank has "
                         "placement %016llx",
                         number(header.placement), number(own));
  if (header.destination != landing.getRank())
    return Status::error(DELTA_REFUSED, "is for destination rank %u",
                         header.destination);
  if (landing.findSource(header.source) == DELTA_NONE)
    return Status::error(DELTA_REFUSED, "this rank sends nothing here");
  return {};
}

/// Whether experts that moved fit what this rank holds.
Status Receiver::readyForMoved(const MessageHeader &header) {
  if (!placement)
    return Status::error(DELTA_REFUSED, "moves experts, of which the plan has "
                                        "no slots");
  if (version == 0)
    return Status::error(DELTA_NOT_SEEDED,
                         "experts that moved, before the first full sync");
  if (header.base != version || header.version != version)
    return Status::error(DELTA_REFUSED,
                         "experts that moved at version %llu, held is %llu",
                         number(header.version), number(version));
  const std::shared_ptr<const Slots> &from = previous ? previous : placement;
  // Nothing moved from a placement to itself.
  if (header.previous != from->getFingerprint() &&
      (isMoving || header.previous != placement->getFingerprint()))
    return Status::error(DELTA_REFUSED,
                         "experts that moved from placement %016llx, this rank "
                         "was in placement %016llx; a full sync is required",
                         number(header.previous),
                         number(from->getFingerprint()));
  return moved ? Status() : expandMoved(placement, from, moved);
}

/// All rounds of a source come once and in order.
Status Receiver::checkRound(const MessageHeader &header) const {
  const Progress &known = progress[landing.findSource(header.source)];
  if (known.isComplete())
    return Status::error(DELTA_REFUSED, "is staged already");
  if (known.numRounds && header.numRounds != known.numRounds)
    return Status::error(DELTA_REFUSED,
                         "round %u of %u, those before it were of %u",
                         header.round, header.numRounds, known.numRounds);
  if (header.round < known.round)
    return Status::error(DELTA_REFUSED, "round %u of %u is staged already",
                         header.round, header.numRounds);
  if (header.round > known.round)
    return Status::error(DELTA_REFUSED, "round %u of %u came before round %u",
                         header.round, header.numRounds, known.round);
  return {};
}

Status Receiver::checkVersion(const MessageHeader &header) {
  if (header.isSeed()) {
    if (header.base != 0 || header.version == 0 || header.version < version)
      return Status::error(
          DELTA_REFUSED, "full sync from version %llu to %llu, held is %llu",
          number(header.base), number(header.version), number(version));
  } else if (header.isMoved()) {
    if (Status status = readyForMoved(header); status.failed())
      return status;
  } else if (version == 0) {
    return Status::error(DELTA_NOT_SEEDED,
                         "delta to version %llu before the first full sync",
                         number(header.version));
  } else if (header.base != version || header.version <= header.base) {
    return Status::error(
        DELTA_REFUSED, "delta from version %llu to %llu, held is %llu",
        number(header.base), number(header.version), number(version));
  } else if (isMoving && !moved->getRows().empty()) {
    return Status::error(DELTA_REFUSED,
                         "delta to version %llu, but experts that moved here "
                         "are missing; they, or a full sync, are required",
                         number(header.version));
  }
  if (!held.empty() &&
      (header.version != staged.version || header.flags != staged.flags))
    return Status::error(DELTA_REFUSED, "%s to version %llu, staged is %s %llu",
                         header.kind(), number(header.version), staged.kind(),
                         number(staged.version));
  return {};
}

Status Receiver::readSections(const MessageHeader &header,
                              const std::vector<SectionView> &views) {
  const Landing &to = landingOf(header);
  const uint32_t source = to.findSource(header.source);
  size_t first = tiles.size();
  for (size_t i = 0; i < views.size(); ++i) {
    uint32_t set = views[i].header.set;
    if (i > 0 && set <= views[i - 1].header.set)
      return Status::error(DELTA_CORRUPT, "set %u: out of order", set);
    const LandingSection *section =
        source == DELTA_NONE ? nullptr
                             : to.findSection(to.getSources()[source], set);
    if (!section)
      return Status::error(DELTA_CORRUPT, "set %u: not for this rank", set);
    Status status =
        readSection(to, *section, views[i],
                    /*isWhole=*/header.isSeed() || header.isMoved(), tiles);
    if (status.failed())
      return status;
  }
  return checkOffsets(pool, tiles, first);
}

/// Tiles ascend within a message; they do over all rounds of a source, so none
/// comes twice. A full sync has all, and so has a move of what moves.
Status Receiver::checkOrder(const MessageHeader &header, size_t firstTile,
                            Progress &known) const {
  if (tiles.size() > firstTile) {
    const StagedTile &first = tiles[firstTile];
    if (known.row &&
        (first.row < known.row ||
         (first.row == known.row && first.boxTile <= known.boxTile)))
      return Status::error(
          DELTA_CORRUPT, "round %u: a tile of an earlier round", header.round);
    known.row = tiles.back().row;
    known.boxTile = tiles.back().boxTile;
  }
  known.numTiles += tiles.size() - firstTile;
  known.numRounds = header.numRounds;
  ++known.round;
  if (!(header.isSeed() || header.isMoved()) || !known.isComplete())
    return {};
  const Landing &to = landingOf(header);
  const uint32_t index = to.findSource(header.source);
  uint64_t required = 0;
  // Nothing moved from a placement to itself.
  const bool isNothing =
      header.isMoved() && header.previous == header.placement;
  if (index != DELTA_NONE && !isNothing) {
    const LandingSource &source = to.getSources()[index];
    for (size_t i = source.firstSection; i < source.endSection; ++i)
      required += to.getSections()[i].numTiles;
  }
  if (known.numTiles != required)
    return Status::error(DELTA_CORRUPT, "a %s has %llu tiles of %llu",
                         header.kind(), number(known.numTiles),
                         number(required));
  return {};
}

/// Takes `held` over when all is well; else leaves everything as it was.
Status Receiver::stageHeld(Held &message, uint32_t expectedSource) {
  const uint8_t *bytes = static_cast<const uint8_t *>(message.lent.data);
  MessageHeader header;
  std::vector<SectionView> views;
  size_t oldTiles = tiles.size();
  Status status = readFrame(bytes, message.lent.size, header, views);
  // Before the frame is checked, only the transport knows who sent it.
  std::string from = expectedSource == DELTA_NONE
                         ? std::string("message")
                         : "source " + std::to_string(expectedSource);
  if (!status.failed()) {
    from = "source " + std::to_string(header.source);
    if (expectedSource != DELTA_NONE && header.source != expectedSource)
      status =
          Status::error(DELTA_REFUSED, "came from source %u", expectedSource);
  }
  if (!status.failed())
    status = checkIdentity(header);
  if (!status.failed())
    status = checkVersion(header);
  if (!status.failed())
    status = checkRound(header);
  if (!status.failed())
    status = readSections(header, views);
  Progress known;
  if (!status.failed()) {
    known = progress[landing.findSource(header.source)];
    status = checkOrder(header, oldTiles, known);
  }
  if (status.failed()) {
    tiles.resize(oldTiles);
    return Status::error(status.getCode(), "rank %u: %s: stage: %s",
                         landing.getRank(), from.c_str(),
                         status.getText().c_str());
  }
  message.source = landing.findSource(header.source);
  progress[message.source] = known;
  if (held.empty())
    staged = header;
  held.push_back(std::move(message));
  return {};
}

Status Receiver::stage(delta_bytes_t message) {
  if (!message.data)
    return Status::error(DELTA_INVALID_ARGUMENT, "rank %u: stage: no message",
                         landing.getRank());
  Held copy;
  copy.copy.grow(message.size);
  if (message.size)
    memcpy(copy.copy.data(), message.data, message.size);
  copy.lent = {copy.copy.data(), message.size};
  return stageHeld(copy, DELTA_NONE);
}

/// Rounds that should follow a message, DELTA_NONE if it does not say.
static uint32_t roundsLeft(delta_bytes_t message) {
  if (message.size < HeaderBytes)
    return DELTA_NONE;
  MessageHeader header = readHeader(static_cast<const uint8_t *>(message.data));
  if (header.magic != WireMagic || header.wireVersion != WireVersion ||
      header.round >= header.numRounds)
    return DELTA_NONE;
  return header.numRounds - 1 - header.round;
}

/// Receives one message and stages it if it is wanted. `outReceived` tells a
/// message that does not fit from one that did not come.
Status Receiver::receiveRound(uint32_t source,
                              const delta_transport_t &transport, bool isWanted,
                              bool &outReceived, uint32_t &outLeft) {
  Held message;
  message.transport = transport;
  char text[512] = "";
  delta_status_t code =
      transport.receive(transport.context, source, landing.getRank(),
                        &message.lent, {text, sizeof(text)});
  outReceived = code == DELTA_OK;
  if (!outReceived)
    return Status::error(code, "rank %u: source %u: receive: %s",
                         landing.getRank(), source, text);
  outLeft = roundsLeft(message.lent);
  // The kernels read offsets and values in place, so they must be aligned.
  bool aligned =
      reinterpret_cast<uintptr_t>(message.lent.data) % device::PartAlignment ==
      0;
  delta_bytes_t lent = message.lent;
  Status status;
  if (isWanted)
    status = aligned ? stageHeld(message, source) : stage(lent);
  if (!isWanted || !aligned || status.failed())
    transport.release(transport.context, source, landing.getRank(), lent);
  return status;
}

/// All rounds of a source, also after one that does not fit. A message that
/// does not check may lie about their number: then too few or too many are
/// waited for, and the next sync is refused or this one times out.
Status Receiver::receiveFrom(uint32_t source,
                             const delta_transport_t &transport,
                             bool &outReceived) {
  uint32_t said = DELTA_NONE;
  Status failure =
      receiveRound(source, transport, /*isWanted=*/true, outReceived, said);
  uint32_t left = said == DELTA_NONE ? 0 : said;
  while (outReceived && left) {
    Status status =
        receiveRound(source, transport, !failure.failed(), outReceived, said);
    if (status.failed() && !failure.failed())
      failure = status;
    left = std::min(left - 1, said);
  }
  return failure;
}

/// Messages are taken from every source even when an earlier one does not fit:
/// the next sync shall not find what is left of this one.
Status Receiver::receive(const delta_transport_t &transport) {
  Status failure;
  for (const LandingSource &source : landing.getSources()) {
    bool received;
    Status status = receiveFrom(source.rank, transport, received);
    if (status.failed() && !failure.failed())
      failure = status;
    if (!received)
      break;
  }
  if (failure.failed())
    discard();
  return failure;
}

void Receiver::discard() {
  for (Held &message : held)
    if (message.transport.release)
      message.transport.release(message.transport.context,
                                landing.getSources()[message.source].rank,
                                landing.getRank(), message.lent);
  held.clear();
  progress.assign(progress.size(), Progress());
  tiles.clear();
}

Status Receiver::requireAll(const char *call) const {
  for (size_t i = 0; i < progress.size(); ++i) {
    uint32_t source = landing.getSources()[i].rank;
    if (!progress[i].numRounds)
      return Status::error(DELTA_REFUSED,
                           "rank %u: source %u: %s: no message is staged",
                           landing.getRank(), source, call);
    if (!progress[i].isComplete())
      return Status::error(DELTA_REFUSED,
                           "rank %u: source %u: %s: %u of %u rounds are staged",
                           landing.getRank(), source, call, progress[i].round,
                           progress[i].numRounds);
  }
  return {};
}
