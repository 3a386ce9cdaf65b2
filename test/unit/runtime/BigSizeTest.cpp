//===- BigSizeTest.cpp - Beyond 2^31 elements and 2^32 bytes --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Parameters of up to 2^38 bytes in address space without memory behind it:
/// the pages that a test touches are all that it costs. Places are computed
/// here from rows and columns, in 64 bits and not by the run time.
///
//===----------------------------------------------------------------------===//

#include "BigPlan.h"
#include "Cluster.h"

#include "codegen/device/HostKernels.h"
#include "runtime/Bind.h"
#include "runtime/Fingerprint.h"
#include "runtime/Index.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace delta::test;
using namespace delta::runtime;
namespace device = delta::device;

namespace {

template <typename Element> class BigTileTest : public testing::Test {};
using Elements =
    testing::Types<device::Bf16, device::Fp16, device::Fp32, device::Int64>;
TYPED_TEST_SUITE(BigTileTest, Elements);

template <typename Element> constexpr delta_dtype_t DtypeOf = DELTA_BF16;
template <> constexpr delta_dtype_t DtypeOf<device::Fp16> = DELTA_FP16;
template <> constexpr delta_dtype_t DtypeOf<device::Fp32> = DELTA_FP32;
template <> constexpr delta_dtype_t DtypeOf<device::Int64> = DELTA_INT64;

} // namespace

/// The last tiles of the first and of the last row: the last element of the
/// parameter is number 1.07e10, at byte 8.6e10 of 64-bit elements.
TYPED_TEST(BigTileTest, EveryKernelReachesTheEnd) {
  using Bits = typename TypeParam::Bits;
  constexpr uint32_t Width = 4096;
  BigPlan plan(DtypeOf<TypeParam>);
  plan.addBox(0, 0, {Rows, Columns}, {Columns, 1}, 1, Width);
  Status status = checkTables(plan.getTables());
  ASSERT_FALSE(status.failed()) << status.getText();
  Sparse from(Rows * Columns * sizeof(Bits)), to(Rows * Columns * sizeof(Bits));
  ASSERT_TRUE(from.isMapped() && to.isMapped());
  auto kernels = device::hostKernels<TypeParam>();
  const delta_box_t &box = plan.getBox();
  const delta_image_t &image = plan.getImage();
  const int64_t tilesAcross = (Columns + Width - 1) / Width;
  for (int64_t row : {int64_t(0), Rows - 1}) {
    int64_t tile = row * tilesAcross + tilesAcross - 1;
    int64_t first = (tilesAcross - 1) * Width;
    auto count = uint32_t(Columns - first);
    Bits *place = from.as<Bits>() + row * Columns + first;
    for (uint32_t i = 0; i < count; ++i)
      place[i] = Bits(i * 3 + 1 + uint64_t(row));
    std::vector<Bits> whole(Width), snapshot(Width), values(Width);
    std::vector<uint16_t> offsets(Width);
    kernels.gather(&box, tile, from.as<Bits>(), DELTA_VALUE_ID, whole.data());
    EXPECT_EQ(memcmp(whole.data(), place, count * sizeof(Bits)), 0);
    snapshot = whole;
    place[count - 1] ^= 1;
    ASSERT_EQ(kernels.diff(&box, tile, from.as<Bits>(), DELTA_VALUE_ID,
                           snapshot.data(), offsets.data(), values.data()),
              1u);
    EXPECT_EQ(offsets[0], count - 1);
    whole[count - 1] ^= 1;
    EXPECT_EQ(values[0], whole[count - 1]);
    kernels.scatter(&box, tile, &image, nullptr, snapshot.data(), count,
                    to.as<Bits>());
    uint32_t wrong = 0;
    EXPECT_EQ(kernels.compare(&box, tile, &image, nullptr, whole.data(), count,
                              to.as<Bits>(), &wrong),
              1u);
    EXPECT_EQ(wrong, count - 1);
    kernels.scatter(&box, tile, &image, offsets.data(), values.data(), 1,
                    to.as<Bits>());
    EXPECT_EQ(memcmp(to.as<Bits>() + row * Columns + first, place,
                     count * sizeof(Bits)),
              0);
  }
}

