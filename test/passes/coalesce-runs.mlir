// RUN: delta-opt %s --delta-coalesce-runs | FileCheck %s

// CHECK-LABEL: delta.side @neighbors
// CHECK: by [#delta.map<ways 1, 8 -> 8, {0 -> 0, 8 x (1, 1)}>]
// CHECK: by [#delta.map<ways 1, 8 -> 8, {0 -> 0, 8 x (1, 1)}>]
// CHECK: by [#delta.map<ways 1, 8 -> 8, {0 -> 0, 8 x (1, 1)}>]
delta.side @neighbors mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first
  %pieces = delta.apply %w by [#delta.map<ways 1, 8 -> 8, {4 -> 4, 4 x (1, 1)}, {0 -> 0, 4 x (1, 1)}>]
  %loops = delta.apply %w by [#delta.map<ways 1, 8 -> 8, {0 -> 0, 2 x (4, 4), 4 x (1, 1)}>]
  %elements = delta.apply %w by [#delta.map<ways 1, 8 -> 8, {0 -> 0, 8 x (1, 1), 1 x (3, 5)}>]
}

// Neighbors in the source only, or in the destination only, stay apart.
// CHECK-LABEL: delta.side @apart
// CHECK: by [#delta.map<ways 1, 8 -> 8, {0 -> 4, 4 x (1, 1)}, {4 -> 0, 4 x (1, 1)}>]
// CHECK: by [#delta.map<ways 1, 8 -> 8, {0 -> 0, 2 x (4, 2), 2 x (1, 1)}>]
delta.side @apart mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first
  %swapped = delta.apply %w by [#delta.map<ways 1, 8 -> 8, {0 -> 4, 4 x (1, 1)}, {4 -> 0, 4 x (1, 1)}>]
  %strided = delta.apply %w by [#delta.map<ways 1, 8 -> 8, {0 -> 0, 2 x (4, 2), 2 x (1, 1)}>]
}

// Each way by itself; the way that needs two pieces keeps them.
// CHECK-LABEL: delta.side @ways
// CHECK: {ways 0 to 0: 0 -> 0, 4 x (1, 1)}, {ways 1 to 1: 0 -> 6, 2 x (1, 1)}, {ways 1 to 1: 2 -> 4, 2 x (1, 1)}
delta.side @ways mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first {axis = "tp", local = array<i64: 4>, ways = 2}
  %a = delta.apply %w by [#delta.map<ways 2, 4 -> 8,
      {ways 0 to 0: 0 -> 0, 2 x (1, 1)}, {ways 0 to 0: 2 -> 2, 2 x (1, 1)},
      {ways 1 to 1: 0 -> 6, 2 x (1, 1)}, {ways 1 to 1: 2 -> 4, 2 x (1, 1)}>]
}

// Overlaps are not hidden: that is for the proof to find.
// CHECK-LABEL: delta.side @twice
// CHECK: {0 -> 0, 4 x (1, 1)}, {0 -> 0, 4 x (1, 1)}
delta.side @twice mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}, {0 -> 0, 4 x (1, 1)}>]
}
