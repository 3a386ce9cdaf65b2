//===- MovesTest.cpp - Ops against their definitions ----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Every op over all small shapes, one element at a time, from the sentence
/// that defines it. Elements hold their own number.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/Moves.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

using namespace delta::reference;

namespace {

template <class T> Array<T> iota(Shape shape, T first = 0) {
  Array<T> array(std::move(shape));
  std::iota(array.data.get(), array.data.get() + array.size(), first);
  return array;
}

template <class T> T at(const Array<T> &array, const Shape &index) {
  int64_t flat = 0;
  for (size_t i = 0; i < index.size(); ++i)
    flat = flat * array.shape[i] + index[i];
  return array.data[flat];
}

/// Calls each(index) for every element of a shape.
template <class F> void forEach(const Shape &shape, const F &each) {
  for (int64_t size : shape)
    if (size == 0)
      return;
  Shape index(shape.size(), 0);
  for (;;) {
    each(index);
    size_t i = shape.size();
    while (i > 0 && ++index[i - 1] == shape[i - 1])
      index[--i] = 0;
    if (i == 0)
      return;
  }
}

/// All shapes of 1 to 4 dimensions with these sizes.
std::vector<Shape> smallShapes(const Shape &sizes) {
  std::vector<Shape> shapes = {{}}, all;
  for (int rank = 1; rank <= 4; ++rank) {
    std::vector<Shape> longer;
    for (const Shape &shape : shapes)
      for (const int64_t size : sizes) {
        longer.push_back(shape);
        longer.back().push_back(size);
      }
    shapes = longer;
    all.insert(all.end(), longer.begin(), longer.end());
  }
  return all;
}

template <class T> class MovesTest : public testing::Test {};
using Types = testing::Types<uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(MovesTest, Types);

TYPED_TEST(MovesTest, transpose) {
  for (const Shape &shape : smallShapes({0, 1, 2, 3})) {
    const auto in = iota<TypeParam>(shape);
    std::vector<int64_t> permutation(shape.size());
    std::iota(permutation.begin(), permutation.end(), 0);
    do {
      const auto out = transpose(in, permutation);
      for (size_t i = 0; i < shape.size(); ++i)
        ASSERT_EQ(out.shape[i], shape[size_t(permutation[i])]);
      forEach(out.shape, [&](const Shape &index) {
        Shape from(shape.size());
        for (size_t i = 0; i < shape.size(); ++i)
          from[size_t(permutation[i])] = index[i];
        ASSERT_EQ(at(out, index), at(in, from)) << toText(shape);
      });
    } while (std::next_permutation(permutation.begin(), permutation.end()));
  }
}

TYPED_TEST(MovesTest, transposeLargerThanABlock) {
  const auto in = iota<TypeParam>({3, 70, 41, 2});
  for (const std::vector<int64_t> &permutation :
       {std::vector<int64_t>{2, 0, 1, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}}) {
    const auto out = transpose(in, permutation);
    forEach(out.shape, [&](const Shape &index) {
      Shape from(4);
      for (size_t i = 0; i < 4; ++i)
        from[size_t(permutation[i])] = index[i];
      ASSERT_EQ(at(out, index), at(in, from));
    });
  }
}

TYPED_TEST(MovesTest, splitAndConcat) {
  for (const Shape &shape : smallShapes({1, 3, 4}))
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (shape[dim] < 3)
        continue;
      const std::vector<int64_t> sizes = {1, 0, 2, shape[dim] - 3};
      const auto in = iota<TypeParam>(shape);
      const auto parts = split(in, int64_t(dim), sizes);
      ASSERT_EQ(parts.size(), sizes.size());
      int64_t begin = 0;
      std::vector<const Array<TypeParam> *> pointers;
      for (size_t p = 0; p < parts.size(); ++p) {
        ASSERT_EQ(parts[p].shape[dim], sizes[p]);
        forEach(parts[p].shape, [&](Shape index) {
          const TypeParam found = at(parts[p], index);
          index[dim] += begin;
          ASSERT_EQ(found, at(in, index));
        });
        begin += sizes[p];
        pointers.push_back(&parts[p]);
      }
      const auto joined = concat(pointers, int64_t(dim));
      ASSERT_EQ(joined.shape, shape);
      forEach(shape, [&](const Shape &index) {
        ASSERT_EQ(at(joined, index), at(in, index));
      });
    }
}

