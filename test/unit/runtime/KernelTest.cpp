//===- KernelTest.cpp - Kernels of a tile against naive loops -------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/device/HostKernels.h"
#include "codegen/device/PackFormat.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace delta::device;

namespace {

/// A box of up to four loops with a source layout and an image.
struct BoxCase {
  std::vector<int64_t> extent, source, image;
  uint32_t tileRuns, tileColumns;
};

const BoxCase BoxCases[] = {
    {{1}, {1}, {1}, 1, 1},
    {{67}, {1}, {1}, 1, 67},
    {{131}, {1}, {2}, 1, 33},
    {{7, 5}, {5, 1}, {5, 1}, 7, 5},
    {{7, 200}, {211, 1}, {1, 7}, 3, 64},
    {{3, 4, 33}, {4 * 40, 40, 1}, {33, 99, 1}, 5, 33},
    {{2, 3, 2, 17}, {300, 40, 19, 1}, {17, 204, 102, 1}, 4, 9},
    {{40, 1}, {3, 1}, {1, 1}, 16, 1},
};

delta_box_t boxOf(const BoxCase &from, int64_t sourceOffset) {
  delta_box_t box = {};
  box.num_loops = uint32_t(from.extent.size());
  for (uint32_t loop = 0; loop < box.num_loops; ++loop) {
    box.extent[loop] = from.extent[loop];
    box.source_stride[loop] = from.source[loop];
  }
  box.source_offset = sourceOffset;
  box.tile_runs = from.tileRuns;
  box.tile_columns = from.tileColumns;
  int64_t runs = 1;
  for (size_t loop = 0; loop + 1 < from.extent.size(); ++loop)
    runs *= from.extent[loop];
  box.num_tiles =
      (runs + box.tile_runs - 1) / box.tile_runs *
      ((from.extent.back() + box.tile_columns - 1) / box.tile_columns);
  return box;
}

delta_image_t imageOf(const BoxCase &from, int64_t offset) {
  delta_image_t image = {};
  image.offset = offset;
  for (size_t loop = 0; loop < from.image.size(); ++loop)
    image.stride[loop] = from.image[loop];
  return image;
}

/// (source element, image element) of every element of a box in tile order, one
/// list a tile, from the definition in delta_abi.h.
using Places = std::vector<std::pair<int64_t, int64_t>>;
std::vector<Places> tilesOf(const delta_box_t &box,
                            const delta_image_t &image) {
  std::vector<std::pair<int64_t, int64_t>> runs = {
      {box.source_offset, image.offset}};
  for (uint32_t loop = 0; loop + 1 < box.num_loops; ++loop) {
    std::vector<std::pair<int64_t, int64_t>> longer;
    for (auto [source, place] : runs)
      for (int64_t i = 0; i < box.extent[loop]; ++i)
        longer.push_back({source + i * box.source_stride[loop],
                          place + i * image.stride[loop]});
    runs = longer;
  }
  std::vector<Places> tiles;
  int64_t columns = box.extent[box.num_loops - 1];
  int64_t step = image.stride[box.num_loops - 1];
  for (size_t run = 0; run < runs.size(); run += box.tile_runs)
    for (int64_t column = 0; column < columns; column += box.tile_columns) {
      tiles.emplace_back();
      for (size_t r = run; r < runs.size() && r < run + box.tile_runs; ++r)
        for (int64_t c = column; c < columns && c < column + box.tile_columns;
             ++c)
          tiles.back().push_back(
              {runs[r].first + c, runs[r].second + c * step});
    }
  return tiles;
}

template <typename Element> class KernelTest : public testing::Test {
protected:
  using Source = typename Element::Source;
  using Bits = typename Element::Bits;
  static constexpr int64_t Size = 4096;

  template <typename T> static std::vector<T> randomOf(uint64_t key) {
    std::vector<T> values(Size);
    for (int64_t i = 0; i < Size; ++i)
      values[size_t(i)] = T(weight(key, i));
    return values;
  }
  static std::vector<Bits> random(uint64_t key) { return randomOf<Bits>(key); }
  static std::vector<Source> randomSource(uint64_t key) {
    return randomOf<Source>(key);
  }
};

using Elements = testing::Types<Bf16, Fp16, Fp32, Int64, Widened<Bf16>,
                                Widened<Fp16>, Narrowed<Bf16>, Narrowed<Fp16>>;
TYPED_TEST_SUITE(KernelTest, Elements);

} // namespace

