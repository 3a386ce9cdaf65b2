//===- HostIntake.cpp - Messages and parameters of the host ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/HostIntake.h"

#include "codegen/device/IndexFunctions.h"

#include <cstring>

using namespace delta::runtime;
namespace device = delta::device;

/// Staged tiles that a thread writes at a time.
static constexpr int64_t WriteGrain = 16;

Status HostIntake::setStream(void *stream) {
  if (stream)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "a plan for the host has no streams, required: null");
  return {};
}

/// The kernels read offsets and values in place, so they must be aligned.
Status HostIntake::add(Message &message) {
  const auto address = reinterpret_cast<uintptr_t>(message.bytes.data);
  message.isLent &= address % device::PartAlignment == 0;
  if (message.isLent)
    return {};
  const delta_bytes_t from = message.bytes;
  message.copy.grow(from.size);
  if (from.size)
    memcpy(message.copy.data(), from.data, from.size);
  message.bytes = {message.copy.data(), from.size};
  return {};
}

bool HostIntake::peek(const Message &message, MessageHeader &outHeader) {
  if (message.bytes.size < HeaderBytes)
    return false;
  outHeader = readHeader(static_cast<const uint8_t *>(message.bytes.data));
  return true;
}

Status HostIntake::readFrame(Message &message, MessageHeader &outHeader) {
  views.clear();
  return runtime::readFrame(static_cast<const uint8_t *>(message.bytes.data),
                            message.bytes.size, outHeader, views);
}

Status HostIntake::readSections(Message &, const MessageHeader &header,
                                const Landing &to, StagedSpan &out) {
  return runtime::readSections(pool, to, header, views, tiles, out);
}

Status HostIntake::accept(Message &) {
  numAccepted = tiles.size();
  return {};
}

void HostIntake::drop(Message &message) {
  tiles.resize(numAccepted);
  message.copy.release();
}

void HostIntake::clear() {
  tiles.clear();
  numAccepted = 0;
}

/// Calls `visit` with each staged tile, its number and each image of its box,
/// on all threads.
template <typename Visit>
void HostIntake::forEachImage(const Landing &to, const Visit &visit) {
  const std::vector<LandingImage> &images = to.getImages();
  pool.run(int64_t(tiles.size()), WriteGrain,
           [&](int64_t begin, int64_t end, uint32_t) {
             for (int64_t i = begin; i < end; ++i) {
               const StagedTile &tile = tiles[size_t(i)];
               for (size_t j = tile.row->firstImage; j < tile.row->endImage;
                    ++j)
                 visit(i, tile, images[j]);
             }
           });
}

/// Everything was checked and allocated when it was staged; what is left is
/// one pass over the tiles, no two of which write the same element.
Status HostIntake::commit(const Landing &to, bool isSeed, bool listsRows) {
  reached.clear();
  if (listsRows) {
    reached.resize(to.getRows().size());
    for (const StagedTile &tile : tiles)
      reached[size_t(tile.row - to.getRows().data())] = 1;
  }
  if (isSeed)
    for (auto [data, numBytes] : to.getPadded())
      memset(data, 0, numBytes);
  forEachImage(
      to, [](int64_t, const StagedTile &tile, const LandingImage &image) {
        const LandingRow &row = *tile.row;
        row.kernels->scatter(row.box, tile.boxTile, image.image, tile.offsets,
                             tile.values, tile.count, image.data);
      });
  return {};
}

Status HostIntake::getReached(std::vector<uint8_t> &outRows) {
  outRows = reached;
  return {};
}

static uint64_t bitsOf(const uint8_t *bytes, uint32_t size) {
  uint64_t bits = 0;
  memcpy(&bits, bytes, size);
  return bits;
}

static Difference differenceOf(const StagedTile &tile,
                               const LandingImage &image, uint32_t index) {
  const LandingRow &row = *tile.row;
  const uint32_t size = row.kernels->element_size;
  const uint32_t offset = tile.offsets ? tile.offsets[index] : index;
  int64_t element =
      device::elementAt(*row.box, device::tileOf(*row.box, tile.boxTile),
                        offset, device::Layout::image(*image.image));
  return {&row,
          tile.boxTile,
          &image,
          offset,
          bitsOf(image.data + element * size, size),
          bitsOf(tile.values + uint64_t(index) * size, size)};
}

Status HostIntake::compare(const Landing &to, uint64_t &outMismatches,
                           Difference &outFirst) {
  std::atomic<uint64_t> total{0};
  std::mutex mutex;
  int64_t firstTile = int64_t(tiles.size());
  forEachImage(to, [&](int64_t i, const StagedTile &tile,
                       const LandingImage &image) {
    const LandingRow &row = *tile.row;
    uint32_t first = 0;
    uint32_t count =
        row.kernels->compare(row.box, tile.boxTile, image.image, tile.offsets,
                             tile.values, tile.count, image.data, &first);
    if (!count)
      return;
    total += count;
    std::lock_guard<std::mutex> lock(mutex);
    if (i < firstTile) {
      firstTile = i;
      outFirst = differenceOf(tile, image, first);
    }
  });
  outMismatches = total;
  return {};
}

Status HostIntake::listTiles(const Landing &,
                             const std::vector<StagedTile> *&out) {
  out = &tiles;
  return {};
}

Status HostIntake::compareElements(const std::vector<ElementPair> &pairs,
                                   std::vector<uint8_t> &outDiffer) {
  outDiffer.resize(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i)
    outDiffer[i] = memcmp(pairs[i].staged, pairs[i].held, pairs[i].size) != 0;
  return {};
}
