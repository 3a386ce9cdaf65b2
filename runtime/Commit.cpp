//===- Commit.cpp - Writing, or comparing, what is staged -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/device/IndexFunctions.h"
#include "runtime/Receiver.h"

#include <cstring>

using namespace delta::runtime;

/// Staged tiles that a thread writes at a time.
static constexpr int64_t WriteGrain = 16;

/// Calls `visit` with each staged tile, its number and each image of its box,
/// on all threads.
template <typename Visit> void Receiver::forEachImage(const Visit &visit) {
  const std::vector<LandingImage> &images = landingOf(staged).getImages();
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
Status Receiver::commit() {
  Status status = requireAll("commit");
  if (status.failed() || held.empty())
    return status;
  refreshes = findRefreshes();
  if (staged.isSeed())
    landing.zeroPadding();
  forEachImage([](int64_t, const StagedTile &tile, const LandingImage &image) {
    const LandingRow &row = *tile.row;
    row.kernels->scatter(row.box, tile.boxTile, image.image, tile.offsets,
                         tile.values, tile.count, image.data);
  });
  version = staged.version;
  // A delta does not get here while something is missing.
  isMoving = false;
  discard();
  return {};
}

/// A parameter counts as changed where a staged tile reaches it: of a whole
/// tile of a delta, all elements may be what they were.
std::vector<delta_refresh_call_t> Receiver::findRefreshes() const {
  std::vector<delta_refresh_call_t> found;
  if (tables.num_refreshes == 0)
    return found;
  const Landing &to = landingOf(staged);
  const size_t numParams = to.getParams().size();
  std::vector<bool> isDue(tables.num_refreshes * numParams);
  for (const StagedTile &tile : tiles)
    for (size_t j = tile.row->firstImage; j < tile.row->endImage; ++j) {
      const LandingImage &image = to.getImages()[j];
      for (uint32_t i = 0; i < tables.num_refreshes; ++i)
        if (tables.refreshes[i].class_index == image.image->class_index)
          isDue[i * numParams + image.param] = true;
    }
  for (uint32_t i = 0; i < tables.num_refreshes; ++i)
    for (uint32_t param = 0; param < numParams; ++param)
      if (isDue[i * numParams + param])
        found.push_back({param, i});
  return found;
}

static unsigned long long bitsOf(const uint8_t *bytes, uint32_t size) {
  uint64_t bits = 0;
  memcpy(&bits, bytes, size);
  return bits;
}

/// Names the parameter and the element, with the bits sent and found.
Status Receiver::describe(const StagedTile &tile, const LandingImage &image,
                          uint32_t index) const {
  const LandingRow &row = *tile.row;
  uint32_t size = row.kernels->element_size;
  uint32_t offset = tile.offsets ? tile.offsets[index] : index;
  int64_t element =
      device::elementAt(*row.box, device::tileOf(*row.box, tile.boxTile),
                        offset, device::Layout::image(*image.image));
  return Status::error(
      DELTA_CORRUPT,
      "rank %u: \"%s\": compare: element %lld is 0x%0*llx, sent was 0x%0*llx",
      landing.getRank(), landing.paramName(image.param).c_str(),
      static_cast<long long>(image.expertOffset + element), int(size * 2),
      bitsOf(image.data + element * size, size), int(size * 2),
      bitsOf(tile.values + uint64_t(index) * size, size));
}

Status Receiver::compare(uint64_t &outMismatches, Status &outFirst) {
  outMismatches = 0;
  Status status = requireAll("compare");
  if (status.failed())
    return status;
  if (version == 0)
    return Status::error(DELTA_NOT_SEEDED,
                         "rank %u: compare: before the first full sync",
                         landing.getRank());
  std::atomic<uint64_t> total{0};
  std::mutex mutex;
  int64_t firstTile = int64_t(tiles.size());
  forEachImage([&](int64_t i, const StagedTile &tile,
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
      outFirst = describe(tile, image, first);
    }
  });
  outMismatches = total;
  discard();
  return {};
}
