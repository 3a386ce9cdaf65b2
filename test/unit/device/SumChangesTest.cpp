//===- SumChangesTest.cpp - Sums that follow packed changes ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/emulator/Simt.h"

#include "FingerprintCases.h"
#include "codegen/device/PackFormat.h"
#include "codegen/device/SumChangesKernel.cuh"

#include <gtest/gtest.h>

#include <cstring>

using namespace delta::device;
using namespace delta::runtime;
using namespace delta::test;

namespace {

/// The rows of a source rank, one for each box, of one element type: their
/// snapshot, and what differs from it, packed as the device packs it.
class SourceRows {
public:
  SourceRows(uint32_t kernel, uint64_t seed)
      : kernels(FingerprintKernels.host[kernel]), random(seed),
        op(kernel == DELTA_KERNELS_BF16_TO_FP32 ? DELTA_VALUE_ADD_ONE
                                                : DELTA_VALUE_ID) {
    // A run of a source lies in one piece.
    for (const BoxCase &boxCase : BoxCases)
      if (boxCase.data.back() == 1)
        cases.push_back(&boxCase);
    for (const BoxCase *boxCase : cases) {
      boxes.push_back(boxOf(*boxCase, /*isImage=*/false));
      memories.emplace_back(endOf(*boxCase) * kernels.source_size, 0, random());
    }
    for (size_t i = 0; i < boxes.size(); ++i)
      addRow(i);
  }

  std::vector<FingerprintTerm> terms() const {
    std::vector<FingerprintTerm> terms;
    for (size_t i = 0; i < rows.size(); ++i)
      terms.push_back(
          {&boxes[i],
           &kernels,
           nullptr,
           memories[i].begin,
           op,
           rows[i].tileBegin,
           boxes[i].num_tiles,
           {cases[i]->neutralOffset, cases[i]->neutral.data(),
            cases[i]->numColumns, rows[i].keys.row, rows[i].keys.column}});
    return terms;
  }
  /// What the full pass of the host says of the parameters.
  std::vector<unsigned long long> full() const {
    std::vector<unsigned long long> sums;
    for (const FingerprintTerm &term : terms())
      sums.push_back(onHost(term));
    return sums;
  }

  /// Changes one of `every` elements, and packs what the snapshot lacks.
  void change(unsigned every) {
    const size_t size = kernels.source_size;
    for (size_t i = 0; i < boxes.size(); ++i)
      for (int64_t at = 0; at < endOf(*cases[i]); ++at)
        if (random() % every == 0)
          memories[i].begin[size_t(at) * size + random() % size] ^=
              uint8_t(random() | 1);
    std::vector<uint16_t> listed(DELTA_MAX_TILE);
    std::vector<uint8_t> changed(DELTA_MAX_TILE * 8);
    offsets.clear();
    values.clear();
    for (size_t i = 0; i < tiles.size(); ++i) {
      const SourceTile &tile = tiles[i];
      const FingerprintRow &row = rows[tile.row];
      const int64_t boxTile = row.tileBegin + int64_t(i) - row.firstTile;
      const uint8_t *source = memories[tile.row].begin;
      TilePlace &place = places[i];
      place = {offsets.size(), values.size(), 0, 0};
      place.changed = kernels.diff(row.box, boxTile, source, op, tile.snapshot,
                                   listed.data(), changed.data());
      place.isDense = isDense(place.changed, tile.numElements);
      numDense += place.isDense;
      numSparse += place.changed && !place.isDense;
      if (place.isDense)
        kernels.gather(row.box, boxTile, source, op, changed.data());
      else
        offsets.insert(offsets.end(), listed.begin(),
                       listed.begin() + place.changed);
      values.insert(values.end(), changed.begin(),
                    changed.begin() +
                        (place.isDense ? tile.numElements : place.changed) *
                            kernels.element_size);
    }
  }
  void advance() {
    for (size_t i = 0; i < tiles.size(); ++i)
      if (places[i].changed)
        kernels.advance(
            tiles[i].snapshot,
            places[i].isDense ? nullptr : offsets.data() + places[i].offsetsAt,
            values.data() + places[i].valuesAt,
            places[i].isDense ? tiles[i].numElements : places[i].changed);
  }

  void sum(std::vector<unsigned long long> &sums, bool isFirst) {
    SourceSumArguments arguments = {};
    arguments.changes.tiles = tiles.data();
    arguments.changes.places = places.data();
    arguments.changes.offsets = offsets.data();
    arguments.changes.values = values.data();
    arguments.rows = rows.data();
    arguments.sums = sums.data();
    arguments.isFirst = isFirst;
    // In two launches, as a snapshot that is uploaded in chunks has.
    const int64_t half = int64_t(tiles.size()) / 2;
    for (int64_t begin : {int64_t(0), half}) {
      arguments.changes.tileBegin = begin;
      arguments.changes.tileEnd = begin ? int64_t(tiles.size()) : half;
      delta::simt::launch(3, FingerprintThreads,
                          [&] { sumSource<AllElements>(arguments); });
    }
  }

  uint64_t numDense = 0, numSparse = 0;

private:
  /// The tiles of a box but its first, which is another rank's.
  void addRow(size_t i) {
    const delta_box_t &box = boxes[i];
    const int64_t begin = box.num_tiles > 1 ? 1 : 0;
    rows.push_back({&box,
                    int64_t(tiles.size()),
                    begin,
                    cases[i]->neutral.data(),
                    cases[i]->neutralOffset,
                    cases[i]->numColumns,
                    {random(), random()}});
    for (int64_t tile = begin; tile < box.num_tiles; ++tile) {
      SourceTile made = {};
      made.numElements = tileOf(box, tile).numElements();
      made.row = uint32_t(i);
      made.elementSize = uint8_t(kernels.element_size);
      snapshots.emplace_back(made.numElements * kernels.element_size, 0, 0);
      made.snapshot = snapshots.back().begin;
      kernels.gather(&box, tile, memories[i].begin, op, made.snapshot);
      tiles.push_back(made);
    }
    places.resize(tiles.size());
  }

  const delta_host_kernels_t &kernels;
  std::mt19937_64 random;
  const delta_value_op_t op;
  std::vector<const BoxCase *> cases;
  std::vector<delta_box_t> boxes;
  std::vector<Memory> memories, snapshots;
  std::vector<FingerprintRow> rows;
  std::vector<SourceTile> tiles;
  std::vector<TilePlace> places;
  std::vector<uint16_t> offsets;
  std::vector<uint8_t> values;
};

} // namespace

TEST(SumChangesTest, FollowTheSnapshotOverManySyncs) {
  uint64_t numDense = 0, numSparse = 0;
  for (uint32_t kernel = DELTA_BF16; kernel < DELTA_NUM_KERNELS; ++kernel) {
    SourceRows rows(kernel, kernel);
    std::vector<unsigned long long> sums(rows.full().size());
    rows.sum(sums, /*isFirst=*/true);
    EXPECT_EQ(sums, rows.full()) << "kernel " << kernel;
    for (unsigned every : {100u, 1u, 7u, 1000000u}) {
      rows.change(every);
      // A sync that is given up has changed neither sums nor snapshot.
      if (every == 7)
        rows.change(30);
      rows.sum(sums, /*isFirst=*/false);
      rows.advance();
      EXPECT_EQ(sums, rows.full()) << "kernel " << kernel << ", 1/" << every;
    }
    numDense += rows.numDense;
    numSparse += rows.numSparse;
  }
  EXPECT_GT(numDense, 100u);
  EXPECT_GT(numSparse, 100u);
}
