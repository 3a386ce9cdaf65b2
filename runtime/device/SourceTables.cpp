//===- SourceTables.cpp - The rows of a sender on a device ----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/SourceTables.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace delta::runtime;
namespace device = delta::device;

static_assert(sizeof(device::DiffTotals) <= 32, "SourceTables::TotalsBytes");
static_assert(sizeof(device::SyncOrders) % 16 == 0, "taken tiles follow");
static_assert(sizeof(device::TakenTiles) % 16 == 0, "totals follow");

/// How the elements of a tile are read, whose parameter lies at `source`;
/// `outBegin` is the first one's place where all lie behind each other.
static device::TilePath pathOf(const TileRef &ref, const uint8_t *&outBegin) {
  const ShardRow &row = *ref.row;
  const delta_box_t &box = *row.box;
  const int64_t size = row.kernels->source_size;
  outBegin = nullptr;
  const device::Tile tile = device::tileOf(box, ref.boxTile);
  const device::Layout layout = device::Layout::source(box);
  if (row.op != DELTA_VALUE_ID || row.isCast() || layout.step(box) != 1)
    return device::GeneralPath;
  bool follow = true;
  bool wide = tile.numRuns <= device::MaxDiffRuns &&
              tile.numColumns >= device::MinDiffColumns &&
              tile.numColumns % device::UnitSize == 0;
  auto isAligned = [&](int64_t element) {
    return reinterpret_cast<uintptr_t>(row.source + element * size) % 16 == 0;
  };
  device::RunCursor cursor(box, tile.firstRun);
  const int64_t first = cursor.begin(layout) + tile.firstColumn;
  for (uint32_t run = 0; run < tile.numRuns && (follow || wide); ++run) {
    int64_t begin = cursor.begin(layout) + tile.firstColumn;
    follow &= begin == first + int64_t(run) * tile.numColumns;
    wide &= isAligned(begin);
    cursor.next();
  }
  if (follow && isAligned(first)) {
    outBegin = row.source + first * size;
    return device::ContiguousPath;
  }
  return wide ? device::RunsPath : device::GeneralPath;
}

void SourceTables::makeSections(const std::vector<uint32_t> &alsoTo) {
  const Expansion &expansion = shard->getExpansion();
  sections.assign(expansion.sets.size(), {});
  for (const Row &row : expansion.rows) {
    device::SectionPlan &section = sections[row.set];
    if (section.endTile == 0)
      section.firstTile = row.firstTile;
    section.endTile = row.firstTile + row.numTiles();
  }
  headBytes = 0;
  for (device::SectionPlan &section : sections) {
    section.headAt = headBytes;
    headBytes +=
        device::headRoom(uint64_t(section.endTile - section.firstTile));
  }
  std::map<uint32_t, std::vector<uint32_t>> setsOfRank;
  for (uint32_t rank : alsoTo)
    setsOfRank[rank];
  fanOuts.clear();
  for (uint32_t set = 0; set < expansion.sets.size(); ++set) {
    fanOuts.push_back(uint32_t(expansion.sets[set].size()));
    for (uint32_t rank : expansion.sets[set])
      setsOfRank[rank].push_back(set);
  }
  for (auto &[rank, sets] : setsOfRank) {
    uint32_t first = uint32_t(messageSections.size());
    messageSections.insert(messageSections.end(), sets.begin(), sets.end());
    messages.push_back({rank, first, uint32_t(messageSections.size())});
    destinations.push_back(rank);
    setsOf.push_back(std::move(sets));
  }
}

/// What does not depend on where the parameters lie.
void SourceTables::makeTiles(const Snapshot &snapshot) {
  const Expansion &expansion = shard->getExpansion();
  const ShardRow *first = shard->getRows().data();
  tiles.clear();
  tiles.reserve(size_t(shard->getNumTiles()));
  chunkEnds.clear();
  uint64_t chunkAt = 0;
  shard->forEachTile(0, shard->getNumTiles(), [&](const TileRef &ref) {
    device::SourceTile tile = {};
    tile.numElements = ref.numElements();
    tile.row = uint32_t(ref.row - first);
    tile.section = expansion.rows[tile.row].set;
    tile.elementSize = uint8_t(ref.elementSize());
    uint64_t numBytes =
        device::alignPart(uint64_t(tile.numElements) * tile.elementSize);
    if (snapshot.isUploaded()) {
      if (chunkAt + numBytes > snapshot.getChunkBytes()) {
        chunkEnds.push_back(ref.tile);
        chunkAt = 0;
      }
      tile.snapshot = snapshot.bufferOf(uint32_t(chunkEnds.size())) + chunkAt;
      chunkAt += numBytes;
    } else if (!snapshots.empty()) {
      tile.snapshot = snapshots[size_t(ref.tile)];
    }
    tiles.push_back(tile);
  });
  chunkEnds.push_back(shard->getNumTiles());
}

