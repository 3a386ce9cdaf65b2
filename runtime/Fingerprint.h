//===- Fingerprint.h - Position-bound sums of rows --------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// For each row the sum of bits x a(row) x b(column) mod 2^64, where row and
/// column are those of the neutral tensor and a, b are odd weights keyed by a
/// number and the tensor's name. The sum is additive over any cut of a tensor
/// and linear in the values, and any single changed element changes it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_FINGERPRINT_H
#define DELTA_RUNTIME_FINGERPRINT_H

#include "codegen/device/Kernels.h"
#include "runtime/Pool.h"
#include "runtime/Side.h"

#include <optional>
#include <string>
#include <vector>

namespace delta::runtime {

/// One sum to form: tiles [tileBegin, tileEnd) of a box, read from `data`, in
/// the layout of the source where `image` is null.
struct FingerprintTerm {
  const delta_box_t *box;
  const delta_host_kernels_t *kernels;
  const delta_image_t *image;
  const void *data;
  delta_value_op_t op;
  int64_t tileBegin, tileEnd;
  delta_position_t position;
};

/// Neutral position and keys of the instance (layer, expert) of a box.
delta_position_t positionOf(const delta_tables_t &tables, const Side &hf,
                            const delta_box_t &box, uint32_t layer,
                            uint32_t expert, uint64_t key);

/// The same for the rows of a rank, kept from call to call: forming the names
/// of 2,700 tensors takes half a millisecond, a quarter of what a GPU needs to
/// sum them up.
class Positions {
public:
  /// Borrows the tables.
  explicit Positions(const delta_tables_t &tables) : tables(tables) {}

  /// That of row number `index`, which may be another one than before.
  const delta_position_t &get(size_t index, const delta_box_t &box,
                              uint32_t layer, uint32_t expert, uint64_t key);

private:
  struct Entry {
    const delta_box_t *box = nullptr; ///< null: nothing is kept
    uint32_t layer = 0, expert = 0;
    uint64_t key = 0;
    std::string name; ///< of the tensor
    delta_position_t position = {};
  };

  const delta_tables_t &tables;
  std::optional<Side> hf; ///< made when it is asked for
  std::vector<Entry> entries;
};

/// Forms the sums of all terms, threads over tiles.
std::vector<uint64_t>
sumFingerprints(Pool &pool, const std::vector<FingerprintTerm> &terms);

} // namespace delta::runtime

#endif // DELTA_RUNTIME_FINGERPRINT_H