TYPED_TEST(MovesTest, interleave) {
  for (const Shape &shape : smallShapes({1, 2, 3}))
    for (size_t dim = 0; dim < shape.size(); ++dim)
      for (size_t ways : {1u, 2u, 3u}) {
        std::vector<Array<TypeParam>> in;
        std::vector<const Array<TypeParam> *> pointers;
        for (size_t j = 0; j < ways; ++j)
          in.push_back(iota<TypeParam>(shape, TypeParam(1000 * j)));
        for (const auto &array : in)
          pointers.push_back(&array);
        const auto out = interleave(pointers, int64_t(dim));
        ASSERT_EQ(out.shape[dim], shape[dim] * int64_t(ways));
        for (size_t j = 0; j < ways; ++j)
          forEach(shape, [&](const Shape &index) {
            Shape to = index;
            to[dim] = index[dim] * int64_t(ways) + int64_t(j);
            ASSERT_EQ(at(out, to), at(in[j], index));
          });
      }
}

TYPED_TEST(MovesTest, take) {
  for (const Shape &shape : smallShapes({1, 2, 4}))
    for (size_t dim = 0; dim < shape.size(); ++dim)
      for (int64_t size = 0; size <= shape[dim]; ++size) {
        const auto in = iota<TypeParam>(shape);
        const auto out = take(iota<TypeParam>(shape), int64_t(dim), size);
        ASSERT_EQ(out.shape[dim], size);
        forEach(out.shape, [&](const Shape &index) {
          ASSERT_EQ(at(out, index), at(in, index));
        });
      }
}

/// The element of a way is found from the definition: its section, then its
/// place in the way's part of that section.
TYPED_TEST(MovesTest, shardsOfSections) {
  for (const Shape &shape : {Shape{12}, {12, 3}, {2, 12}, {2, 12, 3}})
    for (const std::vector<int64_t> &sections :
         {std::vector<int64_t>{}, {12}, {4, 8}, {4, 0, 4, 4}})
      for (int64_t ways : {1, 2, 4}) {
        const size_t dim = shape[0] == 12 ? 0 : 1;
        const Split how = {int64_t(dim), ways, sections, {}};
        const auto whole = iota<TypeParam>(shape);
        Array<TypeParam> joined(shape);
        for (int64_t way = 0; way < ways; ++way) {
          Array<TypeParam> shard(shardShape(shape, how));
          ASSERT_EQ(shard.shape[dim], 12 / ways);
          cutShard(whole.data.get(), shape, how, way, shard.data.get());
          joinShard(shard.data.get(), shape, how, way, joined.data.get());
          forEach(shard.shape, [&](const Shape &index) {
            int64_t local = index[dim], begin = 0;
            for (const int64_t section :
                 sections.empty() ? std::vector<int64_t>{12} : sections) {
              if (local < section / ways)
                break;
              local -= section / ways;
              begin += section;
            }
            int64_t size = 12;
            for (int64_t s = 0, at = 0; s < int64_t(sections.size());
                 at += sections[size_t(s++)])
              if (at == begin && sections[size_t(s)] != 0)
                size = sections[size_t(s)];
            Shape from = index;
            from[dim] = begin + way * (size / ways) + local;
            ASSERT_EQ(at(shard, index), at(whole, from))
                << toText(shape) << toText(sections) << ways << way;
          });
        }
        forEach(shape, [&](const Shape &index) {
          ASSERT_EQ(at(joined, index), at(whole, index));
        });
      }
}

/// A way's rows, section by section, with fewer parts of the second one: its
/// part is that of the way's group of neighbors.
TYPED_TEST(MovesTest, sectionsOfFewerParts) {
  const Shape shape = {12, 2};
  const auto whole = iota<TypeParam>(shape);
  for (int64_t parts : {1, 2, 4}) {
    const Split how = {0, 4, {8, 4}, {4, parts}};
    Array<TypeParam> joined(shape);
    for (int64_t way = 0; way < 4; ++way) {
      std::vector<int64_t> rows = {2 * way, 2 * way + 1};
      for (int64_t row = 0; row < 4; ++row)
        if (row / (4 / parts) == way / (4 / parts))
          rows.push_back(8 + row);
      Array<TypeParam> shard(shardShape(shape, how));
      ASSERT_EQ(shard.shape, (Shape{int64_t(rows.size()), 2}));
      cutShard(whole.data.get(), shape, how, way, shard.data.get());
      joinShard(shard.data.get(), shape, how, way, joined.data.get());
      forEach(shard.shape, [&](const Shape &index) {
        const Shape from = {rows[size_t(index[0])], index[1]};
        ASSERT_EQ(at(shard, index), at(whole, from)) << parts << way;
      });
    }
    forEach(shape, [&](const Shape &index) {
      ASSERT_EQ(at(joined, index), at(whole, index));
    });
  }
}

