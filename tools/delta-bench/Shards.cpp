//===- Shards.cpp - Parameters of ranks -----------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Shards.h"

#include "BenchError.h"

#include "codegen/device/IndexFunctions.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <sys/mman.h>

using namespace delta::bench;
namespace device = delta::device;

/// Elements that one thread changes at a time.
static constexpr int64_t PieceElements = 1 << 20;
/// Elements that are cast at a time.
static constexpr int64_t CastElements = 1 << 26;
/// Memory of the host in pages of this size is pinned and reached faster.
static constexpr size_t HugePage = 1 << 21;

/// A key for each number.
static uint64_t joined(uint64_t key, uint64_t number) {
  return device::mix(key + (number + 1) * 0x9e3779b97f4a7c15u);
}

/// Not touched yet: the threads that fill it spread its pages.
static uint8_t *reserve(uint64_t numBytes) {
  uint64_t rounded = (numBytes + HugePage - 1) / HugePage * HugePage;
  void *memory = std::aligned_alloc(HugePage, rounded ? rounded : HugePage);
  if (!memory)
    throw BenchError("out of memory of the host: " + std::to_string(numBytes) +
                     " bytes are required");
  (void)madvise(memory, rounded, MADV_HUGEPAGE);
  return static_cast<uint8_t *>(memory);
}

SourceShard::SourceShard(Machine &machine, runtime::Pool &pool, Layout from)
    : machine(machine), pool(pool), layout(std::move(from)),
      block(machine, layout.getNumBytes()),
      host(reserve(layout.getNumBytes()), std::free), isPinned(false) {
  for (const Layout::Item &item : layout.getItems())
    for (int64_t first = 0; first < item.info.num_elements;
         first += PieceElements) {
      int64_t count = std::min(item.info.num_elements - first, PieceElements);
      pieces.push_back({item.at + uint64_t(first) * item.elementBytes, count,
                        item.elementBytes, item.info.dtype,
                        joined(item.key, uint64_t(first))});
    }
}

SourceShard::~SourceShard() {
  if (isPinned)
    machine.unpin(host.get());
}

void SourceShard::eachPiece(const std::function<void(Piece &)> &body) {
  pool.run(int64_t(pieces.size()), /*grain=*/1,
           [&](int64_t begin, int64_t end, uint32_t) {
             for (int64_t i = begin; i < end; ++i)
               body(pieces[size_t(i)]);
           });
}

void SourceShard::fill(const Quantiles &quantiles, uint64_t seed) {
  eachPiece([&](Piece &piece) {
    quantiles.fill(host.get() + piece.at, piece.count, piece.dtype,
                   joined(piece.key, seed));
    piece.isChanged = true;
  });
  // Its pages are there now.
  if (!isPinned && layout.getNumBytes())
    isPinned = machine.pin(host.get(), layout.getNumBytes());
  upload();
}

uint64_t SourceShard::change(double share, uint64_t seed) {
  std::atomic<uint64_t> numChanges{0};
  if (share > 0)
    eachPiece([&](Piece &piece) {
      int64_t flips = flip(host.get() + piece.at, piece.count,
                           piece.elementBytes, share, joined(piece.key, seed));
      piece.isChanged |= flips != 0;
      numChanges += uint64_t(flips);
    });
  return numChanges;
}

/// Neighbors in one copy, with what lies between them.
void SourceShard::upload() {
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].isChanged)
      continue;
    const uint64_t begin = pieces[i].at;
    uint64_t end = begin;
    for (; i < pieces.size() && pieces[i].isChanged; ++i) {
      end = pieces[i].at + uint64_t(pieces[i].count) * pieces[i].elementBytes;
      pieces[i].isChanged = false;
    }
    machine.copy(block.as() + begin, host.get() + begin, end - begin);
  }
  machine.wait();
}

void SourceShard::castAll(const Cast &cast) {
  if (!wide.as()) {
    wide = Block(machine, CastElements * sizeof(float));
    wideOnHost = Block(machine, CastElements * sizeof(float), true);
  }
  float *values = wideOnHost.as<float>();
  const std::vector<Layout::Item> &items = layout.getItems();
  for (uint32_t i = 0; i < items.size(); ++i) {
    const Layout::Item &item = items[i];
    const bool isCast =
        item.info.dtype == DELTA_BF16 || item.info.dtype == DELTA_FP16;
    if (!isCast)
      machine.copy(block.as() + item.at, host.get() + item.at, item.numBytes);
    const auto *from = reinterpret_cast<uint16_t *>(host.get() + item.at);
    for (int64_t first = 0; isCast && first < item.info.num_elements;
         first += CastElements) {
      int64_t count = std::min(item.info.num_elements - first, CastElements);
      pool.run(count, PieceElements, [&](int64_t begin, int64_t end, uint32_t) {
        widen(values + begin, from + first + begin, end - begin,
              item.info.dtype);
      });
      machine.copy(wide.as(), values, uint64_t(count) * sizeof(float));
      cast(i, wide.as<float>(), first, count);
      machine.wait();
    }
  }
  for (Piece &piece : pieces)
    piece.isChanged = false;
}
