//===- TableCodec.h - Plan tables as bytes ----------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Plan tables as one string of bytes, for corpora: all counts first, then the
/// rows as they lie in memory, then the names. Every field but the pointers
/// is free to be anything.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_FUZZ_TABLECODEC_H
#define DELTA_TEST_FUZZ_TABLECODEC_H

#include "runtime/delta_abi.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace delta::fuzz {

/// Tables and all that they point to, each array in memory of its own, so that
/// a sanitizer sees what leaves it.
class OwnedTables {
public:
  /// Null if the bytes end early or a count is beyond what a fuzzer should
  /// spend its time on.
  static std::unique_ptr<OwnedTables> decode(const uint8_t *bytes, size_t size);

  const delta_tables_t &get() const { return tables; }

private:
  struct SideRows {
    std::vector<delta_class_t> classes;
    std::vector<delta_placement_t> layers;
    std::vector<delta_expert_t> experts;
    std::vector<std::string> texts;
    std::vector<const char *> names;
  };
  delta_tables_t tables = {};
  SideRows sides[3];
  std::vector<delta_layer_kind_t> kinds;
  std::vector<uint32_t> layerIds;
  std::vector<delta_box_t> boxes;
  std::vector<delta_image_t> images;
  std::vector<uint32_t> slotFirst, slotExperts;
  std::vector<delta_refresh_t> refreshes;
};

std::vector<uint8_t> encode(const delta_tables_t &tables);

} // namespace delta::fuzz

#endif // DELTA_TEST_FUZZ_TABLECODEC_H
