//===- Shapes.cpp - Sizes, strides and indices ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/reference/Moves.h"

namespace delta::reference {

int64_t count(const Shape &shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i)
    product *= shape[i];
  return product;
}

int64_t count(const Shape &shape) { return count(shape, 0, shape.size()); }

std::string toText(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Shape viewed(const Shape &memory, const std::vector<int64_t> &view) {
  if (view.empty())
    return memory;
  Shape shown;
  for (const int64_t dim : view)
    shown.push_back(memory[size_t(dim)]);
  return shown;
}

Shape stridesOf(const Shape &shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i])
    strides[i] = stride;
  return strides;
}

Shape indexOf(const Shape &shape, int64_t element) {
  Shape index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    index[i] = element % shape[i];
    element /= shape[i];
  }
  return index;
}

std::string elementText(const Shape &shape, int64_t element) {
  return toText(indexOf(shape, element));
}

} // namespace delta::reference
