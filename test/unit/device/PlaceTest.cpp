//===- PlaceTest.cpp - Where kernels write the elements of a tile ---------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/device/DestinationArguments.h"
#include "runtime/device/DeviceLanding.h"
#include "test/emulator/EmulatedDevice.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

using namespace delta::runtime;
namespace device = delta::device;

namespace {

/// A box with an image, over a parameter of `extent` bytes.
struct Case {
  delta_box_t box = {};
  delta_image_t image = {};
  int64_t numElements = 0; ///< of the destination
};

/// `order` lists the loops of the destination, outermost first; `gap` elements
/// lie between two rows of it.
Case makeCase(std::vector<int64_t> extents, std::vector<uint32_t> order,
              int64_t gap, uint32_t tileRuns, uint32_t tileColumns) {
  Case out;
  out.box.num_loops = uint32_t(extents.size());
  out.box.tile_runs = tileRuns;
  out.box.tile_columns = tileColumns;
  int64_t stride = 1, runs = 1;
  for (size_t i = extents.size(); i-- > 0;) {
    out.box.extent[i] = extents[i];
    if (i + 1 < extents.size())
      runs *= extents[i];
  }
  for (size_t i = order.size(); i-- > 0;) {
    out.image.stride[order[i]] = stride;
    stride = stride * extents[order[i]] + (i + 1 == order.size() ? gap : 0);
  }
  int64_t across = (extents.back() + tileColumns - 1) / tileColumns;
  out.box.num_tiles = (runs + tileRuns - 1) / tileRuns * across;
  out.image.offset = 3;
  out.numElements = stride + 3 + gap;
  return out;
}

std::vector<Case> cases() {
  return {
      makeCase({24}, {0}, 0, 1, 10),                // one run
      makeCase({6, 40}, {0, 1}, 0, 4, 40),          // whole rows
      makeCase({6, 40}, {0, 1}, 24, 4, 16),         // rows apart, cut
      makeCase({6, 40}, {1, 0}, 0, 4, 40),          // transposed
      makeCase({3, 4, 16}, {1, 0, 2}, 0, 5, 16),    // rows interleaved
      makeCase({3, 4, 16}, {0, 1, 2}, 0, 5, 16),    // loops that go on
      makeCase({2, 700, 2}, {1, 0, 2}, 2, 1400, 2), // more runs than are kept
      makeCase({70, 40}, {0, 1}, 8, 1, 40),         // several groups of tiles
      makeCase({20, 3000}, {0, 1}, 0, 20, 3000),    // a tile for a whole block
      makeCase({20, 3000}, {0, 1}, 16, 20, 3000)};
}

} // namespace

/// The paths of the tables against the map itself, element by element.
TEST(PlaceTest, PathsAreThoseOfTheMap) {
  uint32_t numOfPath[3] = {};
  for (const Case &test : cases()) {
    std::vector<uint8_t> memory(size_t(test.numElements), 0);
    uint8_t *base = memory.data();
    for (int64_t i = 0; i < test.box.num_tiles; ++i) {
      device::DestinationTile place =
          placeTile(test.box, test.image, i, base, 1);
      ++numOfPath[place.path];
      if (place.path == device::MappedPlace)
        continue;
      device::Tile tile = device::tileOf(test.box, i);
      ASSERT_EQ(place.numElements, tile.numElements());
      for (uint32_t offset = 0; offset < place.numElements; ++offset) {
        int64_t at = place.to - base;
        if (place.path == device::ContiguousPlace)
          at += offset;
        else
          at += offset / place.numColumns * place.pitch +
                offset % place.numColumns * place.step;
        ASSERT_EQ(at, device::elementAt(test.box, tile, offset,
                                        device::Layout::image(test.image)));
      }
    }
  }
  for (uint32_t number : numOfPath)
    EXPECT_GT(number, 2u);
}

