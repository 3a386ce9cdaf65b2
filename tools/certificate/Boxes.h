//===- Boxes.h - Sets of array elements, and whether they meet --*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_CERTIFICATE_BOXES_H
#define DELTA_TOOLS_CERTIFICATE_BOXES_H

#include <cstdint>
#include <string>
#include <vector>

namespace delta::certificate {

/// The elements offset + k0*stride0 + k1*stride1 + ... with ki < extent_i.
struct Box {
  struct Loop {
    int64_t extent, stride;
  };
  int64_t offset = 0;
  std::vector<Loop> loops;
  std::string owner; ///< for messages
};

/// Checks that the boxes hold every element of [0, size) exactly once. Returns
/// an empty text, or what is wrong with one element or box named.
std::string partition(std::vector<Box> boxes, int64_t size);

/// A box that moves along in two arrays at once.
struct Track {
  struct Loop {
    int64_t extent, x, y;
  };
  int64_t x = 0, y = 0;
  std::vector<Loop> loops;
};

/// True if `part` is a piece of `whole`, whose loops all move in x: each x of
/// it is one of `whole`, with the same y.
bool follows(const Track &part, const Track &whole);

} // namespace delta::certificate

#endif // DELTA_TOOLS_CERTIFICATE_BOXES_H
