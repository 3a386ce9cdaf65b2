//===- DeviceFingerprintTest.cpp - Sums through a device ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FingerprintCases.h"

#include "codegen/device/IndexFunctions.h"
#include "runtime/device/DeviceFingerprint.h"
#include "test/emulator/EmulatedDevice.h"

#include <gtest/gtest.h>

using namespace delta::test;
using namespace delta::runtime;

namespace {

/// All boxes in one list of terms, each over memory of its own.
class DeviceFingerprintTest : public testing::Test {
protected:
  DeviceFingerprintTest()
      : device(std::make_shared<EmulatedDevice>(tables)),
        fingerprint(device, FingerprintKernels) {
    for (const BoxCase &boxCase : BoxCases)
      boxes.push_back(boxOf(boxCase, /*isImage=*/false));
    for (size_t i = 0; i < boxes.size(); ++i) {
      memories.emplace_back(endOf(BoxCases[i]) * 2, /*shift=*/0, /*seed=*/i);
      terms.push_back({&boxes[i],
                       &FingerprintKernels.host[DELTA_BF16],
                       nullptr,
                       memories.back().begin,
                       DELTA_VALUE_ID,
                       0,
                       boxes[i].num_tiles,
                       {BoxCases[i].neutralOffset, BoxCases[i].neutral.data(),
                        BoxCases[i].numColumns, 0, 0}});
    }
    setKeys(1);
  }
  void setKeys(uint64_t seed) {
    for (size_t i = 0; i < terms.size(); ++i) {
      terms[i].position.row_key = delta::device::mix(seed * 1000 + i);
      terms[i].position.column_key = delta::device::mix(seed * 1000 + i + 500);
    }
  }
  std::vector<uint64_t> wanted() const {
    std::vector<uint64_t> sums;
    for (const FingerprintTerm &term : terms)
      sums.push_back(onHost(term));
    return sums;
  }
  std::vector<uint64_t> get() {
    std::vector<uint64_t> sums;
    Status status = fingerprint.sum(terms, nullptr, sums);
    EXPECT_FALSE(status.failed()) << status.getText();
    return sums;
  }

  delta_tables_t tables = {};
  std::shared_ptr<EmulatedDevice> device;
  DeviceFingerprint fingerprint;
  std::vector<delta_box_t> boxes;
  std::vector<Memory> memories;
  std::vector<FingerprintTerm> terms;
};

} // namespace

TEST_F(DeviceFingerprintTest, OneLaunchForAllTerms) {
  EXPECT_EQ(get(), wanted());
  EXPECT_EQ(device->launches.size(), 1u);
}

TEST_F(DeviceFingerprintTest, NothingIsAllocatedForTheSameTerms) {
  get();
  const uint64_t allocations = device->numAllocations;
  const uint64_t calls = device->numCalls;
  setKeys(2);
  EXPECT_EQ(get(), wanted());
  EXPECT_EQ(device->numAllocations, allocations);
  // Keys, zeros, the launch, sums: the table is there.
  EXPECT_EQ(device->numCalls, calls + 4);
  // Nor where fewer terms come.
  terms.pop_back();
  EXPECT_EQ(get(), wanted());
  EXPECT_EQ(device->numAllocations, allocations);
}

TEST_F(DeviceFingerprintTest, TheTableIsSmall) {
  std::vector<uint16_t> data(1 << 22);
  const std::vector<int64_t> strides = {2048, 1};
  delta_box_t box = {};
  box.num_loops = 2;
  box.extent[0] = box.source_stride[0] = 2048;
  box.extent[1] = 2048;
  box.source_stride[1] = 1;
  box.tile_runs = 32;
  box.tile_columns = 2048;
  box.num_tiles = 64;
  // 18,000 such tensors would be 151 GB: 100 of them tell as much.
  terms.assign(100, {&box,
                     &FingerprintKernels.host[DELTA_BF16],
                     nullptr,
                     data.data(),
                     DELTA_VALUE_ID,
                     0,
                     box.num_tiles,
                     {0, strides.data(), 2048, 1, 2}});
  FingerprintTable table;
  table.build(terms, FingerprintKernels);
  uint64_t numBytes =
      table.getPieces().size() * sizeof(delta::device::FingerprintPiece) +
      terms.size() * 24;
  EXPECT_LT(numBytes * 1000, terms.size() * data.size() * 2 * 3); // 0.3 %
}

TEST_F(DeviceFingerprintTest, AnyChangedElementShows) {
  const std::vector<uint64_t> before = get();
  std::mt19937_64 random(5);
  for (size_t i = 0; i < terms.size(); ++i) {
    auto *data = reinterpret_cast<uint16_t *>(memories[i].begin);
    data[endOf(BoxCases[i]) - 1] ^= uint16_t(1u << random() % 16);
  }
  const std::vector<uint64_t> after = get();
  for (size_t i = 0; i < terms.size(); ++i)
    EXPECT_NE(before[i], after[i]) << BoxCases[i].name;
}

TEST_F(DeviceFingerprintTest, FailuresNameTheirCallAndLeaveItUsable) {
  const std::vector<uint64_t> right = wanted();
  for (uint64_t call = 0; call < 8; ++call) {
    DeviceFingerprint other(device, FingerprintKernels);
    std::vector<uint64_t> sums;
    device->failAt = device->numCalls + call;
    Status status = other.sum(terms, nullptr, sums);
    ASSERT_TRUE(status.failed()) << call;
    EXPECT_EQ(status.getCode(), DELTA_NO_MEMORY);
    EXPECT_NE(status.getText().find(": out of memory"), std::string::npos);
    EXPECT_FALSE(other.sum(terms, nullptr, sums).failed());
    EXPECT_EQ(sums, right);
  }
  // Two allocations, five copies and fills, one launch.
  DeviceFingerprint other(device, FingerprintKernels);
  std::vector<uint64_t> sums;
  const uint64_t calls = device->numCalls;
  EXPECT_FALSE(other.sum(terms, nullptr, sums).failed());
  EXPECT_EQ(device->numCalls, calls + 8);
}
