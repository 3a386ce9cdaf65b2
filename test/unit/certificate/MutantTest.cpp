//===- MutantTest.cpp - A planted fault for every pass and field ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// After each pass, every number that it made is changed, one at a time; the
/// other passes run on, without the proof, and the checker and the interpreter
/// judge the plan. The certificate is written from the faulty module, so the
/// checker cannot tell by comparing: it has to find the fault itself. A change
/// that leaves plan and certificate as they were (an extent beyond the end of
/// an array that later passes cut off) is no fault and is counted apart.
///
//===----------------------------------------------------------------------===//

#include "Compiled.h"

#include "codegen/Emit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

using namespace delta;
using namespace delta::test;
using namespace mlir;

namespace {

/// One way to change a module: the field and what does it.
struct Fault {
  std::string field;
  std::function<void()> plant;
};

DenseI64ArrayAttr changed(DenseI64ArrayAttr attr, size_t index, int64_t by) {
  SmallVector<int64_t> values(attr.asArrayRef());
  values[index] += by;
  return DenseI64ArrayAttr::get(attr.getContext(), values);
}

/// Every change of one number of a map, and two swaps.
std::vector<std::pair<std::string, ShardedMap>>
changedMaps(const ShardedMap &map) {
  std::vector<std::pair<std::string, ShardedMap>> out;
  auto add = [&](const std::string &field, auto change) {
    ShardedMap copy = map;
    change(copy);
    out.push_back({field, copy});
  };
  for (size_t w = 0; w < map.ways.size(); ++w)
    for (size_t p = 0; p < map.ways[w].pieces.size(); ++p) {
      auto piece = [w, p](ShardedMap &m) -> Piece & {
        return m.ways[w].pieces[p];
      };
      add("offset", [&](ShardedMap &m) { piece(m).source += 1; });
      add("offset", [&](ShardedMap &m) { piece(m).destination += 1; });
      for (size_t l = 0; l < map.ways[w].pieces[p].loops.size(); ++l) {
        if (map.ways[w].pieces[p].loops[l].extent > 1)
          add("extent", [&](ShardedMap &m) { piece(m).loops[l].extent -= 1; });
        add("extent", [&](ShardedMap &m) { piece(m).loops[l].extent += 1; });
        add("stride", [&](ShardedMap &m) { piece(m).loops[l].source += 1; });
        add("stride",
            [&](ShardedMap &m) { piece(m).loops[l].destination += 1; });
      }
      // Two boxes of one shard change places.
      if (p + 1 < map.ways[w].pieces.size() &&
          piece(const_cast<ShardedMap &>(map)).loops ==
              map.ways[w].pieces[p + 1].loops)
        add("section", [&](ShardedMap &m) {
          std::swap(m.ways[w].pieces[p].destination,
                    m.ways[w].pieces[p + 1].destination);
        });
    }
  // Two shards change owners.
  for (size_t w = 0; w + 1 < map.ways.size(); ++w)
    if (!(map.ways[w] == map.ways[w + 1]))
      add("owner", [&](ShardedMap &m) { std::swap(m.ways[w], m.ways[w + 1]); });
  return out;
}

void addMapFaults(Operation *op, StringRef name, ArrayAttr maps,
                  std::vector<Fault> &faults) {
  for (size_t i = 0; i < maps.size(); ++i)
    for (auto &[field, map] : changedMaps(cast<MapAttr>(maps[i]).getValue())) {
      SmallVector<Attribute> list(maps.getValue());
      list[i] = MapAttr::get(op->getContext(), map);
      auto attr = ArrayAttr::get(op->getContext(), list);
      faults.push_back({field, [op, name, attr] { op->setAttr(name, attr); }});
    }
}

std::vector<Fault> faultsOf(ModuleOp module, const std::string &pass) {
  std::vector<Fault> faults;
  Builder builder(module.getContext());
  if (pass == "delta-fold-instances") {
    for (auto side : module.getOps<SideOp>())
      for (StringRef table :
           {"placement", "expert_ranks", "slots", "slot_begins"})
        if (auto attr = side->getAttrOfType<DenseI64ArrayAttr>(table))
          for (int64_t i = 0; i < attr.size(); ++i)
            for (int64_t by : {-1, 1})
              if (attr[i] + by >= 0)
                faults.push_back({"instance row", [side, table, attr, i, by] {
                                    side->setAttr(table, changed(attr, i, by));
                                  }});
    return faults;
  }
  module.walk([&](Operation *op) {
    if (auto apply = dyn_cast<ApplyOp>(op)) {
      if (pass == "delta-plan-routes")
        return;
      addMapFaults(op, "maps", apply.getMaps(), faults);
      faults.push_back({"value op", [op, builder]() mutable {
                          op->setAttr("op", builder.getStringAttr("add_one"));
                        }});
      for (StringRef to : {"f32", "bf16", "f16"})
        faults.push_back({"cast", [op, to, builder]() mutable {
                            op->setAttr("to", builder.getStringAttr(to));
                          }});
    }
    auto route = dyn_cast<RouteOp>(op);
    if (!route)
      return;
    addMapFaults(op, "images", route.getImages(), faults);
    for (auto &[field, map] : changedMaps(route.getHf().getValue())) {
      auto attr = MapAttr::get(op->getContext(), map);
      faults.push_back({field, [op, attr] { op->setAttr("hf", attr); }});
    }
    for (StringRef number : {"source", "way", "hf_class"})
      for (int64_t by : {-1, 1}) {
        int64_t value = op->getAttrOfType<IntegerAttr>(number).getInt() + by;
        if (value >= 0)
          faults.push_back({"owner", [op, number, value, builder]() mutable {
                              op->setAttr(number,
                                          builder.getI64IntegerAttr(value));
                            }});
      }
    for (StringRef list : {"classes", "way_begin", "way_end"}) {
      auto attr = op->getAttrOfType<DenseI64ArrayAttr>(list);
      for (int64_t i = 0; i < attr.size(); ++i)
        for (int64_t by : {-1, 1})
          if (attr[i] + by >= 0)
            faults.push_back({"owner", [op, list, attr, i, by] {
                                op->setAttr(list, changed(attr, i, by));
                              }});
    }
    faults.push_back({"value op", [op, builder]() mutable {
                        op->setAttr("op", builder.getStringAttr("add_one"));
                      }});
  });
  return faults;
}

/// Who stopped the faults of a pass and a field.
struct Tally {
  int planted = 0, same = 0, byLaterPass = 0, byChecker = 0, byInterpreter = 0,
      bySample = 0;
};

/// All that a plan and its certificate say of what is sent. Of a tensor that an
/// engine does not hold nothing is, so that no place of it is wrong.
std::string textOf(Compiled &model, LoweredPlan plan) {
  plan.boxes.erase(
      std::remove_if(plan.boxes.begin(), plan.boxes.end(),
                     [](const LoweredBox &box) { return box.images.empty(); }),
      plan.boxes.end());
  return emitHost(plan) + model.certificate(plan);
}

class Mutants : public testing::TestWithParam<int> {};

TEST_P(Mutants, AreAllStopped) {
  Compiled model(modelTexts[GetParam()]);
  std::map<std::string, Tally> tallies;
  std::vector<std::string> survivors;
  for (const std::string &pass : passNames)
    ASSERT_TRUE(model.run(pass));
  std::string unharmed = textOf(model, *model.lower());
  for (size_t p = 0; p < passNames.size(); ++p) {
    for (size_t fault = 0;; ++fault) {
      model.reset();
      for (size_t before = 0; before <= p; ++before)
        ASSERT_TRUE(model.run(passNames[before]));
      std::vector<Fault> faults = faultsOf(model.module(), passNames[p]);
      // Every third of the many: each op and field is met all the same.
      size_t index = fault * 3;
      if (index >= faults.size())
        break;
      faults[index].plant();
      Tally &tally = tallies[passNames[p] + ", " + faults[index].field];
      ++tally.planted;
      bool alive = true;
      for (size_t after = p + 1; after < passNames.size() && alive; ++after)
        alive = model.run(passNames[after]);
      std::optional<LoweredPlan> plan;
      if (alive)
        plan = model.lower();
      if (!plan) {
        ++tally.byLaterPass;
        continue;
      }
      if (textOf(model, *plan) == unharmed) {
        ++tally.same;
        continue;
      }
      bool checker = !checkerError(model.certificate(*plan), *plan).empty();
      bool interpreter = !interpreterError(model.program(), *plan).empty();
      tally.byChecker += checker;
      tally.byInterpreter += interpreter;
      tally.bySample += !sampleError(model.program(), *plan).empty();
      if (!checker && !interpreter)
        survivors.push_back(passNames[p] + ", " + faults[index].field + ", " +
                            std::to_string(index));
    }
  }
  int planted = 0, byInterpreter = 0, bySample = 0;
  for (auto &[name, tally] : tallies) {
    planted += tally.planted;
    byInterpreter += tally.byInterpreter;
    bySample += tally.bySample;
    planted -= tally.same;
    printf("%-44s planted %4d: same plan %4d, later pass %4d, checker %4d, "
           "interpreter %4d, sample %4d\n",
           name.c_str(), tally.planted, tally.same, tally.byLaterPass,
           tally.byChecker, tally.byInterpreter, tally.bySample);
  }
  EXPECT_GT(planted, 200);
  // A sample looks at four of an element's box: it sees most faults of a
  // small model, and none that is not one.
  EXPECT_GT(bySample * 10, byInterpreter * 7);
  EXPECT_EQ(survivors, std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Models, Mutants,
                         testing::Range(0, int(modelTexts.size())));

TEST(Unharmed, ModelsHold) {
  for (const std::string &text : modelTexts) {
    Compiled model(text);
    for (const std::string &pass : passNames)
      ASSERT_TRUE(model.run(pass)) << pass;
    std::optional<LoweredPlan> plan = model.lower();
    ASSERT_TRUE(plan);
    EXPECT_EQ(checkerError(model.certificate(*plan), *plan), "");
    EXPECT_EQ(interpreterError(model.program(), *plan), "");
    EXPECT_EQ(sampleError(model.program(), *plan), "");
  }
}

} // namespace
