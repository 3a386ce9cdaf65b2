//===- Moves.cpp - The ops of the reference program, on arrays ------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Every op comes down to copies of contiguous runs, or to a strided copy of
/// two loops where an inner dimension moves.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/Moves.h"

#include <algorithm>
#include <cstring>

namespace delta::reference {

template <class T> static void copy(T *to, const T *from, int64_t size) {
  std::memcpy(to, from, size_t(size) * sizeof(T));
}

//===--- shards -----------------------------------------------------------===//

Shape shardShape(const Shape &whole, const Split &split) {
  Shape shape = whole;
  if (split.ways == 1)
    return shape;
  int64_t &size = shape[size_t(split.dim)];
  if (split.sectionWays.empty()) {
    size /= split.ways;
    return shape;
  }
  size = 0;
  for (size_t i = 0; i < split.sections.size(); ++i)
    size += split.sections[i] / split.sectionWays[i];
  return shape;
}

/// Calls run(offset in the whole, offset in the shard, size) for every
/// contiguous run of a way.
template <class F>
static void forEachRun(const Shape &shape, const Split &split, int64_t way,
                       const F &run) {
  if (split.ways == 1)
    return run(int64_t(0), int64_t(0), count(shape));
  const size_t dim = size_t(split.dim);
  const int64_t outer = count(shape, 0, dim);
  const int64_t inner = count(shape, dim + 1, shape.size());
  std::vector<int64_t> sections = split.sections;
  if (sections.empty())
    sections.push_back(shape[dim]);
  int64_t shardOffset = 0;
  for (int64_t o = 0; o < outer; ++o) {
    int64_t sectionOffset = o * shape[dim] * inner;
    for (size_t i = 0; i < sections.size(); ++i) {
      const int64_t parts =
          split.sectionWays.empty() ? split.ways : split.sectionWays[i];
      const int64_t size = sections[i] / parts * inner;
      run(sectionOffset + way / (split.ways / parts) * size, shardOffset, size);
      sectionOffset += sections[i] * inner;
      shardOffset += size;
    }
  }
}

template <class T>
void cutShard(const T *whole, const Shape &shape, const Split &split,
              int64_t way, T *shard) {
  forEachRun(shape, split, way, [&](int64_t from, int64_t to, int64_t size) {
    copy(shard + to, whole + from, size);
  });
}

template <class T>
void joinShard(const T *shard, const Shape &shape, const Split &split,
               int64_t way, T *whole) {
  forEachRun(shape, split, way, [&](int64_t to, int64_t from, int64_t size) {
    copy(whole + to, shard + from, size);
  });
}

//===--- transpose --------------------------------------------------------===//

namespace {
/// A loop of a strided copy into a row-major result.
struct Loop {
  int64_t size;
  int64_t from; ///< operand stride
  int64_t to;   ///< result stride
};
} // namespace

/// The loops of a transposition, outermost first, with dimensions that stay
/// neighbors joined.
static std::vector<Loop> loopsOf(const Shape &in,
                                 const std::vector<int64_t> &permutation) {
  const Shape strides = stridesOf(in);
  std::vector<Loop> loops;
  for (const int64_t dim : permutation) {
    const Loop next = {in[size_t(dim)], strides[size_t(dim)], 1};
    if (next.size == 1)
      continue;
    if (!loops.empty() && loops.back().from == next.from * next.size)
      loops.back() = {loops.back().size * next.size, next.from, 1};
    else
      loops.push_back(next);
  }
  int64_t stride = 1;
  for (size_t i = loops.size(); i-- > 0; stride *= loops[i].size)
    loops[i].to = stride;
  return loops;
}

/// Copies two loops in blocks that fit the cache.
template <class T>
static void copyBlocked(const T *from, T *to, const Loop &a, const Loop &b) {
  constexpr int64_t kBlock = 32;
  for (int64_t i = 0; i < a.size; i += kBlock)
    for (int64_t j = 0; j < b.size; j += kBlock)
      for (int64_t y = i, yEnd = std::min(i + kBlock, a.size); y < yEnd; ++y)
        for (int64_t x = j, xEnd = std::min(j + kBlock, b.size); x < xEnd; ++x)
          to[y * a.to + x * b.to] = from[y * a.from + x * b.from];
}

template <class T>
static void copyLoops(const T *from, T *to, const std::vector<Loop> &loops,
                      size_t depth) {
  const size_t left = loops.size() - depth;
  if (left == 0) {
    *to = *from;
  } else if (left == 1 && loops[depth].from == 1) {
    copy(to, from, loops[depth].size);
  } else if (left == 1) {
    copyBlocked(from, to, Loop{1, 0, 0}, loops[depth]);
  } else if (left == 2 && loops[depth + 1].from != 1) {
    copyBlocked(from, to, loops[depth], loops[depth + 1]);
  } else {
    for (int64_t i = 0; i < loops[depth].size; ++i)
      copyLoops(from + i * loops[depth].from, to + i * loops[depth].to, loops,
                depth + 1);
  }
}

template <class T>
Array<T> transpose(const Array<T> &in,
                   const std::vector<int64_t> &permutation) {
  Shape shape;
  for (const int64_t dim : permutation)
    shape.push_back(in.shape[size_t(dim)]);
  Array<T> out(std::move(shape));
  if (out.size() != 0)
    copyLoops(in.data.get(), out.data.get(), loopsOf(in.shape, permutation), 0);
  return out;
}

//===--- split, concat, interleave, take ----------------------------------===//

template <class T>
std::vector<Array<T>> split(const Array<T> &in, int64_t dim,
                            const std::vector<int64_t> &sizes) {
  const size_t at = size_t(dim);
  const int64_t outer = count(in.shape, 0, at);
  const int64_t inner = count(in.shape, at + 1, in.shape.size());
  std::vector<Array<T>> outs;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    Shape shape = in.shape;
    shape[at] = size;
    Array<T> out(std::move(shape));
    const int64_t run = size * inner;
    for (int64_t o = 0; o < outer; ++o)
      copy(out.data.get() + o * run,
           in.data.get() + (o * in.shape[at] + begin) * inner, run);
    begin += size;
    outs.push_back(std::move(out));
  }
  return outs;
}

