// RUN: delta-opt %s --delta-fold-tensor-parallel | FileCheck %s

// Rows of all ranks in rank order: one run a way.
// CHECK-LABEL: delta.side @rows
// CHECK: %[[W:.*]] = delta.param "w" [8, 4] : bf16 on first {axis = "tp", local = array<i64: 4, 4>, ways = 2 : i64}
// CHECK: delta.apply %[[W]] by [#delta.map<ways 2, 16 -> 32, {0 -> 0 + 16 way, 16 x (1, 1)}>]
// CHECK-NOT: delta.unshard
delta.side @rows mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8, 4] : bf16 on first
  %all = delta.unshard %w dim 0 over tp ways 2
  delta.tensor "t" = %all as [8, 4]
}

// Columns: a run a row.
// CHECK-LABEL: delta.side @columns
// CHECK: local = array<i64: 3, 2>
// CHECK: #delta.map<ways 2, 6 -> 12, {0 -> 0 + 2 way, 3 x (2, 4), 2 x (1, 1)}>
delta.side @columns mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [3, 4] : bf16 on first
  %all = delta.unshard %w dim 1 over tp ways 2
  delta.tensor "t" = %all as [3, 4]
}

// A rank holds its part of each section, one after the other.
// CHECK-LABEL: delta.side @sections_of_gate_and_up
// CHECK: #delta.map<ways 2, 12 -> 24, {0 -> 0 + 6 way, 6 x (1, 1)}, {6 -> 12 + 6 way, 6 x (1, 1)}>
delta.side @sections_of_gate_and_up mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8, 3] : bf16 on first
  %all = delta.unshard %w dim 0 over tp ways 2 sections [4, 4]
  delta.tensor "t" = %all as [8, 3]
}

// Fewer ways than ranks: the parameter has that many distinct shards.
// CHECK-LABEL: delta.side @two_ways_of_four_ranks
// CHECK: axis = "tp", local = array<i64: 2>, ways = 2
// CHECK: #delta.map<ways 2, 2 -> 4, {0 -> 0 + 2 way, 2 x (1, 1)}>
delta.side @two_ways_of_four_ranks mesh {tp = 4} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %all = delta.unshard %w dim 0 over tp ways 2
  delta.tensor "t" = %all as [4]
}

// CHECK-LABEL: delta.side @expert_axis
// CHECK: on layers(0) experts {axis = "etp"
delta.side @expert_axis mesh {etp = 2} layers 1 experts 2 stages [[1]] {
  %w = delta.param "w{layer}.{expert}" [4] : bf16 on layers(0) experts
  %all = delta.unshard %w dim 0 over etp ways 2
  delta.tensor "t{layer}.{expert}" = %all as [4]
}

// What no `unshard` reads is whole on every rank.
// CHECK-LABEL: delta.side @replicated
// CHECK: delta.param "w" [4] : bf16 on first{{$}}
delta.side @replicated mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  delta.tensor "t" = %w as [4]
}