/// Sums of the far tiles, element by element from the formula.
TYPED_TEST(BigTileTest, FingerprintsUseWholePositions) {
  using Bits = typename TypeParam::Bits;
  BigPlan plan(DtypeOf<TypeParam>);
  constexpr int64_t First = Columns - 3000; // 65 columns there, of all rows
  plan.addBox(First, 0, {Rows, 65}, {Columns, 1}, Rows, 65);
  Sparse from(Rows * Columns * sizeof(Bits));
  ASSERT_TRUE(from.isMapped());
  Side hf(plan.getTables(), DELTA_HF);
  delta_position_t position = positionOf(plan.getTables(), hf, plan.getBox(),
                                         DELTA_NONE, DELTA_NONE, /*key=*/5);
  uint64_t expected = 0;
  for (int64_t row = 0; row < Rows; ++row)
    for (int64_t column = First; column < First + 65; ++column) {
      auto bits = Bits(device::mix(uint64_t(row * Columns + column)));
      from.as<Bits>()[row * Columns + column] = bits;
      expected += bits * device::weight(position.row_key, row) *
                  device::weight(position.column_key, column);
    }
  auto kernels = device::hostKernels<TypeParam>();
  EXPECT_EQ(kernels.fingerprint(&plan.getBox(), 0, nullptr, from.as<Bits>(),
                                DELTA_VALUE_ID, &position),
            expected);
  EXPECT_EQ(kernels.fingerprint(&plan.getBox(), 0, &plan.getImage(),
                                from.as<Bits>(), DELTA_VALUE_ID, &position),
            expected);
}

/// Whole syncs of the corners of a parameter of 4.3e10 bytes: few elements, far
/// apart, which land 2^32 bytes further.
TEST(BigSizeTest, SyncsFarElements) {
  BigPlan plan(DELTA_FP32);
  constexpr int64_t Shift = (int64_t(1) << 30) + 3; // more than 2^32 bytes
  plan.addBox(0, Shift, {Rows - 1, 64}, {Columns, 1}, 2, 64);
  plan.addBox(Columns - Shift - 64, Shift, {2, 2, 64},
              {3 * Columns, Columns, 1}, 1, 32);
  Sparse from(Rows * Columns * 4), to(Rows * Columns * 4);
  ASSERT_TRUE(from.isMapped() && to.isMapped());
  delta_param_t source = plan.param(from.as<void>());
  delta_param_t destination = plan.param(to.as<void>());
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
  Status status = Sender::create(plan.getTables(), testKernels(), 0, &source, 1,
                                 /*run=*/1, /*numThreads=*/2, sender);
  ASSERT_FALSE(status.failed()) << status.getText();
  status = Receiver::create(plan.getTables(), testKernels(), 0, &destination, 1,
                            /*run=*/1, /*numThreads=*/2, receiver);
  ASSERT_FALSE(status.failed()) << status.getText();
  EXPECT_EQ(sender->getShard().getNumElements(), uint64_t(4 * 64 + 4 * 64));

  std::vector<int64_t> places;
  for (int64_t row = 0; row < Rows - 1; ++row)
    for (int64_t i = 0; i < 64; ++i)
      places.push_back(row * Columns + i);
  for (int64_t row : {0, 1, 3, 4})
    for (int64_t i = 0; i < 64; ++i)
      places.push_back(row * Columns + Columns - Shift - 64 + i);
  Inproc inproc{std::chrono::seconds(5)};
  for (uint64_t version = 1; version <= 3; ++version) {
    for (size_t i = 0; i < places.size(); i += version)
      from.as<uint32_t>()[places[i]] = uint32_t(i + 1000 * version);
    status = version == 1 ? sender->seed(1, nullptr)
                          : sender->diff(version, nullptr);
    ASSERT_FALSE(status.failed()) << status.getText();
    ASSERT_FALSE(sender->send(inproc.transport()).failed());
    status = receiver->receive(inproc.transport());
    ASSERT_FALSE(status.failed()) << status.getText();
    ASSERT_FALSE(receiver->commit().failed());
    ASSERT_FALSE(sender->acknowledge(version).failed());
    for (int64_t place : places)
      ASSERT_EQ(to.as<uint32_t>()[place + Shift], from.as<uint32_t>()[place])
          << "element " << place;
    uint64_t sums[2][2], count = 0;
    ASSERT_FALSE(sender->fingerprints(0, 9, sums[0], 2, count).failed());
    ASSERT_FALSE(receiver->fingerprints(0, 9, sums[1], 2, count).failed());
    EXPECT_EQ(count, 2u);
    EXPECT_EQ(sums[0][0], sums[1][0]);
    EXPECT_EQ(sums[0][1], sums[1][1]);
    to.as<uint32_t>()[places.back() + Shift] ^= 1;
    ASSERT_FALSE(receiver->fingerprints(0, 9, sums[1], 2, count).failed());
    EXPECT_NE(sums[0][1], sums[1][1]);
    to.as<uint32_t>()[places.back() + Shift] ^= 1;
  }
}