template <class T>
Array<T> concat(const std::vector<const Array<T> *> &in, int64_t dim) {
  const size_t at = size_t(dim);
  Shape shape = in.front()->shape;
  shape[at] = 0;
  for (const Array<T> *array : in)
    shape[at] += array->shape[at];
  Array<T> out(std::move(shape));
  const int64_t outer = count(out.shape, 0, at);
  const int64_t inner = count(out.shape, at + 1, out.shape.size());
  int64_t begin = 0;
  for (const Array<T> *array : in) {
    const int64_t run = array->shape[at] * inner;
    for (int64_t o = 0; o < outer; ++o)
      copy(out.data.get() + (o * out.shape[at] + begin) * inner,
           array->data.get() + o * run, run);
    begin += array->shape[at];
  }
  return out;
}

template <class T>
Array<T> interleave(const std::vector<const Array<T> *> &in, int64_t dim) {
  const size_t at = size_t(dim);
  const int64_t ways = int64_t(in.size());
  Shape shape = in.front()->shape;
  shape[at] *= ways;
  Array<T> out(std::move(shape));
  // Rows over the dimensions up to `dim`: row r of operand j is row r*ways + j.
  const int64_t rows = count(in.front()->shape, 0, at + 1);
  const int64_t inner = count(out.shape, at + 1, out.shape.size());
  for (int64_t j = 0; j < ways; ++j) {
    const T *from = in[size_t(j)]->data.get();
    T *to = out.data.get() + j * inner;
    if (inner == 1)
      for (int64_t r = 0; r < rows; ++r)
        to[r * ways] = from[r];
    else
      for (int64_t r = 0; r < rows; ++r)
        copy(to + r * ways * inner, from + r * inner, inner);
  }
  return out;
}

template <class T> Array<T> take(Array<T> in, int64_t dim, int64_t size) {
  const size_t at = size_t(dim);
  const int64_t outer = count(in.shape, 0, at);
  const int64_t inner = count(in.shape, at + 1, in.shape.size());
  const int64_t from = in.shape[at] * inner, to = size * inner;
  // Runs only move towards the front, so the operand's memory is kept.
  for (int64_t o = 1; o < outer; ++o)
    std::memmove(in.data.get() + o * to, in.data.get() + o * from,
                 size_t(to) * sizeof(T));
  in.shape[at] = size;
  return in;
}

//===--- values -----------------------------------------------------------===//

int64_t byteWidth(const std::string &dtype) {
  if (dtype == "bf16" || dtype == "fp16")
    return 2;
  if (dtype == "fp32")
    return 4;
  return dtype == "i64" ? 8 : 0;
}

