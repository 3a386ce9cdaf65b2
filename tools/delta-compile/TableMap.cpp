//===- TableMap.cpp - The map of tables in memory -------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TableMap.h"

#include "runtime/Index.h"

using namespace delta;

namespace {
class TableMap : public reference::MapSource {
public:
  explicit TableMap(const delta_tables_t &tables)
      : tables(tables), index(tables) {}

  bool destinationIsHf() override { return tables.destination_is_hf; }
  uint32_t numRanks(delta_side_id_t side) override {
    return index.getNumRanks(side);
  }
  uint32_t numParams(delta_side_id_t side, uint32_t rank) override {
    return index.getParams(side, rank).size();
  }
  bool param(delta_side_id_t side, uint32_t rank, uint32_t param,
             delta_param_info_t &out) override {
    return !index.paramInfo(side, rank, param, out).failed();
  }
  uint64_t numTiles(uint32_t sourceRank) override {
    return index.getExpansion(sourceRank).numTiles;
  }
  bool tile(uint32_t sourceRank, uint64_t tile,
            delta_tile_info_t &out) override {
    return !index.tileInfo(sourceRank, tile, out).failed();
  }
  uint64_t nextRow(uint32_t sourceRank, uint64_t tile) override {
    const runtime::Row &row =
        index.getExpansion(sourceRank).rowOf(int64_t(tile));
    return uint64_t(row.firstTile + row.numTiles());
  }
  bool element(uint32_t sourceRank, uint64_t tile, uint32_t offset,
               reference::ElementPlaces &out) override {
    uint32_t count = 0;
    out.destinations.resize(std::max<size_t>(out.destinations.size(), 8));
    if (index
            .tileElement(sourceRank, tile, offset, out.source, out.hf,
                         out.destinations.data(), out.destinations.size(),
                         count)
            .failed())
      return false;
    if (count > out.destinations.size()) {
      out.destinations.resize(count);
      return element(sourceRank, tile, offset, out);
    }
    out.destinations.resize(count);
    return true;
  }

private:
  const delta_tables_t &tables;
  runtime::Index index;
};
} // namespace

std::unique_ptr<reference::MapSource>
delta::mapOfTables(const delta_tables_t &tables, std::string &error) {
  runtime::Status status = runtime::checkTables(tables);
  if (status.failed()) {
    error = status.getText();
    return nullptr;
  }
  return std::make_unique<TableMap>(tables);
}
