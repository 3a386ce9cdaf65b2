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

/// A tile of a row; by (row, boxTile) they are in the order of messages.
struct LandedTile {
  const LandingRow *row = nullptr;
  int64_t boxTile = -1;
};

/// The tiles of a message: they ascend from the first to the last.
struct StagedSpan {
  uint64_t numTiles = 0;
  LandedTile first, last;
};

/// Checks all sections of a message whose frame was read, and appends their
/// tiles. Bodies are aligned to 8 bytes. Every tile of a full sync, and of
/// experts that moved, must be dense.
Status readSections(Pool &pool, const Landing &landing,
                    const MessageHeader &header,
                    const std::vector<SectionView> &views,
                    std::vector<StagedTile> &outTiles, StagedSpan &outSpan);

} // namespace delta::runtime

#endif // DELTA_RUNTIME_STAGE_H