TYPED_TEST(KernelTest, GatherDiffAndAdvanceAgreeWithTheDefinition) {
  using Bits = typename TestFixture::Bits;
  delta_host_kernels_t kernels = hostKernels<TypeParam>();
  for (const BoxCase &boxCase : BoxCases)
    for (int64_t offset : {0, 1, 3}) {
      delta_box_t box = boxOf(boxCase, offset);
      auto tiles = tilesOf(box, imageOf(boxCase, 0));
      ASSERT_EQ(int64_t(tiles.size()), box.num_tiles);
      std::vector<typename TestFixture::Source> source = this->randomSource(7);
      int64_t before = 0;
      for (size_t tile = 0; tile < tiles.size(); ++tile) {
        size_t n = tiles[tile].size();
        ASSERT_EQ(tileOf(box, int64_t(tile)).numElements(), n);
        EXPECT_EQ(elementsBefore(box, int64_t(tile)), before);
        before += int64_t(n);
        for (delta_value_op_t op :
             {delta_value_op_t(DELTA_VALUE_ID),
              delta_value_op_t(DELTA_VALUE_ADD_ONE),
              DELTA_VALUE_NEG_EXP | DELTA_VALUE_VIA(DELTA_BF16),
              delta_value_op_t(DELTA_VALUE_PLUS_ONE)}) {
          // `snapshot` is one element off its alignment to 16 bytes.
          std::vector<Bits> memory(n + 1), now(n);
          Bits *snapshot = memory.data() + 1;
          for (size_t i = 0; i < n; ++i)
            now[i] =
                applyOp<TypeParam>(source[size_t(tiles[tile][i].first)], op);
          kernels.gather(&box, int64_t(tile), source.data(), op, snapshot);
          EXPECT_TRUE(std::equal(now.begin(), now.end(), snapshot));
          for (unsigned every : {0u, 1u, 2u, 7u, 64u}) {
            std::vector<uint16_t> wanted, offsets(n);
            std::vector<Bits> values(n);
            for (size_t i = 0; every && i < n; i += every) {
              snapshot[i] = Bits(~now[i]);
              wanted.push_back(uint16_t(i));
            }
            uint32_t count =
                kernels.diff(&box, int64_t(tile), source.data(), op, snapshot,
                             offsets.data(), values.data());
            ASSERT_EQ(count, wanted.size());
            if (isDense(count, uint32_t(n))) {
              // Counted only; what is sent is the whole tile.
              kernels.advance(snapshot, nullptr, now.data(), uint32_t(n));
              continue;
            }
            offsets.resize(count);
            EXPECT_EQ(offsets, wanted);
            for (uint32_t i = 0; i < count; ++i)
              EXPECT_EQ(values[i], now[offsets[i]]);
            kernels.advance(snapshot, offsets.data(), values.data(), count);
            EXPECT_TRUE(std::equal(now.begin(), now.end(), snapshot));
          }
        }
      }
      EXPECT_EQ(elementsBefore(box, box.num_tiles), before);
    }
}