/// Places of all parts, each a multiple of 16 bytes, in one piece of memory.
void SourceTables::layOut() {
  uint64_t end = 0;
  auto take = [&](uint64_t numBytes) {
    uint64_t begin = end;
    end = (end + numBytes + 15) & ~uint64_t(15);
    return begin;
  };
  const uint64_t numTiles = tiles.size(), numSections = sections.size();
  rowsAt = take(shard->getRows().size() * sizeof(device::SourceRow));
  tilesAt = take(numTiles * sizeof(device::SourceTile));
  sectionsAt = take(numSections * sizeof(device::SectionPlan));
  messagesAt = take(messages.size() * sizeof(device::SealMessage));
  messageSectionsAt = take(messageSections.size() * sizeof(uint32_t));
  bitsAt = take(shard->getRows().size() * sizeof(uint32_t *));
  // One counter for each chunk, one for the advance, one of blocks.
  countersAt = clearedAt = take((chunkEnds.size() + 2) * sizeof(uint64_t));
  takenAt = take(TakenBytes);
  totalsAt = take(TotalsBytes);
  take(numSections * sizeof(device::SectionPlace));
  sumsAt = take(numSections * sizeof(uint64_t));
  lookBackAt = take(numTiles * sizeof(unsigned long long));
  inclusiveAt = take(numTiles * sizeof(device::TileSums));
  headsAt = take(headBytes);
  clearedEnd = end;
  placesAt = take(numTiles * sizeof(device::TilePlace));
  headersAt = take(messages.size() * device::HeaderBytes);
  mayAdvanceAt = take(sizeof(uint32_t));
  numTakenAt = take(sizeof(uint64_t));
  memoryBytes = end;
}

Status SourceTables::create(std::shared_ptr<Device> on, const Shard &newShard,
                            const Snapshot &snapshot, const SourceTables *like,
                            const std::vector<uint32_t> &alsoTo) {
  owner = std::move(on);
  shard = &newShard;
  if (!like)
    snapshots = snapshot.layOut(newShard);
  else if (snapshot.hasValues())
    for (int64_t tile : tilesIn(*like))
      snapshots.push_back(like->snapshotOf(tile));
  makeSections(alsoTo);
  makeTiles(snapshot);
  hostPlaces.resize(tiles.size());
  layOut();
  Status status = memory.allocate(owner, memoryBytes);
  if (!status.failed())
    status = pinned.allocate(owner,
                             OrdersBytes + TakenBytes + TotalsBytes +
                                 sections.size() * sizeof(device::SectionPlace),
                             /*pinned=*/true);
  if (status.failed())
    return status;
  orders() = {};
  totals().reserved = 1;
  return status;
}

void SourceTables::bindRows() {
  const Expansion &expansion = shard->getExpansion();
  const delta_box_t *boxes = owner->getBoxes();
  rows.clear();
  for (size_t i = 0; i < expansion.rows.size(); ++i) {
    const Row &row = expansion.rows[i];
    const ShardRow &bound = shard->getRows()[i];
    rows.push_back({boxes + row.box, bound.source, row.firstTile, row.tileBegin,
                    bound.op, bound.kernelRow, row.expertOffset});
  }
  shard->forEachTile(0, shard->getNumTiles(), [&](const TileRef &ref) {
    device::SourceTile &tile = tiles[size_t(ref.tile)];
    tile.path = pathOf(ref, tile.source);
  });
  for (device::SectionPlan &section : sections)
    section.isEven = 1;
  for (const device::SourceTile &tile : tiles)
    if (tile.path == device::GeneralPath ||
        tile.numElements * tile.elementSize % 16 != 0)
      sections[tile.section].isEven = 0;
}

Status SourceTables::upload(std::vector<const uint32_t *> bits, Stream stream) {
  bindRows();
  rowBits = std::move(bits);
  Status status;
  auto put = [&](uint64_t at, const auto &from) {
    uint64_t numBytes = from.size() * sizeof(from[0]);
    if (numBytes && !status.failed())
      status = owner->copy(memory.as(at), from.data(), numBytes, stream);
  };
  put(rowsAt, rows);
  put(tilesAt, tiles);
  put(sectionsAt, sections);
  put(messagesAt, messages);
  put(messageSectionsAt, messageSections);
  put(bitsAt, rowBits);
  return status.failed() ? status : owner->wait(stream);
}