/// Experts stacked in one parameter: the slice of the last begins at byte
/// 1.7e10.
TEST(BigSizeTest, FindsFarExperts) {
  constexpr int64_t Slice = (int64_t(1) << 31) + 12;
  BigPlan plan(DELTA_BF16, 5, Slice);
  delta_expert_t experts[5];
  for (uint32_t i = 0; i < 5; ++i)
    experts[i] = {0, i};
  plan.type.num_experts = 5;
  plan.type.expert_stride = Slice;
  for (delta_side_t *side : {&plan.tables.source, &plan.tables.hf}) {
    side->num_experts = 5;
    side->experts = experts;
  }
  plan.addBox(Slice - 8, 0, {8}, {1}, 1, 8);
  ASSERT_FALSE(checkTables(plan.getTables()).failed());
  Sparse from(5 * Slice * 2), to(5 * Slice * 2);
  ASSERT_TRUE(from.isMapped() && to.isMapped());
  delta_param_t source = plan.param(from.as<void>());
  delta_param_t destination = plan.param(to.as<void>());
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
  ASSERT_FALSE(Sender::create(plan.getTables(), testKernels(), 0, &source, 1, 1,
                              1, sender)
                   .failed());
  ASSERT_FALSE(Receiver::create(plan.getTables(), testKernels(), 0,
                                &destination, 1, 1, 1, receiver)
                   .failed());
  for (int64_t expert = 0; expert < 5; ++expert)
    for (int64_t i = 0; i < 8; ++i)
      from.as<uint16_t>()[expert * Slice + Slice - 8 + i] =
          uint16_t(expert * 8 + i + 1);
  Inproc inproc{std::chrono::seconds(5)};
  ASSERT_FALSE(sender->seed(1, nullptr).failed());
  ASSERT_FALSE(sender->send(inproc.transport()).failed());
  ASSERT_FALSE(receiver->receive(inproc.transport()).failed());
  ASSERT_FALSE(receiver->commit().failed());
  for (int64_t expert = 0; expert < 5; ++expert)
    for (int64_t i = 0; i < 8; ++i)
      EXPECT_EQ(to.as<uint16_t>()[expert * Slice + Slice - 8 + i],
                expert * 8 + i + 1);
  Index index(plan.getTables());
  delta_place_t from3, hf3, to3;
  uint32_t count = 0;
  ASSERT_FALSE(
      index.tileElement(0, /*tile=*/4, 7, from3, hf3, &to3, 1, count).failed());
  EXPECT_EQ(from3.element, 5 * Slice - 1);
  EXPECT_EQ(hf3.element, 5 * Slice - 1);
  EXPECT_EQ(to3.element, 5 * Slice - 1);
}

/// Tiles of one element: their numbers go beyond 2^33 and no table grows.
TEST(BigSizeTest, NumbersTilesBeyond32Bits) {
  BigPlan plan(DELTA_BF16);
  plan.addBox(0, 0, {Rows, Columns}, {Columns, 1}, 1, 1);
  ASSERT_FALSE(checkTables(plan.getTables()).failed());
  Index index(plan.getTables());
  uint64_t tile = uint64_t(Rows) * uint64_t(Columns) - 1;
  delta_tile_info_t info;
  ASSERT_FALSE(index.tileInfo(0, tile, info).failed());
  EXPECT_EQ(info.num_elements, 1u);
  EXPECT_TRUE(index.tileInfo(0, tile + 1, info).failed());
  for (uint64_t wanted :
       {tile, uint64_t(1) << 31, uint64_t(1) << 32, (uint64_t(1) << 33) + 1}) {
    delta_place_t source, hf, destination;
    uint32_t count = 0;
    ASSERT_FALSE(
        index.tileElement(0, wanted, 0, source, hf, &destination, 1, count)
            .failed());
    EXPECT_EQ(source.element, int64_t(wanted));
    EXPECT_EQ(hf.element, int64_t(wanted));
    EXPECT_EQ(destination.element, int64_t(wanted));
  }
  delta_param_info_t param;
  ASSERT_FALSE(index.paramInfo(DELTA_SOURCE, 0, 0, param).failed());
  EXPECT_EQ(param.num_elements, Rows * Columns);
}

