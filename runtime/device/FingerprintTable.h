//===- FingerprintTable.h - Sums cut into pieces ----------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Cuts the sums over boxes into pieces in which lines and columns each fix one
/// weight (codegen/device/FingerprintArguments.h). Loops of a box are joined
/// where they follow each other in the data and in the neutral tensor, cut
/// where the neutral tensor begins a new row, and the loop along which the data
/// is contiguous becomes the columns: a run of 65,536 elements of a tensor with
/// 2,048 columns is 32 lines, and a transposed tensor has columns for lines.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_FINGERPRINTTABLE_H
#define DELTA_RUNTIME_DEVICE_FINGERPRINTTABLE_H

#include "codegen/device/FingerprintArguments.h"
#include "runtime/Fingerprint.h"

#include <vector>

namespace delta::runtime {

class FingerprintTable {
public:
  /// Forms the table of these terms; their data is memory of the device, of
  /// which addresses alone are looked at. Borrows nothing.
  void build(const std::vector<FingerprintTerm> &terms,
             const delta_kernels_t &kernels);

  const std::vector<device::FingerprintPiece> &getPieces() const {
    return pieces;
  }
  const std::vector<device::FingerprintPlaces> &getPlaces() const {
    return places;
  }

private:
  /// A loop of a part of a box. Strides of elements; once the neutral place is
  /// split, `row` and `column` sum up to it.
  struct Loop {
    int64_t extent, data, neutral, row, column;
  };
  /// A part of a term: all combinations of its loops.
  struct Part {
    std::vector<Loop> loops;
    int64_t data, neutral, row, column; ///< of its first element
  };

  void addTerm();
  void addRuns(int64_t firstRun, int64_t endRun, int64_t firstColumn,
               int64_t endColumn);
  void addRange(const Part &part, uint32_t loop, int64_t begin, int64_t end);
  void addPart(Part part);
  void addRows(Part part);
  void cutRows(const Part &part, size_t index);
  void addMatrix(Part &part);
  void addMatrices(Part part, size_t loop, const Loop &lines,
                   const Loop &inner);
  void addLines(const Part &part, const Loop &lines, const Loop &inner);
  void addColumns(device::FingerprintPiece piece, device::FingerprintPath path,
                  int64_t numLines, int64_t begin, int64_t end);
  void addStrips(device::FingerprintPiece piece, int64_t numLines,
                 int64_t begin, int64_t end);
  void addPiece(device::FingerprintPiece whole, int64_t line, int64_t numLines,
                int64_t column, int64_t numColumns);
  void addPlaces(const Part &part);

  std::vector<device::FingerprintPiece> pieces;
  std::vector<device::FingerprintPlaces> places;
  int64_t pieceElements = 0; ///< of a piece at most

  // What is being added.
  const FingerprintTerm *term = nullptr;
  const int64_t *dataStride = nullptr;  ///< of its layout
  Loop columns = {};                    ///< the innermost loop, or a part of it
  device::FingerprintPiece common = {}; ///< what its pieces have alike
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_FINGERPRINTTABLE_H
