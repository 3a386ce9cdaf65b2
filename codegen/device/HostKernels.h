//===- HostKernels.h - Kernels of a tile for the host -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The kernels of Kernels.h as templates over the element type. The emitted
/// text of a plan instantiates those that it needs:
///
///   extern "C" const delta_kernels_t delta_plan_kernels = {
///       sizeof(delta_kernels_t), DELTA_ABI_VERSION,
///       {{}, delta::device::hostKernels<delta::device::Bf16>()}};
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_HOSTKERNELS_H
#define DELTA_CODEGEN_DEVICE_HOSTKERNELS_H

#include "codegen/device/HostCompare.h"
#include "codegen/device/HostFingerprint.h"
#include "codegen/device/Kernels.h"
#include "codegen/device/ValueOps.h"

#include <type_traits>

namespace delta::device {

/// What a receiver holds, whatever the source held.
template <typename Element> struct Received {
  using Source = typename Element::Bits;
  using Bits = typename Element::Bits;
  static Source addOne(Source bits) { return bits; }
  static Bits convert(Source bits) { return bits; }
  static Bits general(Source bits, delta_value_op_t) { return bits; }
};

/// Writes what the receiver holds of `count` elements. Out of a loop that a
/// compiler makes wide stays what few elements need.
template <typename Element>
inline void applyOpToAll(const typename Element::Source *from, uint32_t count,
                         delta_value_op_t op, typename Element::Bits *to) {
  if (!isCommon(op)) {
    for (uint32_t i = 0; i < count; ++i)
      to[i] = Element::general(from[i], op);
    return;
  }
  for (uint32_t i = 0; i < count; ++i)
    to[i] = applyCommon<Element>(from[i], op);
}

/// Calls body(source element, tile offset, size) for each contiguous stretch of
/// the source of a tile. Runs that follow each other become one stretch: a tile
/// of whole rows is compared as one block.
template <typename Body>
inline void forEachStretch(const delta_box_t &box, int64_t index,
                           const Body &body) {
  Tile tile = tileOf(box, index);
  Layout source = Layout::source(box);
  RunCursor cursor(box, tile.firstRun);
  int64_t begin = cursor.begin(source) + tile.firstColumn;
  uint32_t offset = 0, size = tile.numColumns;
  for (uint32_t run = 1; run < tile.numRuns; ++run) {
    cursor.next();
    int64_t next = cursor.begin(source) + tile.firstColumn;
    if (next == begin + size) {
      size += tile.numColumns;
      continue;
    }
    body(begin, offset, size);
    begin = next;
    offset += size;
    size = tile.numColumns;
  }
  body(begin, offset, size);
}

/// Calls body(index in the values, element) for each listed element of a tile;
/// offsets == null: for all.
template <typename Body>
inline void forEachElement(const delta_box_t &box, int64_t index,
                           const Layout &layout, const uint16_t *offsets,
                           uint32_t count, const Body &body) {
  Tile tile = tileOf(box, index);
  RunCursor cursor(box, tile.firstRun);
  int64_t step = layout.step(box);
  if (!offsets) {
    uint32_t i = 0;
    for (uint32_t run = 0; run < tile.numRuns; ++run, cursor.next()) {
      int64_t begin = cursor.begin(layout) + tile.firstColumn * step;
      for (uint32_t column = 0; column < tile.numColumns; ++column)
        body(i++, begin + column * step);
    }
    return;
  }
  SmallDivisor columns = SmallDivisor::of(tile.numColumns);
  uint32_t run = 0, runBegin = 0;
  int64_t begin = cursor.begin(layout) + tile.firstColumn * step;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t offset = offsets[i];
    if (offset - runBegin >= tile.numColumns) {
      run = columns.divide(offset);
      runBegin = run * tile.numColumns;
      cursor.advanceTo(tile.firstRun + run);
      begin = cursor.begin(layout) + tile.firstColumn * step;
    }
    body(i, begin + (offset - runBegin) * step);
  }
}

