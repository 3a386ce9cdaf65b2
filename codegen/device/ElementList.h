//===- ElementList.h - The element types of a plan --------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A kernel of the device runs over tiles of all types of its plan. What moves
/// bits depends on their size alone; what forms a value asks its type here. A
/// plan names its own types, and nothing is compiled for others:
///
///   using Elements = ElementList<Bf16, Widened<Bf16>>;
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_ELEMENTLIST_H
#define DELTA_CODEGEN_DEVICE_ELEMENTLIST_H

#include "codegen/device/Kernels.h"
#include "codegen/device/ValueOps.h"

namespace delta::device {

/// delta_kernel_row of an element type or cast.
template <typename Element> struct ElementRow;
template <> struct ElementRow<Bf16> {
  static constexpr uint32_t value = DELTA_BF16;
};
template <> struct ElementRow<Fp16> {
  static constexpr uint32_t value = DELTA_FP16;
};
template <> struct ElementRow<Fp32> {
  static constexpr uint32_t value = DELTA_FP32;
};
template <> struct ElementRow<Int64> {
  static constexpr uint32_t value = DELTA_INT64;
};
template <> struct ElementRow<Widened<Bf16>> {
  static constexpr uint32_t value = DELTA_KERNELS_BF16_TO_FP32;
};
template <> struct ElementRow<Widened<Fp16>> {
  static constexpr uint32_t value = DELTA_KERNELS_FP16_TO_FP32;
};
template <> struct ElementRow<Narrowed<Bf16>> {
  static constexpr uint32_t value = DELTA_KERNELS_FP32_TO_BF16;
};
template <> struct ElementRow<Narrowed<Fp16>> {
  static constexpr uint32_t value = DELTA_KERNELS_FP32_TO_FP16;
};

template <typename... Elements> struct ElementList {
  /// True if a type of the list is sent in elements of `size` bytes.
  DELTA_HD static constexpr bool hasSize(size_t size) {
    return ((sizeof(typename Elements::Bits) == size) || ...);
  }

  /// Bits of the value that the receiver gets of element `element` at `source`,
  /// of the type that `row` names, widened to 64.
  DELTA_HD_COLD static uint64_t value(uint32_t row, const uint8_t *source,
                                      int64_t element, delta_value_op_t op) {
    uint64_t bits = 0;
    auto take = [&](auto type) {
      using Element = decltype(type);
      if (row == ElementRow<Element>::value)
        bits = applyOp<Element>(
            reinterpret_cast<const typename Element::Source *>(source)[element],
            op);
    };
    (take(Elements()), ...);
    return bits;
  }
};

/// All of them, for what is not compiled for one plan.
using AllElements = ElementList<Bf16, Fp16, Fp32, Int64, Widened<Bf16>,
                                Widened<Fp16>, Narrowed<Bf16>, Narrowed<Fp16>>;

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_ELEMENTLIST_H