TYPED_TEST(KernelTest, ScatterAndCompareAgreeWithTheDefinition) {
  using Bits = typename TestFixture::Bits;
  delta_host_kernels_t kernels = hostKernels<TypeParam>();
  for (const BoxCase &boxCase : BoxCases)
    for (unsigned every : {0u, 1u, 3u, 50u}) {
      delta_box_t box = boxOf(boxCase, 0);
      delta_image_t image = imageOf(boxCase, 2);
      auto tiles = tilesOf(box, image);
      std::vector<Bits> destination = this->random(3), wanted = destination;
      for (size_t tile = 0; tile < tiles.size(); ++tile) {
        std::vector<uint16_t> offsets;
        std::vector<Bits> values;
        for (size_t i = 0; i < tiles[tile].size(); i += every ? every : 1) {
          offsets.push_back(uint16_t(i));
          values.push_back(Bits(weight(11, int64_t(tile * 1000 + i))));
          wanted[size_t(tiles[tile][i].second)] = values.back();
        }
        const uint16_t *list = every ? offsets.data() : nullptr;
        kernels.scatter(&box, int64_t(tile), &image, list, values.data(),
                        uint32_t(values.size()), destination.data());
        uint32_t first = 0;
        EXPECT_EQ(kernels.compare(&box, int64_t(tile), &image, list,
                                  values.data(), uint32_t(values.size()),
                                  destination.data(), &first),
                  0u);
        size_t planted = values.size() / 2;
        values[planted] ^= 1;
        EXPECT_EQ(kernels.compare(&box, int64_t(tile), &image, list,
                                  values.data(), uint32_t(values.size()),
                                  destination.data(), &first),
                  1u);
        EXPECT_EQ(first, planted);
      }
      EXPECT_EQ(destination, wanted);
    }
}

TYPED_TEST(KernelTest, FingerprintsAgreeWithTheDefinition) {
  using Bits = typename TestFixture::Bits;
  delta_host_kernels_t kernels = hostKernels<TypeParam>();
  for (const BoxCase &boxCase : BoxCases)
    for (int64_t columns : {1, 7, 33, 5, 1000}) {
      delta_box_t box = boxOf(boxCase, 1);
      delta_image_t neutral = imageOf(boxCase, 4), image = imageOf(boxCase, 9);
      std::vector<typename TestFixture::Source> source = this->randomSource(7);
      std::vector<Bits> held = this->random(8);
      delta_position_t position = {neutral.offset, neutral.stride, columns,
                                   0x1111, 0x2222};
      auto tiles = tilesOf(box, neutral);
      for (size_t tile = 0; tile < tiles.size(); ++tile) {
        const delta_value_op_t op =
            tile % 2 ? DELTA_VALUE_NEG_EXP : DELTA_VALUE_ADD_ONE;
        uint64_t fromSource = 0, fromImage = 0;
        for (auto [element, place] : tiles[tile]) {
          uint64_t both =
              weight(0x1111, place / columns) * weight(0x2222, place % columns);
          auto bits = source[size_t(element)];
          fromSource += applyOp<TypeParam>(bits, op) * both;
          fromImage += held[size_t(place + 5)] * both;
        }
        EXPECT_EQ(kernels.fingerprint(&box, int64_t(tile), nullptr,
                                      source.data(), op, &position),
                  fromSource);
        EXPECT_EQ(kernels.fingerprint(&box, int64_t(tile), &image, held.data(),
                                      DELTA_VALUE_ADD_ONE, &position),
                  fromImage);
      }
    }
}

/// Long stretches take every path of the compare: whole steps, steps that
/// differ, tails.
TYPED_TEST(KernelTest, ListsChangesAtEveryPlaceAndLength) {
  using Bits = typename TestFixture::Bits;
  for (int64_t size : {1, 15, 16, 31, 32, 33, 64, 100, 257})
    for (int64_t changed = 0; changed < size; ++changed) {
      std::vector<Bits> now = this->random(5), before = now;
      before[size_t(changed)] ^= Bits(1) << (sizeof(Bits) * 8 - 1);
      std::vector<uint16_t> offsets(static_cast<size_t>(size));
      std::vector<Bits> values(static_cast<size_t>(size));
      ChangeList<Bits> list = {offsets.data(), values.data(), 1000, 0};
      listChanges(now.data(), before.data(), size, 3, list);
      ASSERT_EQ(list.count, 1u);
      EXPECT_EQ(offsets[0], changed + 3);
      EXPECT_EQ(values[0], now[size_t(changed)]);
    }
}

//===----------------------------------------------------------------------===//
// Index functions
//===----------------------------------------------------------------------===//