TEST(Viewed, dimensionsOfMemoryInAnotherOrder) {
  EXPECT_EQ(viewed({2, 3, 4}, {}), (Shape{2, 3, 4}));
  EXPECT_EQ(viewed({2, 3, 4}, {0, 2, 1}), (Shape{2, 4, 3}));
  EXPECT_EQ(viewed(stridesOf({2, 3, 4}), {0, 2, 1}), (Shape{12, 1, 4}));
}

//===--- values -----------------------------------------------------------===//

uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float valueOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

/// The nearest of all values of a 16-bit type, ties to the even pattern.
template <class Widen>
uint16_t nearest(float value, uint16_t infinity, const Widen &widen) {
  const double magnitude = std::fabs(double(value));
  uint16_t low = 0;
  while (low + 1 < infinity && widen(uint16_t(low + 1)) <= magnitude)
    ++low;
  const double below = widen(low);
  const double step = low + 1 < infinity ? widen(uint16_t(low + 1)) - below
                                         : below - widen(uint16_t(low - 1));
  const double rest = magnitude - below;
  const bool up = rest > step / 2 || (rest == step / 2 && (low & 1));
  return uint16_t((std::signbit(value) ? 0x8000 : 0) | (low + up));
}

TEST(Rounding, bf16ToNearestEven) {
  for (const float value :
       {0.f, -0.f, 1.f, 1.00390625f, 1.01171875f, 0x1.01p0f, 0x1.010002p0f,
        0x1.00fffep0f, -3.1415927f, 0x1.fffffep-3f, 0x1p-130f, 0x1.8p-134f,
        0x1p-134f, 0x1p-135f}) {
    const auto widen = [](uint16_t bits) {
      return double(valueOf(uint32_t(bits) << 16));
    };
    EXPECT_EQ(toBf16(bitsOf(value)), nearest(value, 0x7f80, widen)) << value;
  }
  EXPECT_EQ(toBf16(0x7f800000), 0x7f80);
  EXPECT_EQ(toBf16(0x7f7fffff), 0x7f80);
  EXPECT_EQ(toBf16(0xff800001) & 0x7f80, 0x7f80);
  EXPECT_NE(toBf16(0xff800001) & 0x7f, 0) << "a NaN must not become Inf";
}

TEST(Rounding, fp16ToNearestEven) {
  const auto widen = [](uint16_t bits) {
    return double(valueOf(fromFp16(bits)));
  };
  for (const float value :
       {0.f, -0.f, 1.f, 0x1.002p0f, 0x1.006p0f, 0x1.002002p0f, 65504.f,
        65519.99f, 0x1p-14f, 0x1.ffcp-15f, 0x1p-24f, 0x1p-25f, 0x1.000002p-25f,
        0x1.8p-24f, 0x1.7fep-15f, -0x1.cp-23f, 0x1p-30f})
    EXPECT_EQ(toFp16(bitsOf(value)), nearest(value, 0x7c00, widen)) << value;
  EXPECT_EQ(toFp16(bitsOf(65520.f)), 0x7c00);
  EXPECT_EQ(toFp16(bitsOf(INFINITY)), 0x7c00);
}

TEST(Rounding, fp16RoundTripOfEveryPattern) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff))
      continue;
    ASSERT_EQ(toFp16(fromFp16(uint16_t(bits))), bits);
  }
}

TEST(AddScalar, roundsInTheStorageType) {
  Array<uint16_t> array({4});
  array.data[0] = toBf16(bitsOf(0.001f));
  array.data[1] = toBf16(bitsOf(0.004f));
  array.data[2] = 0x7f81; // signaling NaN with a payload
  array.data[3] = 0x8000; // -0.0
  addScalar(array, "bf16", 1.0);
  EXPECT_EQ(array.data[0], toBf16(bitsOf(1.0f)));
  EXPECT_EQ(array.data[1], toBf16(bitsOf(1.0078125f)));
  EXPECT_EQ(array.data[2], 0x7fc1);
  EXPECT_EQ(array.data[3], toBf16(bitsOf(1.0f)));
}

} // namespace
