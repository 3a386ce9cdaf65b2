//===- WriteSeeds.cpp - The seeds of the binary corpora -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// `delta-fuzz-seeds FOLDER` writes FOLDER/wire and FOLDER/tables: messages of
/// real syncs and tables of real plans. Needed again when a layout changes.
/// `delta-fuzz-seeds FOLDER PLAN.so` writes the tables of a compiled plan to
/// FOLDER/plan.tables.
///
//===----------------------------------------------------------------------===//

#include "TableCodec.h"
#include "WireCase.h"
#include "test/unit/runtime/EnginePlan.h"

#include <dlfcn.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace delta::fuzz;
using namespace delta::runtime;
using namespace delta::test;
namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;

static void write(const fs::path &path, const Bytes &bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()),
             std::streamsize(bytes.size()));
}

static Bytes asInput(uint8_t options, const std::vector<Bytes> &messages) {
  Bytes out = {options};
  for (const Bytes &message : messages) {
    auto size = uint32_t(message.size());
    auto *begin = reinterpret_cast<const uint8_t *>(&size);
    out.insert(out.end(), begin, begin + 4);
    out.insert(out.end(), message.begin(), message.end());
  }
  return out;
}

/// Messages of both sources: full sync, or a delta in which every `every`th
/// parameter changes, in one round or in many.
static std::vector<Bytes> messagesOf(const WireCase &world, bool full,
                                     size_t every, bool inRounds) {
  Collector collector;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    RankBytes source(Side(world.getTables(), DELTA_SOURCE), rank, 1);
    auto sender = world.makeSender(rank, source);
    Collector dropped;
    if (!full) {
      (void)sender->seed(1, nullptr);
      (void)sender->send(dropped.transport());
      (void)sender->acknowledge(1);
      for (size_t i = 0; i < source.params.size(); i += every)
        for (size_t byte = 0; byte < source.getSize(i); byte += 1 + i % 9)
          source.flip(i, byte);
    }
    if (inRounds)
      (void)sender->setCapacity(sender->getShard().getLargestTile() * 3);
    (void)(full ? sender->seed(1, nullptr) : sender->diff(2, nullptr));
    (void)sender->send(collector.transport());
  }
  return collector.messages;
}

static void writeWire(const fs::path &folder) {
  WireCase world;
  for (uint8_t seal : {uint8_t(0), uint8_t(Seal)}) {
    std::string suffix = seal ? "-sealed" : "";
    write(folder / ("seed" + suffix),
          asInput(seal, messagesOf(world, true, 1, false)));
    uint8_t seeded = IsSeeded | seal;
    write(folder / ("dense" + suffix),
          asInput(seeded, messagesOf(world, false, 1, false)));
    write(folder / ("sparse" + suffix),
          asInput(seeded, messagesOf(world, false, 7, false)));
    write(folder / ("rounds" + suffix),
          asInput(seeded, messagesOf(world, false, 2, true)));
    write(folder / ("compare" + suffix),
          asInput(seeded | 128, messagesOf(world, false, 3, false)));
  }
}

static void writeTables(const fs::path &folder) {
  Geometry one, tp2, pp2, ep2;
  tp2.tp = 2;
  tp2.dp = 2;
  pp2.pp = 2;
  pp2.vpp = 2;
  ep2.tp = 2;
  ep2.ep = 2;
  ep2.replicas = 2;
  auto addTables = [&](const char *name, const delta_tables_t &tables) {
    Bytes bytes = encode(tables);
    auto read = OwnedTables::decode(bytes.data(), bytes.size());
    if (!read || checkTables(read->get()).failed())
      abort();
    write(folder / name, bytes);
  };
  auto add = [&](const char *name, const Geometry &from, const Geometry &to,
                 bool isHf) {
    TestPlan plan(from, to, isHf, 4, 4, mixedModel(from, to));
    addTables(name, plan.getTables());
  };
  add("one-to-one", one, one, false);
  add("tp2-dp2-to-hf", tp2, one, true);
  add("pp2-vpp2-to-ep2", pp2, ep2, false);
  add("ep2-to-tp2", ep2, tp2, false);
  addTables("engine", EnginePlan().tables);
}

int main(int argc, char **argv) {
  if (argc == 2) {
    writeWire(fs::path(argv[1]) / "wire");
    writeTables(fs::path(argv[1]) / "tables");
    return 0;
  }
  if (argc != 3) {
    fprintf(stderr, "usage: %s FOLDER [PLAN.so]\n", argv[0]);
    return 2;
  }
  void *library = dlopen(argv[2], RTLD_NOW);
  auto *query = library ? reinterpret_cast<decltype(&delta_plan_query)>(
                              dlsym(library, "delta_plan_query"))
                        : nullptr;
  const delta_plan_api_t *api = query ? query(DELTA_ABI_VERSION) : nullptr;
  if (!api) {
    fprintf(stderr, "%s: no plan\n", argv[2]);
    return 1;
  }
  write(fs::path(argv[1]) / "plan.tables", encode(*api->tables));
  return 0;
}