namespace {

/// Tiles of one case as a sync stages them, with random counts and values that
/// begin `skew` bytes off.
class Scattering {
public:
  Scattering(const Case &test, uint32_t size, uint32_t skew, uint64_t seed)
      : test(test), size(size), random(seed) {
    tables.boxes = &test.box;
    tables.images = &test.image;
    emulated = std::make_shared<delta::test::EmulatedDevice>(tables);
    numBytes = uint64_t(test.numElements) * size;
    EXPECT_FALSE(memory.allocate(emulated, numBytes + 64).failed());
    wanted.assign(memory.as(), memory.as() + memory.getNumBytes());
    fill(skew);
  }

  void expectScattered(const std::string &name) {
    device::StageTotals totals = {};
    totals.firstDiffer = ~0ull;
    device::ScatterArguments scatter = {staged.data(), staged.size(),
                                        tiles.data(), nullptr, &totals};
    ASSERT_FALSE(
        emulated->launch(DeviceKernel::Scatter, 2, &scatter, nullptr).failed());
    EXPECT_EQ(memcmp(memory.as(), wanted.data(), wanted.size()), 0) << name;
    totals.nextTile = 0;
    device::CompareArguments compare = {staged.data(), staged.size(),
                                        tiles.data(), &totals};
    ASSERT_FALSE(
        emulated->launch(DeviceKernel::Compare, 2, &compare, nullptr).failed());
    EXPECT_EQ(totals.numDiffer, 0u) << name;
  }

private:
  void fill(uint32_t skew) {
    // Parameters are aligned to their elements alone.
    uint8_t *data = memory.as(size);
    values.resize(size_t(test.numElements) * size + 64);
    uint8_t *at = values.data() + skew;
    for (int64_t i = 0; i < test.box.num_tiles; ++i) {
      device::DestinationTile place =
          placeTile(test.box, test.image, i, data, size);
      place.isMapped = place.path == device::MappedPlace;
      place.box = &test.box;
      place.image = &test.image;
      tiles.push_back(place);
      bool dense = random() % 2;
      auto &own = offsets.emplace_back();
      for (uint32_t offset = 0; offset < place.numElements; ++offset) {
        if (!dense && random() % 3)
          continue;
        own.push_back(uint16_t(offset));
        write(i, offset, at + (own.size() - 1) * size);
      }
      device::StagedTile tile = {};
      tile.offsets = dense ? nullptr : own.data();
      tile.values = at;
      tile.count = uint32_t(own.size());
      tile.tile = uint32_t(i);
      tile.numElements = place.numElements;
      staged.push_back(tile);
      at += own.size() * size;
    }
  }
  void write(int64_t tile, uint32_t offset, uint8_t *value) {
    for (uint32_t i = 0; i < size; ++i)
      value[i] = uint8_t(random());
    int64_t element =
        device::elementAt(test.box, device::tileOf(test.box, tile), offset,
                          device::Layout::image(test.image));
    memcpy(wanted.data() + size + element * size, value, size);
  }

  const Case &test;
  const uint32_t size;
  std::mt19937_64 random;
  delta_tables_t tables = {};
  std::shared_ptr<delta::test::EmulatedDevice> emulated;
  DeviceBuffer memory;
  uint64_t numBytes = 0;
  std::vector<uint8_t> wanted;
  alignas(16) std::vector<uint8_t> values;
  std::vector<std::vector<uint16_t>> offsets;
  std::vector<device::DestinationTile> tiles;
  std::vector<device::StagedTile> staged;
};

} // namespace

/// Dense and sparse tiles of all sizes of elements, whose values begin at any
/// multiple of one.
TEST(PlaceTest, ScattersWhateverTheAlignment) {
  uint64_t seed = 1;
  std::vector<Case> all = cases();
  for (size_t i = 0; i < all.size(); ++i)
    for (uint32_t size : {2u, 4u, 8u})
      for (uint32_t skew = 0; skew < 16; skew += size)
        Scattering(all[i], size, skew, seed++)
            .expectScattered("case " + std::to_string(i) + ", " +
                             std::to_string(size) + " bytes, skew " +
                             std::to_string(skew));
}
