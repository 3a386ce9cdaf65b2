//===- Landing.h - Where messages of each source land -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The receiving end of the expansion: the rows of every source rank that sends
/// to this destination rank, with the bound places of their images.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_LANDING_H
#define DELTA_RUNTIME_LANDING_H

#include "codegen/device/Kernels.h"
#include "runtime/Expand.h"

#include <optional>

namespace delta::runtime {

/// An image of a row on this rank. Every one is written: nothing relies on two
/// parameters sharing storage.
struct LandingImage {
  const delta_image_t *image;
  uint32_t param;
  int64_t expertOffset;
  uint8_t *data; ///< element 0 of the parameter or of the expert's slice
};

struct LandingRow {
  const delta_box_t *box;
  const delta_host_kernels_t *kernels;
  uint32_t layer, expert;
  int64_t tileBegin, tileEnd; ///< of the box
  int64_t firstTile;          ///< in the section
  size_t firstImage, endImage;
};

/// What comes from one source under one set number.
struct LandingSection {
  uint32_t set;
  uint64_t numTiles;
  size_t firstRow, endRow;
};

struct LandingSource {
  uint32_t rank;
  size_t firstSection, endSection; ///< by ascending set number
};

class Landing {
public:
  /// Expands all sources and binds `rank`. Borrows kernels and data, and the
  /// tables of the expander.
  static Status create(Expander &expander, const delta_kernels_t &kernels,
                       uint32_t rank, const delta_param_t *params,
                       uint32_t numParams, Landing &out);

  /// The rows of another placement of the same plan, or of what it moves, with
  /// the data of `bound`.
  static Status createLike(const Landing &bound, Expander &expander,
                           const delta_kernels_t &kernels, Landing &out);

  /// Takes the data of the same parameters from elsewhere, after the checks of
  /// a bind; leaves everything as it was when one fails.
  Status rebind(const delta_param_t *params, uint32_t numParams);

  /// Takes data that was checked for the same parameters.
  void setData(std::vector<void *> checked) {
    data = std::move(checked);
    place();
  }

  uint32_t getRank() const { return rank; }
  const std::vector<LandingSource> &getSources() const { return sources; }
  /// Position of a source rank, DELTA_NONE if it sends nothing here.
  uint32_t findSource(uint32_t sourceRank) const;
  /// The section of a set of a source; null if it is not for this rank.
  const LandingSection *findSection(const LandingSource &source,
                                    uint32_t set) const;
  const std::vector<LandingSection> &getSections() const { return sections; }
  const std::vector<LandingRow> &getRows() const { return rows; }
  const std::vector<LandingImage> &getImages() const { return images; }
  const std::vector<Param> &getParams() const { return params; }
  std::string paramName(uint32_t param) const;

  /// Data and sizes in bytes of all parameters of a trainer or an engine of
  /// which some elements have no source, such as the padding of a vocabulary. A
  /// full sync sets them to zero before it writes.
  std::vector<std::pair<void *, uint64_t>> getPadded() const;
  /// Data of the parameters.
  const std::vector<void *> &getData() const { return data; }
  /// Elements of a parameter of this rank.
  int64_t getNumElements(uint32_t param) const;

private:
  Status layOut(Expander &expander, const delta_kernels_t &kernels,
                uint32_t rank);
  void place();
  void addSource(Expander &expander, const Expansion &expansion,
                 const delta_kernels_t &kernels);
  void addRow(Expander &expander, const Row &row,
              const delta_kernels_t &kernels);
  void listPadded(const delta_tables_t &tables);

  uint32_t rank = 0;
  std::optional<Side> side;
  std::vector<Param> params;
  std::vector<std::string> names;
  std::vector<void *> data;
  std::vector<LandingSource> sources;
  std::vector<LandingSection> sections;
  std::vector<LandingRow> rows;
  std::vector<LandingImage> images;
  std::vector<int64_t> numCovered; ///< elements with a source, by parameter
  /// Those of getPadded, with their sizes in bytes.
  std::vector<std::pair<uint32_t, uint64_t>> padded;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_LANDING_H
