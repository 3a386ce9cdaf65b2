//===- EngineExample.h - A small engine -------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Two layers and three experts, from two trainer ranks to two replicas of an
/// engine with tp 4, ep 2 and etp 2: a padded table; q and k in one parameter,
/// k in half as many parts as q; experts in slots, unevenly, one of them twice,
/// otherwise in each layer, with a shared expert in the second of two extra
/// slots; a form of each kind; a second copy of k, transposed and over all
/// ranks of a stage; a parameter that nothing fills; a tensor that the engine
/// does not hold.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_REFERENCE_ENGINEEXAMPLE_H
#define DELTA_TEST_UNIT_REFERENCE_ENGINEEXAMPLE_H

#include "Example.h"

namespace delta::reference::example {

inline Side engineSource() {
  const std::vector<int64_t> all = {0, 1};
  Side side;
  side.numLayers = 2;
  side.numExperts = 3;
  side.geometry.tp = side.geometry.edp = 2;
  side.geometry.stageLayers = {{2}};
  side.params = {param("table", {7, 2}, Stage::First, {}, 0),
                 param("l{layer}.q", {8, 3}, Stage::Layers, all, 1),
                 param("l{layer}.k", {4, 3}, Stage::Layers, all, 2),
                 param("l{layer}.up{expert}", {4, 3}, Stage::Layers, all, 3),
                 param("l{layer}.shared", {4, 3}, Stage::Layers, all, 4),
                 param("l{layer}.log", {4}, Stage::Layers, all, 5),
                 param("l{layer}.norm", {3}, Stage::Layers, all, 6),
                 param("draft", {2}, Stage::Last, {}, 7)};
  side.params[3].expert = true;
  side.params[5].dtype = "fp32";
  side.ops = {unshard(1, 11, 0, "tp", 2), unshard(2, 12, 0, "tp", 2),
              op("cast", {5}, {15})};
  side.ops[2].dtype = "bf16";
  side.tensors = {{"table", "bf16", {7, 2}, 0, false, false},
                  {"h.{layer}.q", "bf16", {8, 3}, 11, false, false},
                  {"h.{layer}.k", "bf16", {4, 3}, 12, false, false},
                  {"h.{layer}.up.{expert}", "bf16", {4, 3}, 3, false, false},
                  {"h.{layer}.shared", "bf16", {4, 3}, 4, false, false},
                  {"h.{layer}.log", "bf16", {4}, 15, false, false},
                  {"h.{layer}.norm", "bf16", {3}, 6, false, false},
                  {"draft.x", "bf16", {2}, 7, false, false}};
  return side;
}

inline Side engineSide() {
  const std::vector<int64_t> all = {0, 1};
  Side side;
  side.engine = "example";
  side.unheld = {"draft."};
  side.numLayers = 2;
  side.numExperts = 3;
  Geometry &geometry = side.geometry;
  geometry.tp = 4;
  geometry.ep = geometry.etp = 2;
  geometry.stageLayers = {{2}};
  geometry.slotBegins = {0, 3, 5};
  geometry.slots = {{0, 1, 2, 0, 2}, {2, 1, 0, 1, 1}};
  side.params = {param("table", {8, 2}, Stage::First, {}, 0),
                 param("m.{layer}.qk", {12, 3}, Stage::Layers, all, 1),
                 param("m.{layer}.w", {4, 3}, Stage::Layers, all, 2),
                 param("", {4, 3}, Stage::Layers, all, 3),
                 param("m.{layer}.A", {4}, Stage::Layers, all, 4),
                 param("m.{layer}.norm", {3}, Stage::Layers, all, 5),
                 param("m.{layer}.kc", {4, 3}, Stage::Layers, all, 6),
                 param("m.{layer}.scale", {2}, Stage::Layers, all, 7)};
  side.params[2].expert = side.params[2].stack = true;
  side.params[2].extra = 2;
  side.params[3].names.clear();
  side.params[3].slotOf = 2;
  side.params[3].slot = 1;
  side.params[4].dtype = "fp32";
  side.params[4].form = "neg_exp";
  side.params[5].form = "add_one";
  side.params[6].view = {1, 0};
  side.ops = {
      unshard(0, 10, 0, "tp", 4),         op("take", {10}, {20}),
      unshard(1, 11, 0, "tp", 4, {8, 4}), op("split", {11}, {21, 22}),
      unshard(2, 12, 0, "etp", 2),        unshard(3, 13, 0, "etp", 2),
      unshard(4, 14, 0, "tp", 4),         unshard(6, 16, 0, "stage", 4)};
  side.ops[1].size = 7;
  side.ops[1].reason = "padding";
  side.ops[2].sectionWays = {4, 2};
  side.ops[3].sizes = {8, 4};
  side.tensors = {{"table", "bf16", {7, 2}, 20, false, false},
                  {"h.{layer}.q", "bf16", {8, 3}, 21, false, false},
                  {"h.{layer}.k", "bf16", {4, 3}, 22, false, false},
                  {"h.{layer}.up.{expert}", "bf16", {4, 3}, 12, false, false},
                  {"h.{layer}.shared", "bf16", {4, 3}, 13, false, false},
                  {"h.{layer}.log", "fp32", {4}, 14, false, false},
                  {"h.{layer}.norm", "bf16", {3}, 5, false, false},
                  {"h.{layer}.k", "bf16", {4, 3}, 16, false, true}};
  return side;
}

inline Program toEngine() {
  Program program;
  program.model = "engine";
  program.replicas = 2;
  program.source = engineSource();
  program.destination = engineSide();
  return program;
}

} // namespace delta::reference::example

#endif // DELTA_TEST_UNIT_REFERENCE_ENGINEEXAMPLE_H