TEST(SmallDivisorTest, IsExactForAllTiles) {
  for (uint32_t divisor : {1u, 2u, 3u, 7u, 10u, 255u, 256u, 257u, 641u, 2048u,
                           21845u, 32767u, 32768u, 65535u, 65536u}) {
    SmallDivisor by = SmallDivisor::of(divisor);
    for (uint32_t value = 0; value < 65536; ++value)
      ASSERT_EQ(by.divide(value), value / divisor) << value << "/" << divisor;
  }
}

TEST(RunCursorTest, StepsAndJumpsAlike) {
  delta_box_t box = boxOf(BoxCases[6], 5);
  Layout source = Layout::source(box);
  RunCursor stepped(box, 0);
  for (int64_t run = 0; run < numRuns(box); ++run, stepped.next()) {
    EXPECT_EQ(RunCursor(box, run).begin(source), stepped.begin(source));
    for (int64_t to = run; to < numRuns(box); ++to) {
      RunCursor jumped(box, run);
      jumped.advanceTo(to);
      EXPECT_EQ(jumped.begin(source), RunCursor(box, to).begin(source));
    }
  }
}

TEST(PackFormatTest, PartsFollowEachOtherOnSixteenBytes) {
  SectionShape shape = {9, 3, 5, 13};
  EXPECT_EQ(shape.codesBegin(), 16u);
  EXPECT_EQ(shape.offsetsBegin(), 32u);
  EXPECT_EQ(shape.valuesBegin(), 48u);
  EXPECT_EQ(shape.numBytes(), 64u);
  EXPECT_FALSE(isDense(32768, 65536));
  EXPECT_TRUE(isDense(32769, 65536));
  EXPECT_TRUE(isDense(1, 1));
}

//===----------------------------------------------------------------------===//
// Value operations, against arithmetic in double
//===----------------------------------------------------------------------===//

namespace {

/// Value of a small float format; NaN excluded.
double decode(uint32_t bits, int exponentBits, int mantissaBits) {
  uint32_t mantissa = bits & ((1u << mantissaBits) - 1);
  int exponent = int(bits >> mantissaBits & ((1u << exponentBits) - 1));
  double sign = bits >> (exponentBits + mantissaBits) & 1 ? -1 : 1;
  int bias = (1 << (exponentBits - 1)) - 1;
  if (exponent == (1 << exponentBits) - 1)
    return sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(mantissa, 1 - bias - mantissaBits);
  return sign * std::ldexp((1u << mantissaBits) + mantissa,
                           exponent - bias - mantissaBits);
}

/// True if `bits` is the value of its format nearest to `exact`, ties to even.
void expectNearest(uint32_t bits, double exact, int exponentBits,
                   int mantissaBits, uint32_t input) {
  double value = decode(bits, exponentBits, mantissaBits);
  if (std::isinf(exact) || std::isinf(value)) {
    EXPECT_EQ(value, exact) << std::hex << input;
    return;
  }
  for (int neighbor : {-1, 1}) {
    if ((bits & ((1u << (exponentBits + mantissaBits)) - 1)) == 0)
      continue; // of a zero one neighbor is of the other sign
    double other =
        decode(bits + uint32_t(neighbor), exponentBits, mantissaBits);
    double mine = std::fabs(value - exact), theirs = std::fabs(other - exact);
    EXPECT_LE(mine, theirs) << std::hex << input;
    if (mine == theirs) {
      EXPECT_EQ(bits & 1, 0u) << std::hex << input;
    }
  }
}

} // namespace

TEST(ValueOpsTest, AddsOneToEveryBf16) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    uint16_t sum = Bf16::addOne(uint16_t(bits));
    if ((bits & 0x7fff) > 0x7f80)
      EXPECT_EQ(sum, bits | 0x40);
    else
      expectNearest(sum, decode(bits, 8, 7) + 1.0, 8, 7, bits);
  }
}

