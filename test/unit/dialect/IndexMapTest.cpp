//===- IndexMapTest.cpp - The map algebra against a naive oracle ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/IndexMap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace delta;

namespace {

/// Every (source, destination) pair that the loops of a map visit.
std::vector<std::pair<int64_t, int64_t>> visit(const IndexMap &map) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const Piece &piece : map.pieces) {
    std::vector<std::pair<int64_t, int64_t>> part = {
        {piece.source, piece.destination}};
    for (const Loop &loop : piece.loops) {
      std::vector<std::pair<int64_t, int64_t>> more;
      for (auto [s, d] : part)
        for (int64_t k = 0; k < loop.extent; ++k)
          more.push_back({s + k * loop.source, d + k * loop.destination});
      part = std::move(more);
    }
    pairs.insert(pairs.end(), part.begin(), part.end());
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

/// Pairs of `a` then `b`, by looking every element up.
std::vector<std::pair<int64_t, int64_t>> naiveThen(const IndexMap &a,
                                                   const IndexMap &b) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  auto second = visit(b);
  for (auto [s, m] : visit(a)) {
    auto it = std::lower_bound(second.begin(), second.end(),
                               std::make_pair(m, int64_t(-1)));
    if (it != second.end() && it->first == m)
      pairs.push_back({s, it->second});
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

/// Random one-to-one map out of the ops of the dialect, on `size` elements.
class Chain {
public:
  explicit Chain(uint32_t seed) : random(seed) {}
  int64_t pick(int64_t n) { return random() % n; }

  std::vector<int64_t> factor(int64_t size) {
    std::vector<int64_t> shape;
    while (size > 1 && shape.size() < 4) {
      std::vector<int64_t> divisors;
      for (int64_t d = 2; d <= size; ++d)
        if (size % d == 0)
          divisors.push_back(d);
      int64_t d = divisors[pick(divisors.size())];
      shape.push_back(d);
      size /= d;
    }
    if (size > 1 || shape.empty())
      shape.push_back(size);
    return shape;
  }

  IndexMap next(int64_t size) {
    std::vector<int64_t> shape = factor(size);
    int64_t dim = pick(shape.size());
    switch (pick(4)) {
    case 0: {
      std::vector<int64_t> permutation(shape.size());
      for (size_t i = 0; i < shape.size(); ++i)
        permutation[i] = i;
      std::shuffle(permutation.begin(), permutation.end(), random);
      return IndexMap::transpose(shape, permutation);
    }
    case 1: { // a slice
      int64_t from = pick(shape[dim]);
      int64_t count = 1 + pick(shape[dim] - from);
      return IndexMap::rows(shape, dim, from, count, 0, count);
    }
    case 2: { // a part of a concatenation
      int64_t to = pick(5);
      return IndexMap::rows(shape, dim, 0, shape[dim], to,
                            to + shape[dim] + pick(3));
    }
    default: // an operand of an interleave
      return IndexMap::rows(shape, dim, 0, shape[dim], pick(3), 3 * shape[dim],
                            3);
    }
  }

private:
  std::mt19937 random;
};

TEST(IndexMap, TransposeMovesEveryElement) {
  IndexMap map = IndexMap::transpose({2, 3, 4}, {2, 0, 1});
  // result[k][i][j] = operand[i][j][k]
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 4; ++k)
        EXPECT_EQ(map.image((i * 3 + j) * 4 + k), (k * 2 + i) * 3 + j);
  EXPECT_EQ(map.size(), 24);
}

TEST(IndexMap, RowsOfAMiddleDimension) {
  IndexMap map = IndexMap::rows({2, 5, 3}, 1, 1, 3, 4, 20, 2);
  for (int64_t o = 0; o < 2; ++o)
    for (int64_t r = 0; r < 5; ++r)
      for (int64_t c = 0; c < 3; ++c) {
        auto image = map.image((o * 5 + r) * 3 + c);
        if (r < 1 || r >= 4)
          EXPECT_FALSE(image);
        else
          EXPECT_EQ(image, (o * 20 + 4 + 2 * (r - 1)) * 3 + c);
      }
}

TEST(IndexMap, ComposesLikeTheOracleOnRandomChains) {
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    Chain chain(seed);
    IndexMap map = chain.next(1 + chain.pick(180));
    int64_t start = map.sourceSize;
    for (int step = 0; step < 3; ++step) {
      IndexMap next = chain.next(map.destinationSize);
      auto expected = naiveThen(map, next);
      auto composed = map.then(next);
      ASSERT_TRUE(composed) << "seed " << seed;
      ASSERT_EQ(visit(*composed), expected)
          << "seed " << seed << ": " << map.str() << " then " << next.str()
          << " gave " << composed->str();
      map = *composed;
      if (chain.pick(2))
        map.coalesce();
      ASSERT_EQ(visit(map), expected) << "seed " << seed;
    }
    ASSERT_EQ(map.sourceSize, start);
    auto pairs = visit(map);
    for (auto [s, d] : pairs)
      ASSERT_EQ(map.image(s), d) << "seed " << seed;
    auto back = visit(map.inverse());
    for (auto &pair : pairs)
      std::swap(pair.first, pair.second);
    std::sort(pairs.begin(), pairs.end());
    ASSERT_EQ(back, pairs) << "seed " << seed;
  }
}

