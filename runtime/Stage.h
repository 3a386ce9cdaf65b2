//===- Stage.h - Checking a message before it is written --------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads a message without trusting it. First the frame: magic, sizes and
/// checksums. Then the content of each section: tiles that exist, counts that
/// fit, offsets that ascend and stay inside their tile. What comes out can be
/// written without another check.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_STAGE_H
#define DELTA_RUNTIME_STAGE_H

#include "runtime/Landing.h"
#include "runtime/Pool.h"
#include "runtime/Wire.h"

namespace delta::runtime {

/// A section as framed in its message.
struct SectionView {
  SectionHeader header;
  const uint8_t *body;
  uint64_t bodyBytes;
};

/// A checked tile of a message; points into its bytes.
struct StagedTile {
  const LandingRow *row;
  int64_t boxTile;
  uint32_t numElements;
  uint32_t count;
  const uint16_t *offsets; ///< null: dense
  const uint8_t *values;
};

/// Splits a message into header and sections and verifies all checksums. The
/// texts of failures say what is wrong, not whose message it is.
Status readFrame(const uint8_t *message, uint64_t numBytes,
                 MessageHeader &outHeader, std::vector<SectionView> &outViews);

/// Checks all of a section but its offsets and appends its tiles. The body is
/// aligned to 8 bytes. With `isWhole` every tile that is
/// present must be dense.
Status readSection(const Landing &landing, const LandingSection &section,
                   const SectionView &view, bool isWhole,
                   std::vector<StagedTile> &outTiles);

/// Checks the offsets of tiles [first, end).
Status checkOffsets(Pool &pool, const std::vector<StagedTile> &tiles,
                    size_t first);

} // namespace delta::runtime

#endif // DELTA_RUNTIME_STAGE_H