TEST(ValueOpsTest, AddsOneToEveryFp16) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    uint16_t sum = Fp16::addOne(uint16_t(bits));
    if ((bits & 0x7fff) > 0x7c00)
      EXPECT_EQ(sum, bits | 0x200);
    else
      expectNearest(sum, decode(bits, 5, 10) + 1.0, 5, 10, bits);
  }
}

TEST(ValueOpsTest, NarrowsEveryFp16Back) {
  for (uint32_t bits = 0; bits < 65536; ++bits)
    if ((bits & 0x7fff) <= 0x7c00) {
      EXPECT_EQ(Fp16::narrow(Fp16::widen(uint16_t(bits))), bits);
    }
}

namespace {

/// Formats by their delta_dtype_t.
struct Format {
  int exponentBits, mantissaBits;
};
constexpr Format Formats[] = {{}, {8, 7}, {5, 10}, {8, 23}};

/// `x` rounded to the format: to a multiple of its quantum there, ties to even.
double roundTo(delta_dtype_t type, double x) {
  const Format &format = Formats[type];
  if (x == 0 || std::isinf(x))
    return x;
  int bias = (1 << (format.exponentBits - 1)) - 1;
  int exponent = std::max(std::ilogb(x), 1 - bias) - format.mantissaBits;
  double rounded =
      std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
  return std::fabs(rounded) >= std::ldexp(1.0, bias + 1)
             ? std::copysign(INFINITY, x)
             : rounded;
}

double decodeAs(delta_dtype_t type, uint32_t bits) {
  return decode(bits, Formats[type].exponentBits, Formats[type].mantissaBits);
}

/// The steps of an op in doubles. Sums with 1 are exact where it matters.
double stepsOf(delta_dtype_t from, double x, delta_value_op_t op,
               delta_dtype_t to) {
  delta_dtype_t type = from;
  if (op & DELTA_VALUE_ADD_ONE)
    x = roundTo(type, x + 1);
  if (DELTA_VALUE_VIA_TYPE(op)) {
    type = DELTA_VALUE_VIA_TYPE(op);
    x = roundTo(type, x);
  }
  if (op & DELTA_VALUE_NEG_EXP) {
    type = DELTA_FP32;
    x = roundTo(type, -std::exp(x));
  }
  if (op & DELTA_VALUE_PLUS_ONE)
    x = roundTo(type, x + 1);
  return roundTo(to, x);
}

/// All ops of an engine on some bits, against doubles.
template <typename Element>
void expectSteps(delta_dtype_t from, delta_dtype_t to, uint32_t bits) {
  double x = decodeAs(from, bits);
  for (delta_value_op_t forms = 0; forms < 8; ++forms)
    for (delta_dtype_t via : {0u, 1u, 2u, 3u}) {
      delta_value_op_t op = forms | DELTA_VALUE_VIA(via);
      uint32_t found = applyOp<Element>(typename Element::Source(bits), op);
      double wanted = stepsOf(from, x, op, to);
      double value = decodeAs(to, found);
      ASSERT_TRUE(value == wanted &&
                  std::signbit(value) == std::signbit(wanted))
          << std::hex << bits << " op " << op << ": " << found << ", wanted "
          << wanted;
    }
}

/// Bits of every kind: all exponents, with few and with many mantissa bits.
std::vector<uint32_t> specialFp32() {
  std::vector<uint32_t> out;
  for (uint32_t sign : {0u, 0x80000000u})
    for (uint32_t exponent = 0; exponent < 256; ++exponent)
      for (uint32_t mantissa :
           {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0x2aaaaau, 0x400000u, 0x7fffffu})
        if (exponent < 255 || mantissa == 0)
          out.push_back(sign | exponent << 23 | mantissa);
  // Around the ends of exp in fp32: 88.7, -87.3, -103.97.
  for (uint32_t near : {0x42b17218u, 0xc2aeac50u, 0xc2cff1b5u})
    for (uint32_t i = 0; i < 64; ++i)
      out.push_back(near - 32 + i);
  for (int64_t i = 0; i < 20000; ++i)
    out.push_back(bitsOfFloat(float(int32_t(weight(17, i))) * 0x1p-24f));
  return out;
}

} // namespace