TEST(IndexMap, ComposesWithAnInverseAcrossOtherCuts) {
  // Rows of one array cut by 3 ranks, then by 4, in mid-group.
  for (int64_t from = 0; from < 24; ++from)
    for (int64_t count = 1; from + count <= 24; ++count) {
      IndexMap shard = IndexMap::rows({24, 2}, 0, from, count, 0, count);
      IndexMap regroup = IndexMap::transpose({4, 2, 3, 2}, {1, 0, 2, 3});
      auto map = shard.inverse().then(regroup);
      ASSERT_TRUE(map);
      EXPECT_EQ(visit(*map), naiveThen(shard.inverse(), regroup));
      map->coalesce();
      EXPECT_EQ(visit(*map), naiveThen(shard.inverse(), regroup));
      EXPECT_LE(map->pieces.size(), 6u);
    }
}

TEST(IndexMap, PassagesAgreeInAllThreeArrays) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Chain chain(seed);
    IndexMap map = chain.next(1 + chain.pick(120));
    IndexMap next = chain.next(map.destinationSize);
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const Piece &piece : map.pieces) {
      std::vector<Passage> boxes;
      ASSERT_TRUE(passages(piece, next, boxes));
      for (const Passage &box : boxes) {
        struct At {
          int64_t first, between, last;
        };
        std::vector<At> all = {{box.first, box.between, box.last}};
        for (const Passage::Step &step : box.loops) {
          std::vector<At> more;
          for (At at : all)
            for (int64_t k = 0; k < step.extent; ++k)
              more.push_back({at.first + k * step.first,
                              at.between + k * step.between,
                              at.last + k * step.last});
          all = more;
        }
        for (At at : all) {
          ASSERT_EQ(map.image(at.first), at.between) << "seed " << seed;
          ASSERT_EQ(next.image(at.between), at.last) << "seed " << seed;
          pairs.push_back({at.first, at.last});
        }
      }
    }
    std::sort(pairs.begin(), pairs.end());
    ASSERT_EQ(pairs, naiveThen(map, next)) << "seed " << seed;
  }
}

TEST(IndexMap, CoalesceKeepsEveryImage) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    IndexMap map{64, 64, {}};
    for (int64_t i = 0; i < 64; ++i)
      if (random() % 4)
        map.pieces.push_back({i, (i % 8) * 8 + i / 8, {}});
    auto before = visit(map);
    size_t count = map.pieces.size();
    map.coalesce();
    EXPECT_EQ(visit(map), before);
    EXPECT_LT(map.pieces.size(), count);
  }
  IndexMap rows{64, 64, {}};
  for (int64_t i = 0; i < 64; ++i)
    rows.pieces.push_back({i, i, {}});
  rows.coalesce();
  EXPECT_EQ(rows.pieces, IndexMap::identity(64).pieces);
}

TEST(IndexMap, CompressAndExpandAreInverse) {
  ShardedMap even, uneven;
  for (int64_t way = 0; way < 6; ++way) {
    even.ways.push_back(IndexMap::rows({3, 4}, 0, 0, 3, 3 * way, 18));
    // Rows beyond 10 have no image: ways 3 and later are cut or empty.
    int64_t count = std::clamp<int64_t>(10 - 3 * way, 0, 3);
    uneven.ways.push_back(IndexMap::rows({3, 4}, 0, 0, count, 3 * way, 18));
  }
  EXPECT_EQ(even.compress().size(), 1u);
  EXPECT_EQ(uneven.compress().size(), 2u);
  for (const ShardedMap &map : {even, uneven})
    EXPECT_EQ(ShardedMap::expand(6, map.sourceSize(), map.destinationSize(),
                                 map.compress()),
              map);
}

TEST(Box, OverlapAgreesWithEnumeration) {
  std::mt19937 random(7);
  int some = 0, none = 0;
  for (int round = 0; round < 20000; ++round) {
    Box boxes[2];
    std::set<int64_t> elements[2];
    for (int i = 0; i < 2; ++i) {
      const int64_t strides[] = {24, 6, 2, 1};
      boxes[i].offset = random() % 40;
      std::vector<int64_t> at = {boxes[i].offset};
      for (int64_t stride : strides) {
        if (random() % 2)
          continue;
        int64_t extent = 1 + random() % 4;
        boxes[i].loops.push_back({extent, stride});
        std::vector<int64_t> more;
        for (int64_t base : at)
          for (int64_t k = 0; k < extent; ++k)
            more.push_back(base + k * stride);
        at = more;
      }
      elements[i].insert(at.begin(), at.end());
      if (isInjective(boxes[i])) {
        EXPECT_EQ(elements[i].size(), at.size());
      }
    }
    bool meets = std::any_of(
        elements[0].begin(), elements[0].end(),
        [&](int64_t element) { return elements[1].count(element); });
    int64_t common = -1;
    Overlap answer = overlap(boxes[0], boxes[1], common);
    if (answer == Overlap::Some) {
      ++some;
      EXPECT_TRUE(elements[0].count(common) && elements[1].count(common));
    } else if (answer == Overlap::None) {
      ++none;
      EXPECT_FALSE(meets);
    }
  }
  EXPECT_GT(some, 1000);
  EXPECT_GT(none, 1000);
}

} // namespace
