// RUN: delta-opt %s --delta-fold-deinterleave | FileCheck %s

// CHECK-LABEL: delta.side @reshape_moves_nothing
// CHECK: delta.apply %{{.*}} by [#delta.map<ways 1, 12 -> 12, {0 -> 0, 12 x (1, 1)}>] {shape = array<i64: 3, 4>}
// CHECK-NOT: delta.reshape
delta.side @reshape_moves_nothing mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [12] : bf16 on first
  %r = delta.reshape %w [3, 4]
  delta.tensor "t" = %r as [3, 4]
}

// CHECK-LABEL: delta.side @transpose
// CHECK: #delta.map<ways 1, 6 -> 6, {0 -> 0, 2 x (3, 1), 3 x (1, 2)}>
delta.side @transpose mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [2, 3] : bf16 on first
  %t = delta.transpose %w [1, 0]
  delta.tensor "t" = %t as [3, 2]
}

// Query, key and value of each of two groups.
// CHECK-LABEL: delta.side @split_of_groups
// CHECK: #delta.map<ways 1, 16 -> 8, {0 -> 0, 2 x (8, 4), 4 x (1, 1)}>
// CHECK: #delta.map<ways 1, 16 -> 4, {4 -> 0, 2 x (8, 2), 2 x (1, 1)}>
// CHECK: #delta.map<ways 1, 16 -> 4, {6 -> 0, 2 x (8, 2), 2 x (1, 1)}>
delta.side @split_of_groups mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [2, 4, 2] : bf16 on first
  %q, %k, %v = delta.split %w dim 1 [2, 1, 1]
  delta.tensor "q" = %q as [8]
  delta.tensor "k" = %k as [4]
  delta.tensor "v" = %v as [4]
}

// CHECK-LABEL: delta.side @concat
// CHECK: delta.apply %[[A:.*]], %[[B:.*]] by [#delta.map<ways 1, 4 -> 10, {0 -> 0, 2 x (2, 5), 2 x (1, 1)}>, #delta.map<ways 1, 6 -> 10, {0 -> 2, 2 x (3, 5), 3 x (1, 1)}>]
delta.side @concat mesh {} layers 1 experts 0 stages [[1]] {
  %a = delta.param "a" [2, 2] : bf16 on first
  %b = delta.param "b" [2, 3] : bf16 on first
  %c = delta.concat %a, %b dim 1
  delta.tensor "t" = %c as [10]
}

// Index k of operand j of m becomes k*m + j.
// CHECK-LABEL: delta.side @interleave
// CHECK: by [#delta.map<ways 1, 3 -> 6, {0 -> 0, 3 x (1, 2)}>, #delta.map<ways 1, 3 -> 6, {0 -> 1, 3 x (1, 2)}>]
delta.side @interleave mesh {} layers 1 experts 0 stages [[1]] {
  %a = delta.param "a" [3] : bf16 on first
  %b = delta.param "b" [3] : bf16 on first
  %c = delta.interleave %a, %b dim 0
  delta.tensor "t" = %c as [6]
}

// What a `take` leaves out is dropped for its reason.
// CHECK-LABEL: delta.side @take
// CHECK-DAG: %[[REST:.*]] = delta.apply %{{.*}} by [#delta.map<ways 1, 8 -> 2, {6 -> 0, 2 x (1, 1)}>]
// CHECK-DAG: delta.drop %[[REST]] because "vocabulary padding"
// CHECK-DAG: %[[KEPT:.*]] = delta.apply %{{.*}} by [#delta.map<ways 1, 8 -> 6, {0 -> 0, 6 x (1, 1)}>]
// CHECK: delta.tensor "t" = %[[KEPT]]
delta.side @take mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4, 2] : bf16 on first
  %t = delta.take %w dim 0 first 3 because "vocabulary padding"
  delta.tensor "t" = %t as [3, 2]
}

// CHECK-LABEL: delta.side @take_of_all_drops_nothing
// CHECK-NOT: delta.drop
// CHECK: delta.tensor
delta.side @take_of_all_drops_nothing mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4, 2] : bf16 on first
  %t = delta.take %w dim 0 first 4 because "vocabulary padding"
  delta.tensor "t" = %t as [4, 2]
}

// CHECK-LABEL: delta.side @value_op
// CHECK: delta.apply %{{.*}} by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>] op "add_one"
delta.side @value_op mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %t = delta.add_scalar %w 1
  delta.tensor "t" = %t as [4]
}

// The type is one of the value on its way; an op before it stays an op of its
// own until maps are composed.
// CHECK-LABEL: delta.side @cast_after_a_value_op
// CHECK: %[[P:.*]] = delta.apply %{{.*}} by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>] op "add_one" {shape = array<i64: 4>}
// CHECK: delta.apply %[[P]] by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>] to "f32" {shape = array<i64: 4>}
delta.side @cast_after_a_value_op mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %p = delta.add_scalar %w 1
  %t = delta.cast %p : f32
  delta.tensor "t" = %t as [4]
}

// Shards stay: they are another pass's.
// CHECK-LABEL: delta.side @unshard_stays
// CHECK: %[[U:.*]] = delta.unshard
// CHECK: delta.apply %[[U]] by
delta.side @unshard_stays mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %u = delta.unshard %w dim 0 over tp ways 2
  %r = delta.reshape %u [2, 2]
  delta.tensor "t" = %r as [2, 2]
}