template <typename Element> struct HostKernels {
  using Source = typename Element::Source;
  using Bits = typename Element::Bits;

  static void gather(const delta_box_t *box, int64_t tile, const void *source,
                     delta_value_op_t op, void *out) {
    const Source *from = static_cast<const Source *>(source);
    Bits *to = static_cast<Bits *>(out);
    forEachStretch(*box, tile, [&](int64_t begin, uint32_t at, uint32_t size) {
      if (isPlain<Element>(op)) {
        memcpy(to + at, from + begin, size * sizeof(Bits));
        return;
      }
      applyOpToAll<Element>(from + begin, size, op, to + at);
    });
  }

  static uint32_t diff(const delta_box_t *box, int64_t tile, const void *source,
                       delta_value_op_t op, const void *snapshot,
                       uint16_t *offsets, void *values) {
    const Source *now = static_cast<const Source *>(source);
    const Bits *before = static_cast<const Bits *>(snapshot);
    uint32_t limit = tileOf(*box, tile).numElements() / 2;
    ChangeList<Bits> list = {offsets, static_cast<Bits *>(values), limit, 0};
    forEachStretch(*box, tile, [&](int64_t begin, uint32_t at, uint32_t size) {
      if constexpr (std::is_same_v<Source, Bits>)
        if (op == DELTA_VALUE_ID)
          return listChanges(now + begin, before + at, size, at, list);
      diffShifted(now + begin, before + at, size, at, op, list);
    });
    return list.count;
  }

  static void advance(void *snapshot, const uint16_t *offsets,
                      const void *values, uint32_t count) {
    Bits *to = static_cast<Bits *>(snapshot);
    const Bits *from = static_cast<const Bits *>(values);
    if (!offsets) {
      memcpy(to, from, count * sizeof(Bits));
      return;
    }
    for (uint32_t i = 0; i < count; ++i)
      to[offsets[i]] = from[i];
  }

  static void scatter(const delta_box_t *box, int64_t tile,
                      const delta_image_t *image, const uint16_t *offsets,
                      const void *values, uint32_t count, void *destination) {
    Bits *to = static_cast<Bits *>(destination);
    const Bits *from = static_cast<const Bits *>(values);
    Layout layout = Layout::image(*image);
    if (!offsets && layout.step(*box) == 1) {
      scatterRuns(*box, tile, layout, from, to);
      return;
    }
    forEachElement(*box, tile, layout, offsets, count,
                   [&](uint32_t i, int64_t element) { to[element] = from[i]; });
  }

  static uint32_t compare(const delta_box_t *box, int64_t tile,
                          const delta_image_t *image, const uint16_t *offsets,
                          const void *values, uint32_t count,
                          const void *destination, uint32_t *out_first) {
    const Bits *held = static_cast<const Bits *>(destination);
    const Bits *sent = static_cast<const Bits *>(values);
    uint32_t mismatches = 0;
    forEachElement(*box, tile, Layout::image(*image), offsets, count,
                   [&](uint32_t i, int64_t element) {
                     if (held[element] == sent[i])
                       return;
                     if (mismatches++ == 0)
                       *out_first = i;
                   });
    return mismatches;
  }

  static uint64_t fingerprint(const delta_box_t *box, int64_t tile,
                              const delta_image_t *image, const void *data,
                              delta_value_op_t op,
                              const delta_position_t *position) {
    if (image)
      return TileFingerprint<Received<Element>>(*box, Layout::image(*image),
                                                DELTA_VALUE_ID, *position)
          .sum(tile, static_cast<const Bits *>(data));
    return TileFingerprint<Element>(*box, Layout::source(*box), op, *position)
        .sum(tile, static_cast<const Source *>(data));
  }

private:
  /// Applies the op to a few hundred elements at a time and compares those.
  static void diffShifted(const Source *now, const Bits *before, uint32_t size,
                          uint32_t offset, delta_value_op_t op,
                          ChangeList<Bits> &list) {
    constexpr uint32_t BlockSize = 512;
    Bits block[BlockSize];
    for (uint32_t at = 0; at < size; at += BlockSize) {
      uint32_t n = size - at < BlockSize ? size - at : BlockSize;
      applyOpToAll<Element>(now + at, n, op, block);
      listChanges(block, before + at, n, offset + at, list);
    }
  }

  static void scatterRuns(const delta_box_t &box, int64_t index,
                          const Layout &layout, const Bits *from, Bits *to) {
    Tile tile = tileOf(box, index);
    RunCursor cursor(box, tile.firstRun);
    for (uint32_t run = 0; run < tile.numRuns; ++run, cursor.next()) {
      memcpy(to + cursor.begin(layout) + tile.firstColumn, from,
             tile.numColumns * sizeof(Bits));
      from += tile.numColumns;
    }
  }
};

/// The row of a kernel table for one element type.
template <typename Element> constexpr delta_host_kernels_t hostKernels() {
  using Kernels = HostKernels<Element>;
  return {uint32_t(sizeof(typename Element::Bits)),
          uint32_t(sizeof(typename Element::Source)),
          Kernels::gather,
          Kernels::diff,
          Kernels::advance,
          Kernels::scatter,
          Kernels::compare,
          Kernels::fingerprint};
}

/// A table with all element types and casts.
constexpr delta_kernels_t allHostKernels() {
  return {sizeof(delta_kernels_t),
          DELTA_ABI_VERSION,
          {{},
           hostKernels<Bf16>(),
           hostKernels<Fp16>(),
           hostKernels<Fp32>(),
           hostKernels<Int64>(),
           hostKernels<Widened<Bf16>>(),
           hostKernels<Widened<Fp16>>(),
           hostKernels<Narrowed<Bf16>>(),
           hostKernels<Narrowed<Fp16>>()}};
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_HOSTKERNELS_H
