//===- FingerprintKernelTest.cpp - Sums of the device and of the host -----===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/emulator/Simt.h"

#include "FingerprintCases.h"
#include "codegen/device/FingerprintKernel.cuh"
#include "runtime/device/FingerprintTable.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace delta::device;
using namespace delta::runtime;
using namespace delta::test;

namespace {

/// What the kernel says.
std::vector<uint64_t> runKernel(const std::vector<FingerprintTerm> &terms,
                                FingerprintTable &table) {
  table.build(terms, FingerprintKernels);
  std::vector<FingerprintKeys> keys;
  for (const FingerprintTerm &term : terms)
    keys.push_back({term.position.row_key, term.position.column_key});
  std::vector<unsigned long long> sums(terms.size());
  FingerprintArguments arguments = {table.getPieces().data(),
                                    table.getPlaces().data(), keys.data(),
                                    sums.data()};
  delta::simt::launch(uint32_t(table.getPieces().size()), BlockThreads,
                      [&] { sumPieces<AllElements>(arguments); });
  return {sums.begin(), sums.end()};
}

/// Ranges of tiles: all, cut at both ends, and one.
std::vector<std::pair<int64_t, int64_t>> rangesOf(const delta_box_t &box) {
  int64_t n = box.num_tiles;
  return {{0, n}, {n / 3, n / 2 + 1}, {n - 1, n}};
}

class FingerprintKernelTest : public testing::TestWithParam<BoxCase> {};

TEST_P(FingerprintKernelTest, AgreesWithTheHost) {
  const BoxCase &boxCase = GetParam();
  const delta_box_t source = boxOf(boxCase, /*isImage=*/false);
  const delta_box_t held = boxOf(boxCase, /*isImage=*/true);
  const delta_image_t image = imageOf(boxCase);
  const delta_value_op_t ops[] = {DELTA_VALUE_ID, DELTA_VALUE_ADD_ONE,
                                  DELTA_VALUE_NEG_EXP |
                                      DELTA_VALUE_VIA(DELTA_BF16)};
  for (uint32_t row = DELTA_BF16; row < DELTA_NUM_KERNELS; ++row) {
    const delta_host_kernels_t &kernels = FingerprintKernels.host[row];
    std::vector<FingerprintTerm> terms;
    std::vector<Memory> memories;
    // On a multiple of 16 bytes, and one element off it: of the source or of
    // the receiver, whichever is larger, since both are read there.
    for (uint32_t shift :
         {0u, std::max(kernels.source_size, kernels.element_size)})
      memories.emplace_back(endOf(boxCase) * 8, shift, row * 10 + shift);
    for (const Memory &memory : memories)
      for (auto [begin, end] : rangesOf(source)) {
        const delta_position_t position = {
            boxCase.neutralOffset, boxCase.neutral.data(), boxCase.numColumns,
            mix(terms.size()), mix(terms.size() + 1000)};
        for (delta_value_op_t op : ops)
          terms.push_back({&source, &kernels, nullptr, memory.begin, op, begin,
                           end, position});
        terms.push_back({&held, &kernels, &image, memory.begin, DELTA_VALUE_ID,
                         begin, end, position});
      }
    FingerprintTable table;
    const std::vector<uint64_t> sums = runKernel(terms, table);
    for (size_t i = 0; i < terms.size(); ++i)
      EXPECT_EQ(sums[i], onHost(terms[i])) << "row " << row << ", term " << i;
    EXPECT_EQ(table.getPlaces().empty(), !boxCase.hasPlaces);
    bool isWide = false;
    for (const FingerprintPiece &piece : table.getPieces())
      isWide |= piece.path == WidePath || piece.path == StripPath;
    if (boxCase.isWide)
      EXPECT_TRUE(isWide) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Boxes, FingerprintKernelTest,
                         testing::ValuesIn(BoxCases), [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
