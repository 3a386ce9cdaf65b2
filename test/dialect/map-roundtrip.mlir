// Maps of all ways, in the form that shows what they have in common.
//
// RUN: delta-opt %s | FileCheck %s
// RUN: delta-opt %s | delta-opt | FileCheck %s
// RUN: delta-opt %s --mlir-print-op-generic | delta-opt | FileCheck %s

// CHECK-LABEL: delta.block @maps
// CHECK: affine = #delta.map<ways 4, 8 -> 32, {0 -> 0 + 8 way, 8 x (1, 1)}>
// CHECK-SAME: both_steps = #delta.map<ways 2, 8 -> 8, {0 + 4 way -> 0 + 4 way, 4 x (1, 1)}>
// CHECK-SAME: empty = #delta.map<ways 1, 4 -> 4>
// CHECK-SAME: loops = #delta.map<ways 1, 12 -> 12, {0 -> 0, 3 x (4, 1), 4 x (1, 3)}>
// CHECK-SAME: one_element = #delta.map<ways 1, 4 -> 4, {3 -> 2}>
// CHECK-SAME: pieces = #delta.map<ways 1, 8 -> 8, {0 -> 4, 4 x (1, 1)}, {4 -> 0, 4 x (1, 1)}>
// CHECK-SAME: some_ways = #delta.map<ways 3, 4 -> 8, {ways 0 to 1: 0 -> 0 + 4 way, 4 x (1, 1)}>
delta.block @maps {} {
  affine = #delta.map<ways 4, 8 -> 32, {ways 0 to 3: 0 -> 0 + 8 way, 8 x (1, 1)}>,
  both_steps = #delta.map<ways 2, 8 -> 8, {0 + 4 way -> 0 + 4 way, 4 x (1, 1)}>,
  empty = #delta.map<ways 1, 4 -> 4>,
  loops = #delta.map<ways 1, 12 -> 12, {0 -> 0, 3 x (4, 1), 4 x (1, 3)}>,
  one_element = #delta.map<ways 1, 4 -> 4, {3 -> 2}>,
  pieces = #delta.map<ways 1, 8 -> 8, {0 -> 4, 4 x (1, 1)}, {4 -> 0, 4 x (1, 1)}>,
  some_ways = #delta.map<ways 3, 4 -> 8, {ways 0 to 1: 0 -> 0 + 4 way, 4 x (1, 1)}>}

// Equal steps of different ways become one piece; others stay apart.
// CHECK-LABEL: delta.block @compressed
// CHECK: apart = #delta.map<ways 2, 4 -> 8, {ways 0 to 0: 0 -> 0, 4 x (1, 1)}, {ways 1 to 1: 0 -> 6, 2 x (1, 1)}>
// CHECK-SAME: joined = #delta.map<ways 2, 4 -> 8, {0 -> 0 + 4 way, 4 x (1, 1)}>
delta.block @compressed {} {
  apart = #delta.map<ways 2, 4 -> 8, {ways 0 to 0: 0 -> 0, 4 x (1, 1)},
                     {ways 1 to 1: 0 -> 6, 2 x (1, 1)}>,
  joined = #delta.map<ways 2, 4 -> 8, {ways 0 to 0: 0 -> 0, 4 x (1, 1)},
                      {ways 1 to 1: 0 -> 4, 4 x (1, 1)}>}
