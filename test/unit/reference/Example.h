//===- Example.h - A small reference program --------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Four layers on two stages, two tensor ways, four experts on two ranks: a
/// padded table with a copy on the last stage and two neutral names, a pair of
/// matrices cut by sections, stacked transposed experts on layers 1 and 3, and
/// a norm that adds one.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_REFERENCE_EXAMPLE_H
#define DELTA_TEST_UNIT_REFERENCE_EXAMPLE_H

#include "tools/reference/Program.h"

namespace delta::reference::example {

inline Op op(std::string kind, std::vector<int64_t> in,
             std::vector<int64_t> out) {
  Op op;
  op.kind = std::move(kind);
  op.in = std::move(in);
  op.out = std::move(out);
  return op;
}

inline Op unshard(int64_t in, int64_t out, int64_t dim, std::string axis,
                  int64_t ways, std::vector<int64_t> sections = {}) {
  Op record = op("unshard", {in}, {out});
  record.dim = dim;
  record.axis = std::move(axis);
  record.ways = ways;
  record.sections = std::move(sections);
  return record;
}

inline Param param(std::string name, std::vector<int64_t> shape, Stage stage,
                   std::vector<int64_t> layers, int64_t value) {
  Param param;
  param.names = {std::move(name)};
  param.dtype = "bf16";
  param.shape = std::move(shape);
  param.stage = stage;
  param.layers = std::move(layers);
  param.value = value;
  return param;
}

/// `rows`: of the padded table. `etp`: ways of an expert's columns.
inline Side side(int64_t rows, int64_t etp) {
  Side side;
  side.numLayers = 4;
  side.numExperts = 4;
  side.params = {
      param("first.weight", {rows, 2}, Stage::First, {}, 0),
      param("layers.{layer}.pair", {8, 3}, Stage::Layers, {0, 1, 2, 3}, 1),
      param("last.weight", {rows, 2}, Stage::Last, {}, -1),
      param("layers.{layer}.expert{expert}", {2, 4}, Stage::Layers, {1, 3}, 2),
      param("layers.{layer}.norm", {3}, Stage::Layers, {0, 1, 2, 3}, 3)};
  side.params[1].names.push_back("layers.{layer}.old_pair");
  side.params[2].copyOf = 0;
  side.params[3].expert = true;
  side.params[4].dtype = "fp32";

  side.ops = {unshard(0, 10, 0, "tp", 2),         op("take", {10}, {11}),
              unshard(1, 12, 0, "tp", 2, {4, 4}), op("split", {12}, {13, 14}),
              unshard(2, 17, 1, "etp", etp),      op("transpose", {17}, {15}),
              op("add_scalar", {3}, {16})};
  side.ops[1].size = 7;
  side.ops[1].reason = "padding";
  side.ops[3].sizes = {4, 4};
  side.ops[5].permutation = {1, 0};
  side.ops[6].scalar = 1;

  side.tensors = {{"embed", "bf16", {7, 2}, 11, false},
                  {"h.{layer}.gate", "bf16", {4, 3}, 13, false},
                  {"h.{layer}.up", "bf16", {4, 3}, 14, false},
                  {"h.{layer}.experts", "bf16", {4, 4, 2}, 15, true},
                  {"h.{layer}.norm", "fp32", {3}, 16, false},
                  {"head", "bf16", {7, 2}, 11, false}};
  return side;
}

/// To two receivers of the neutral layout.
inline Program program() {
  Program program;
  program.model = "example";
  program.fingerprint[0] = 0x0123456789abcdef;
  program.fingerprint[1] = 0xfedcba9876543210;
  program.replicas = 2;
  program.source = side(8, 1);
  Geometry &geometry = program.source.geometry;
  geometry.tp = geometry.ep = geometry.pp = 2;
  geometry.stageLayers = {{2}, {2}};
  return program;
}

/// To two receivers of one stage: other padding, experts cut by columns.
inline Program resharded() {
  Program program = example::program();
  program.replicas = 1;
  program.destination = side(12, 2);
  Geometry &geometry = program.destination->geometry;
  geometry.tp = geometry.etp = 2;
  geometry.stageLayers = {{4}};
  return program;
}

} // namespace delta::reference::example

#endif // DELTA_TEST_UNIT_REFERENCE_EXAMPLE_H
