//===- Moves.h - The ops of the reference program, on arrays ----*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Each op as data movement over row-major arrays of 16-, 32- or 64-bit
/// elements. Operands are assumed to fit (Interpreter::create checks a program
/// once); nothing here knows of parameters, ranks or names.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_MOVES_H
#define DELTA_TOOLS_REFERENCE_MOVES_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace delta::reference {

using Shape = std::vector<int64_t>;

/// Product of the sizes.
int64_t count(const Shape &shape);

/// Product of shape[begin], ..., shape[end - 1].
int64_t count(const Shape &shape, size_t begin, size_t end);

/// "[2, 3]".
std::string toText(const Shape &shape);

/// Sizes, strides or indices of memory's dimensions in the order in which they
/// are shown: number view[i] becomes number i. An empty view changes nothing.
Shape viewed(const Shape &memory, const std::vector<int64_t> &view);

/// Distance of neighbors in each dimension of a row-major array.
Shape stridesOf(const Shape &shape);

/// The multi-index of a row-major element.
Shape indexOf(const Shape &shape, int64_t element);

/// The same, "[1, 0]".
std::string elementText(const Shape &shape, int64_t element);

/// One row-major array. Its elements start uninitialized.
template <class T> struct Array {
  Array() = default;
  explicit Array(Shape sizes)
      : shape(std::move(sizes)), data(new T[size_t(count(shape))]) {}
  int64_t size() const { return count(shape); }

  Shape shape;
  std::unique_ptr<T[]> data;
};

/// How a parameter is cut into ways along one dimension. Each section is cut
/// evenly; a way holds its part of each, one section after the other. No
/// sections: the whole dimension is one. sectionWays, where given, are the
/// distinct parts of each section; `ways / sectionWays[i]` neighboring ways
/// hold the same part of section i.
struct Split {
  int64_t dim = 0;
  int64_t ways = 1;
  std::vector<int64_t> sections;
  std::vector<int64_t> sectionWays;
};

/// Shape of one way.
Shape shardShape(const Shape &whole, const Split &split);

/// Copies way `way` out of the whole.
template <class T>
void cutShard(const T *whole, const Shape &shape, const Split &split,
              int64_t way, T *shard);

/// Copies way `way` into the whole: the "unshard" op, one operand at a time.
template <class T>
void joinShard(const T *shard, const Shape &shape, const Split &split,
               int64_t way, T *whole);

template <class T>
Array<T> transpose(const Array<T> &in, const std::vector<int64_t> &permutation);

template <class T>
std::vector<Array<T>> split(const Array<T> &in, int64_t dim,
                            const std::vector<int64_t> &sizes);

template <class T>
Array<T> concat(const std::vector<const Array<T> *> &in, int64_t dim);

template <class T>
Array<T> interleave(const std::vector<const Array<T> *> &in, int64_t dim);

template <class T> Array<T> take(Array<T> in, int64_t dim, int64_t size);

/// Adds in the storage type `dtype`: the exact sum rounded once, to nearest
/// even. A NaN keeps its payload and becomes quiet.
template <class T>
void addScalar(Array<T> &array, const std::string &dtype, double scalar);

/// Converts the bits of an element from fp32 to a 16-bit type, to nearest even,
/// or the other way; a NaN keeps what fits of its payload and becomes quiet
/// where bits are lost. Null for other types, equal ones among them.
using CastFunction = uint64_t (*)(uint64_t bits);
CastFunction castOf(const std::string &from, const std::string &to);

/// Size of an element of `dtype`, 0 for an unknown one.
int64_t byteWidth(const std::string &dtype);

/// Bits of a float rounded to nearest even; NaN payloads keep their high bits.
uint16_t toBf16(uint32_t bits);
uint16_t toFp16(uint32_t bits);

/// Bits of the float with the same value.
uint32_t fromFp16(uint16_t bits);

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_MOVES_H