/// Replicas share tiles out without overflow, at the most that tables may have.
TEST(BigSizeTest, SharesTheMostTiles) {
  constexpr int64_t Side44 = int64_t(1) << 22;
  BigPlan plan(DELTA_BF16, Side44, Side44);
  plan.tables.source.dp = plan.tables.source.edp = 4096;
  plan.tables.source.ranks_per_replica = 4096;
  plan.addBox(0, 0, {Side44, Side44}, {Side44, 1}, 1, 1);
  Status status = checkTables(plan.getTables());
  ASSERT_FALSE(status.failed()) << status.getText();
  Index index(plan.getTables());
  const Expansion &last = index.getExpansion(4095);
  EXPECT_EQ(last.numTiles, int64_t(1) << 32);
  EXPECT_EQ(last.rows[0].tileEnd, int64_t(1) << 44);
}

TEST(BigSizeTest, BindSeesFarOverlaps) {
  BigPlan plan(DELTA_FP32);
  delta_class_t types[] = {plan.type, plan.type};
  const char *names[] = {"v", "w"};
  types[1].first_name = 1;
  plan.tables.source.classes = types;
  plan.tables.source.num_classes = plan.tables.source.num_names = 2;
  plan.tables.source.names = names;
  Side side(plan.getTables(), DELTA_SOURCE);
  Sparse space(2 * Rows * Columns * 4);
  ASSERT_TRUE(space.isMapped());
  auto bindAt = [&](int64_t element) {
    delta_param_t params[] = {plan.param(space.as<float>()),
                              plan.param(space.as<float>() + element)};
    params[0].name = "v";
    std::vector<void *> data;
    return bindParams(side, 0, side.params(0), params, 2, data).getText();
  };
  EXPECT_EQ(bindAt(Rows * Columns), "");
  EXPECT_EQ(bindAt(Rows * Columns - 1),
            "rank 0: \"w\" (chunk 0): bind: overlaps \"v\"");
  EXPECT_EQ(bindAt(int64_t(1) << 31),
            "rank 0: \"w\" (chunk 0): bind: overlaps \"v\"");
}

TEST(BigSizeTest, RefusesWhatOverflows64Bits) {
  auto refusal = [](auto &&change) {
    BigPlan plan(DELTA_BF16);
    plan.addBox(0, 0, {2, 64}, {Columns, 1}, 1, 64);
    delta_box_t box = plan.getBox();
    delta_image_t image = plan.getImage();
    plan.tables.boxes = &box;
    plan.tables.images = &image;
    change(plan, box, image);
    return checkTables(plan.getTables()).getText();
  };
  EXPECT_EQ(refusal([](BigPlan &, auto &, auto &) {}), "");
  EXPECT_EQ(refusal([](BigPlan &plan, auto &, auto &) {
              plan.type.shape[0] = int64_t(1) << 40;
            }),
            "plan tables: class 0: shape [1099511627776, 2147483725], at most "
            "17592186044416 elements are allowed");
  EXPECT_EQ(
      refusal([](BigPlan &plan, auto &, auto &) { plan.type.shape[0] = -1; }),
      "plan tables: class 0: shape [-1, 2147483725], at most "
      "17592186044416 elements are allowed");
  EXPECT_EQ(refusal([](BigPlan &, delta_box_t &box, auto &) {
              box.extent[0] = int64_t(1) << 40;
              box.source_stride[0] = int64_t(1) << 40;
            }),
            "plan tables: box 0: leaves its class");
  EXPECT_EQ(refusal([](BigPlan &, delta_box_t &, delta_image_t &image) {
              image.stride[0] = INT64_MAX;
            }),
            "plan tables: box 0: image leaves class 0");
  EXPECT_EQ(refusal([](BigPlan &, delta_box_t &box, delta_image_t &image) {
              box.extent[0] = int64_t(1) << 40;
              box.source_stride[0] = image.stride[0] = 0;
            }),
            "plan tables: box 0: more than 17592186044416 elements");
  EXPECT_EQ(refusal([](BigPlan &plan, auto &, auto &) {
              plan.tables.source.tp = 65536;
              plan.tables.source.dp = plan.tables.source.cp = 65536;
            }),
            "plan tables: source: more than 16777216 ranks");
}