uint16_t toBf16(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return uint16_t(bits >> 16 | ((bits & 0x007f0000u) ? 0 : 0x40u));
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

uint16_t toFp16(uint32_t bits) {
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return uint16_t(sign | 0x7c00u | (magnitude >> 13 & 0x3ffu) | 0x200u);
  if (magnitude >= 0x477ff000u) // rounds to 65536 or more
    return uint16_t(sign | 0x7c00u);
  // Half an ulp and the shift that drops the bits below it: normal numbers
  // lose 13 bits, subnormal ones more, down to 2^-25, which rounds to zero.
  const int32_t exponent = int32_t(magnitude >> 23) - 127;
  if (exponent < -25)
    return uint16_t(sign);
  uint32_t value = magnitude - (112u << 23);
  uint32_t shift = 13;
  if (exponent < -14) {
    value = (magnitude & 0x7fffffu) | 0x800000u;
    shift = uint32_t(-1 - exponent);
  }
  const uint32_t even = value >> shift & 1;
  return uint16_t(sign | (value + (1u << (shift - 1)) - 1 + even) >> shift);
}

uint32_t fromFp16(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u)
    return sign | 0x7f800000u | (magnitude & 0x3ffu) << 13;
  if (magnitude >= 0x400u)
    return sign | ((magnitude << 13) + (112u << 23));
  const float value = float(magnitude) * 0x1p-24f;
  std::memcpy(&magnitude, &value, sizeof(value));
  return sign | magnitude;
}

/// Rounding the sum twice, to float and then to the storage type, is rounding
/// it once: a float has more than twice the significant bits of either 16-bit
/// type, and a double of a float.
static uint32_t addFloat(uint32_t bits, double scalar) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  value = float(double(value) + scalar);
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

static bool isNaN(uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

static uint32_t addFloatOrQuiet(uint32_t bits, double scalar) {
  return isNaN(bits) ? bits | 0x400000u : addFloat(bits, scalar);
}

CastFunction castOf(const std::string &from, const std::string &to) {
  if (to == "fp32") {
    if (from == "bf16")
      return [](uint64_t bits) { return bits << 16; };
    if (from == "fp16")
      return [](uint64_t bits) { return uint64_t(fromFp16(uint16_t(bits))); };
  }
  if (from == "fp32") {
    if (to == "bf16")
      return [](uint64_t bits) {
        const auto value = uint32_t(bits);
        return uint64_t(isNaN(value) ? value >> 16 | 0x40u : toBf16(value));
      };
    if (to == "fp16")
      return [](uint64_t bits) { return uint64_t(toFp16(uint32_t(bits))); };
  }
  return nullptr;
}

template <class T>
void addScalar(Array<T> &array, const std::string &dtype, double scalar) {
  const int64_t size = array.size();
  T *data = array.data.get();
  if (dtype == "bf16")
    for (int64_t i = 0; i < size; ++i)
      data[i] = T(toBf16(addFloatOrQuiet(uint32_t(data[i]) << 16, scalar)));
  else if (dtype == "fp16")
    for (int64_t i = 0; i < size; ++i)
      data[i] = T(toFp16(addFloatOrQuiet(fromFp16(uint16_t(data[i])), scalar)));
  else if (dtype == "fp32")
    for (int64_t i = 0; i < size; ++i)
      data[i] = T(addFloatOrQuiet(uint32_t(data[i]), scalar));
  else
    for (int64_t i = 0; i < size; ++i)
      data[i] = T(data[i] + T(int64_t(scalar)));
}

//===--- instantiations ---------------------------------------------------===//

// NOLINTBEGIN(bugprone-macro-parentheses): the argument is a type.
#define DELTA_INSTANTIATE(T)                                                   \
  template void cutShard(const T *, const Shape &, const Split &, int64_t,     \
                         T *);                                                 \
  template void joinShard(const T *, const Shape &, const Split &, int64_t,    \
                          T *);                                                \
  template Array<T> transpose(const Array<T> &, const std::vector<int64_t> &); \
  template std::vector<Array<T>> split(const Array<T> &, int64_t,              \
                                       const std::vector<int64_t> &);          \
  template Array<T> concat(const std::vector<const Array<T> *> &, int64_t);    \
  template Array<T> interleave(const std::vector<const Array<T> *> &,          \
                               int64_t);                                       \
  template Array<T> take(Array<T>, int64_t, int64_t);                          \
  template void addScalar(Array<T> &, const std::string &, double);
DELTA_INSTANTIATE(uint16_t)
DELTA_INSTANTIATE(uint32_t)
DELTA_INSTANTIATE(uint64_t)
#undef DELTA_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

} // namespace delta::reference