std::vector<int64_t> SourceTables::tilesIn(const SourceTables &into) const {
  std::vector<int64_t> found;
  found.reserve(size_t(shard->getNumTiles()));
  const std::vector<size_t> places = shard->rowsIn(*into.shard);
  const std::vector<Row> &rows = shard->getExpansion().rows;
  const std::vector<Row> &theirs = into.shard->getExpansion().rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row &there = theirs[places[i]];
    for (int64_t tile = rows[i].tileBegin; tile < rows[i].tileEnd; ++tile)
      found.push_back(there.firstTile + tile - there.tileBegin);
  }
  return found;
}

Status SourceTables::clear(Stream stream) {
  return owner->fill(memory.as(clearedAt), 0, clearedEnd - clearedAt, stream);
}

device::DiffArguments SourceTables::diffArguments(device::DiffMode mode,
                                                  uint32_t chunk) const {
  device::DiffArguments out = {};
  out.mode = mode;
  out.valueSums = device::isCopy(mode) ? memory.as<uint64_t>(sumsAt) : nullptr;
  out.tiles = memory.as<const device::SourceTile>(tilesAt);
  out.rows = memory.as<const device::SourceRow>(rowsAt);
  out.sections = memory.as<const device::SectionPlan>(sectionsAt);
  out.bits = memory.as<const uint32_t *const>(bitsAt);
  out.nextTile = memory.as<unsigned long long>(countersAt) + chunk;
  out.lookBack = memory.as<unsigned long long>(lookBackAt);
  out.inclusive = memory.as<unsigned long long>(inclusiveAt);
  out.places = memory.as<device::TilePlace>(placesAt);
  out.heads = heads();
  out.sectionPlaces = memory.as<device::SectionPlace>(totalsAt + TotalsBytes);
  out.totals = memory.as<device::DiffTotals>(totalsAt);
  return out;
}

device::SealArguments SourceTables::sealArguments() const {
  device::SealArguments out = {};
  out.sections = memory.as<const device::SectionPlan>(sectionsAt);
  out.sectionPlaces =
      memory.as<const device::SectionPlace>(totalsAt + TotalsBytes);
  out.numSections = getNumSections();
  out.numMessages = uint32_t(messages.size());
  out.heads = heads();
  out.messages = memory.as<const device::SealMessage>(messagesAt);
  out.messageSections = memory.as<const uint32_t>(messageSectionsAt);
  out.sums = memory.as<uint64_t>(sumsAt);
  out.numDone = memory.as<uint32_t>(countersAt +
                                    (chunkEnds.size() + 1) * sizeof(uint64_t));
  out.headers = memory.as(headersAt);
  out.orders = &orders();
  out.totals = memory.as<const device::DiffTotals>(totalsAt);
  return out;
}

device::AdvanceArguments SourceTables::advanceArguments(bool asks) const {
  device::AdvanceArguments out = {};
  out.tiles = memory.as<const device::SourceTile>(tilesAt);
  out.places = memory.as<const device::TilePlace>(placesAt);
  out.nextTile = memory.as<unsigned long long>(countersAt) + chunkEnds.size();
  if (asks) {
    out.mayAdvance = memory.as<const uint32_t>(mayAdvanceAt);
    out.orders = &orders();
  }
  return out;
}

Status SourceTables::sendOrders(Stream stream) {
  return owner->copy(memory.as(mayAdvanceAt), &orders().mayAdvance,
                     sizeof(uint32_t), stream);
}

device::MarkedTiles SourceTables::markedTiles() const {
  return {memory.as<const device::SourceTile>(tilesAt),
          memory.as<const device::SourceRow>(rowsAt),
          memory.as<const device::TilePlace>(placesAt),
          memory.as<uint32_t *const>(bitsAt), nullptr};
}

Status SourceTables::readBack(Stream stream) {
  return owner->copy(pinned.as(OrdersBytes), memory.as(takenAt),
                     TakenBytes + TotalsBytes +
                         sections.size() * sizeof(device::SectionPlace),
                     stream);
}

Status SourceTables::readPlaces(int64_t begin, int64_t end, Stream stream) {
  if (begin == end)
    return {};
  Status status = owner->copy(
      hostPlaces.data() + begin, memory.as<device::TilePlace>(placesAt) + begin,
      uint64_t(end - begin) * sizeof(device::TilePlace), stream);
  return status.failed() ? status : owner->wait(stream);
}