TEST(ValueOpsTest, StepsOfEveryOpAgreeWithDoubles) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    if ((bits & 0x7fff) <= 0x7f80) {
      expectSteps<Bf16>(DELTA_BF16, DELTA_BF16, bits);
      expectSteps<Widened<Bf16>>(DELTA_BF16, DELTA_FP32, bits);
    }
    if ((bits & 0x7fff) <= 0x7c00) {
      expectSteps<Fp16>(DELTA_FP16, DELTA_FP16, bits);
      expectSteps<Widened<Fp16>>(DELTA_FP16, DELTA_FP32, bits);
    }
  }
  for (uint32_t bits : specialFp32()) {
    expectSteps<Fp32>(DELTA_FP32, DELTA_FP32, bits);
    expectSteps<Narrowed<Bf16>>(DELTA_FP32, DELTA_BF16, bits);
    expectSteps<Narrowed<Fp16>>(DELTA_FP32, DELTA_FP16, bits);
  }
}

TEST(ValueOpsTest, ANanKeepsItsSignAndPayloadInEveryStep) {
  const delta_value_op_t negExp = DELTA_VALUE_NEG_EXP;
  EXPECT_EQ(negExpOfBits(0xff801234u), 0xffc01234u);
  EXPECT_EQ(applyOp<Widened<Bf16>>(0xff85, negExp), 0xffc50000u);
  EXPECT_EQ(applyOp<Bf16>(0x7f81, negExp), 0x7fc1u);
  EXPECT_EQ(applyOp<Bf16>(0xff81, DELTA_VALUE_PLUS_ONE), 0xffc1u);
  EXPECT_EQ(applyOp<Fp16>(0x7d55, negExp | DELTA_VALUE_PLUS_ONE), 0x7f55u);
  EXPECT_EQ(applyOp<Narrowed<Bf16>>(0x7f9234ffu, negExp), 0x7fd2u);
  EXPECT_EQ(applyOp<Fp32>(0x7f9234ffu, DELTA_VALUE_VIA(DELTA_BF16)),
            0x7fd20000u);
  EXPECT_EQ(applyOp<Fp32>(0xff9234ffu, DELTA_VALUE_VIA(DELTA_FP16)),
            0xffd22000u);
}

TEST(ValueOpsTest, NegExpAtItsEnds) {
  EXPECT_EQ(negExpOfBits(0x00000000u), 0xbf800000u); // exp(0) = 1
  EXPECT_EQ(negExpOfBits(0x80000000u), 0xbf800000u);
  EXPECT_EQ(negExpOfBits(0x7f800000u), 0xff800000u); // inf -> -inf
  EXPECT_EQ(negExpOfBits(0xff800000u), 0x80000000u); // -inf -> -0
  EXPECT_EQ(negExpOfBits(0x00000001u), 0xbf800000u);
  EXPECT_EQ(negExpOfBits(0x42b17217u), 0xff7fff84u); // the last finite one
  EXPECT_EQ(negExpOfBits(0x42b17218u), 0xff800000u);
  EXPECT_EQ(negExpOfBits(0xc2cff1b4u), 0x80000001u); // the last that is not 0
  EXPECT_EQ(negExpOfBits(0xc2cff1b5u), 0x80000000u);
}

TEST(ValueOpsTest, KnownValuesOfTheReference) {
  EXPECT_EQ(Bf16::addOne(0x3a83), 0x3f80); // 0.001 -> 1.0
  EXPECT_EQ(Bf16::addOne(0x3b83), 0x3f81); // 0.004 -> 1.0078125
  EXPECT_EQ(Bf16::addOne(0x8000), 0x3f80); // -0.0 -> 1.0
  EXPECT_EQ(Bf16::addOne(0xbf80), 0x0000); // -1.0 -> +0.0
  EXPECT_EQ(Fp32::addOne(0x7f800001u), 0x7fc00001u);
  EXPECT_EQ(Fp32::addOne(0x33800000u), 0x3f800000u); // 2^-24: a tie
}
