//===- BitmapArguments.h - What a bitmap hands to its kernels ---*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Arguments of the kernels of a snapshot that is a bitmap, the same text for
/// nvcc and for the host compiler. Bit i % 8 of byte i / 8 is element i of a
/// parameter. There are two sets of bits: what was written since the last
/// compare, and what the last compare took over to be sent.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_BITMAPARGUMENTS_H
#define DELTA_CODEGEN_DEVICE_BITMAPARGUMENTS_H

#include "runtime/delta_abi.h"

namespace delta::device {

/// Elements [first, first + count) of a parameter of a 16-bit type.
struct CastArguments {
  const float *values; ///< of element `first`
  uint16_t *parameter; ///< element 0
  uint8_t *written;    ///< bits of element 0
  int64_t first, count;
  delta_dtype_t dtype;
  uint32_t reserved;
};

/// sent |= written; written = 0; both are multiples of 16 bytes.
struct TakeArguments {
  uint8_t *written;
  uint8_t *sent;
  uint64_t numBytes;
};

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_BITMAPARGUMENTS_H
