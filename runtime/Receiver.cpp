//===- Receiver.cpp - One rollout rank ------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Receiver.h"

#include "runtime/HostIntake.h"

using namespace delta::runtime;

static unsigned long long number(uint64_t value) { return value; }

Status Receiver::create(const delta_tables_t &tables,
                        const delta_kernels_t &kernels, uint32_t rank,
                        const delta_param_t *params, uint32_t numParams,
                        uint64_t run, uint32_t numThreads,
                        std::unique_ptr<Receiver> &out,
                        std::unique_ptr<Intake> intake) {
  Status status = checkTables(tables);
  if (status.failed())
    return status;
  std::unique_ptr<Receiver> receiver(
      new Receiver(tables, kernels, run, numThreads));
  if (intake)
    receiver->intake = std::move(intake);
  else
    receiver->intake = std::make_unique<HostIntake>(receiver->pool);
  Expander expander(tables);
  receiver->placement = expander.getDestination().getSlots();
  status = Landing::create(expander, kernels, rank, params, numParams,
                           receiver->landing);
  if (status.failed())
    return status;
  receiver->bound.take(params, numParams);
  receiver->progress.resize(receiver->landing.getSources().size());
  status = receiver->land("bind", receiver->landing, receiver->moved);
  if (!status.failed())
    out = std::move(receiver);
  return status;
}

/// All is as it was when something fails.
Status Receiver::rebind(const delta_param_t *params, uint32_t numParams) {
  std::vector<void *> before = landing.getData();
  Status status = landing.rebind(params, numParams);
  if (status.failed())
    return status;
  if (moved)
    moved->setData(landing.getData());
  status = land("rebind", landing, moved);
  if (status.failed()) {
    landing.setData(before);
    if (moved)
      moved->setData(std::move(before));
    return status;
  }
  bound.take(params, numParams);
  return status;
}

Status Receiver::failure(const char *call, const Status &status) const {
  return Status::error(status.getCode(), "rank %u: %s: %s", landing.getRank(),
                       call, status.getText().c_str());
}

/// The memory that messages land in has changed.
Status Receiver::land(const char *call, const Landing &to,
                      const std::optional<Landing> &toMoved) {
  Status status = intake->checkMemory(to);
  if (status.failed())
    return status;
  status = intake->land(to, toMoved ? &*toMoved : nullptr);
  return status.failed() ? failure(call, status) : status;
}

Status Receiver::setStream(void *stream) {
  Status status = intake->setStream(stream);
  return status.failed() ? failure("set_stream", status) : status;
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
  // Rows are about to change.
  if (Status found = findRefreshes(); found.failed())
    return found;
  // What was not committed moves from where it was before.
  std::shared_ptr<const Slots> from = isMoving ? previous : placement;
  Expander expander(tables, next);
  Landing made;
  status = Landing::createLike(landing, expander, kernels, made);
  std::optional<Landing> madeMoved;
  if (!status.failed() && version)
    status = expandMoved(next, from, madeMoved);
  if (!status.failed())
    status = land("set_placement", made, madeMoved);
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
  if (moved)
    return {};
  Status status = expandMoved(placement, from, moved);
  return status.failed() ? status : intake->land(landing, &*moved);
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

/// Tiles ascend within a message; they do over all rounds of a source, so none
/// comes twice. A full sync has all, and so has a move of what moves.
Status Receiver::checkOrder(const MessageHeader &header, const StagedSpan &span,
                            Progress &known) const {
  if (span.numTiles) {
    const LandedTile &first = span.first, &last = known.last;
    if (last.row && (first.row < last.row ||
                     (first.row == last.row && first.boxTile <= last.boxTile)))
      return Status::error(
          DELTA_CORRUPT, "round %u: a tile of an earlier round", header.round);
    known.last = span.last;
  }
  known.numTiles += span.numTiles;
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
