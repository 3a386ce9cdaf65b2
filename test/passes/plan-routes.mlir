// RUN: delta-opt %s --delta-plan-routes -split-input-file | FileCheck %s

// The checkpoint's layout is the destination: a route for every piece of every
// way, sorted by the source.
// CHECK-LABEL: module @hf
// CHECK: delta.route source 0 way 0 hf 0 <ways 1, 4 -> 8, {0 -> 0, 2 x (1, 1)}> to [0] ways [0] [1] [#delta.map<ways 1, 4 -> 8, {0 -> 0, 2 x (1, 1)}>]
// CHECK-NEXT: delta.route source 0 way 0 hf 0 <ways 1, 4 -> 8, {2 -> 4, 2 x (1, 1)}>
// CHECK-NEXT: delta.route source 0 way 1 hf 0 <ways 1, 4 -> 8, {0 -> 2, 2 x (1, 1)}>
// CHECK-NEXT: delta.route source 0 way 1 hf 0 <ways 1, 4 -> 8, {2 -> 6, 2 x (1, 1)}>
// CHECK-NOT: delta.route
module @hf {
delta.side @source mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first {axis = "tp", local = array<i64: 4>, ways = 2}
  %a = delta.apply %w by [#delta.map<ways 2, 4 -> 8, {0 -> 0 + 2 way, 2 x (4, 4), 2 x (1, 1)}>]
  %b = delta.apply %w by [#delta.map<ways 2, 4 -> 8, {0 -> 0 + 2 way, 2 x (1, 1)}, {2 -> 4 + 2 way, 2 x (1, 1)}>]
  delta.tensor "t" = %b as [8]
}
}

// -----

// An alias of the tensor is one more image; the value op stays.
// CHECK-LABEL: module @aliases
// CHECK: delta.route source 0 way 0 hf 0 {{.*}} to [0, 1] ways [0, 0] [1, 1] [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>, #delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>] op "add_one"
// CHECK-NOT: delta.route
module @aliases {
delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>] op "add_one"
  delta.tensor "t" = %a as [4]
  delta.tensor "u" = %a as [4] alias
}
}

// -----

// Rows that a drop takes have no route.
// CHECK-LABEL: module @drop
// CHECK: delta.route source 0 way 0 hf 0 <ways 1, 4 -> 3, {0 -> 0, 3 x (1, 1)}>
// CHECK-NOT: delta.route
module @drop {
delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 3, {0 -> 0, 3 x (1, 1)}>]
  %b = delta.apply %w by [#delta.map<ways 1, 4 -> 1, {3 -> 0}>]
  delta.tensor "t" = %a as [3]
  delta.drop %b because "padding"
}
}

// -----

// TP2 to TP4: each source shard goes to two destination ways.
// CHECK-LABEL: module @tp2_to_tp4
// CHECK: delta.route source 0 way 0 hf 0 <ways 1, 4 -> 8, {0 -> 0, 2 x (1, 1)}> to [0] ways [0] [1] [#delta.map<ways 1, 4 -> 2, {0 -> 0, 2 x (1, 1)}>]
// CHECK-NEXT: delta.route source 0 way 0 hf 0 <ways 1, 4 -> 8, {2 -> 2, 2 x (1, 1)}> to [0] ways [1] [2] [#delta.map<ways 1, 4 -> 2, {2 -> 0, 2 x (1, 1)}>]
// CHECK-NEXT: delta.route source 0 way 1 hf 0 {{.*}} to [0] ways [2] [3]
// CHECK-NEXT: delta.route source 0 way 1 hf 0 {{.*}} to [0] ways [3] [4]
// CHECK-NOT: delta.route
module @tp2_to_tp4 {
delta.side @source mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first {axis = "tp", local = array<i64: 4>, ways = 2}
  %a = delta.apply %w by [#delta.map<ways 2, 4 -> 8, {0 -> 0 + 4 way, 4 x (1, 1)}>]
  delta.tensor "t" = %a as [8]
}
delta.side @destination mesh {tp = 4} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first {axis = "tp", local = array<i64: 2>, ways = 4}
  %a = delta.apply %w by [#delta.map<ways 4, 2 -> 8, {0 -> 0 + 2 way, 2 x (1, 1)}>]
  delta.tensor "t" = %a as [8]
}
}

// -----

// One key/value group of four rows (two of queries, key, value): whole in the
// source, cut between the queries and behind the key in the destination.
// CHECK-LABEL: module @group_cut_in_the_middle
// CHECK: delta.route source 0 way 0 hf 0 <ways 1, 4 -> 2, {0 -> 0}> to [0] ways [0] [1] [#delta.map<ways 1, 4 -> 1, {0 -> 0}>]
// CHECK-NEXT: delta.route source 0 way 0 hf 0 <ways 1, 4 -> 2, {1 -> 1}> to [0] ways [1] [2] [#delta.map<ways 1, 4 -> 1, {1 -> 0}>]
// CHECK-NEXT: delta.route source 0 way 0 hf 1 <ways 1, 4 -> 1, {2 -> 0}> to [0] ways [2] [3]
// CHECK-NEXT: delta.route source 0 way 0 hf 2 <ways 1, 4 -> 1, {3 -> 0}> to [0] ways [3] [4]
// CHECK-NOT: delta.route
module @group_cut_in_the_middle {
delta.side @source mesh {tp = 1} layers 1 experts 0 stages [[1]] {
  %w = delta.param "qkv" [4] : bf16 on first
  %q = delta.apply %w by [#delta.map<ways 1, 4 -> 2, {0 -> 0, 2 x (1, 1)}>]
  %k = delta.apply %w by [#delta.map<ways 1, 4 -> 1, {2 -> 0}>]
  %v = delta.apply %w by [#delta.map<ways 1, 4 -> 1, {3 -> 0}>]
  delta.tensor "q" = %q as [2]
  delta.tensor "k" = %k as [1]
  delta.tensor "v" = %v as [1]
}
delta.side @destination mesh {tp = 4} layers 1 experts 0 stages [[1]] {
  %w = delta.param "qkv" [4] : bf16 on first {axis = "tp", local = array<i64: 1>, ways = 4}
  %q = delta.apply %w by [#delta.map<ways 4, 1 -> 2, {ways 0 to 1: 0 -> 0 + 1 way}>]
  %k = delta.apply %w by [#delta.map<ways 4, 1 -> 1, {ways 2 to 2: 0 -> 0}>]
  %v = delta.apply %w by [#delta.map<ways 4, 1 -> 1, {ways 3 to 3: 0 -> 0}>]
  delta.tensor "q" = %q as [2]
  delta.tensor "k" = %k as [1]
  delta.tensor "v" = %v as [1]
}
}

// -----

// A copy in the destination is written too; one in the source sends nothing.
// CHECK-LABEL: module @copies
// CHECK: delta.route source 0 way 0 hf 0 {{.*}} to [0, 1] ways [0, 0] [1, 1]
// CHECK-NOT: delta.route
module @copies {
delta.side @source mesh {pp = 2} layers 2 experts 0 stages [[1], [1]] {
  %w = delta.param "w" [4] : bf16 on first
  delta.copy "head" of %w on last
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "t" = %a as [4]
}
delta.side @destination mesh {pp = 2} layers 2 experts 0 stages [[1], [1]] {
  %w = delta.param "w" [4] : bf16 on first
  delta.copy "head" of %w on last
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "t" = %a as [4]
}
}

// -----

// Places of a stack are those in one expert's slice.
// CHECK-LABEL: module @stacked
// CHECK: delta.route source 0 way 0 hf 0 <ways 1, 6 -> 6, {0 -> 0, 2 x (3, 1), 3 x (1, 2)}> to [0]
// CHECK-NOT: delta.route
module @stacked {
delta.side @source mesh {ep = 2} layers 1 experts 4 stages [[1]] {
  %w = delta.param "{layer}.w{expert}" [2, 3] : bf16 on layers(0) experts
  %a = delta.apply %w by [#delta.map<ways 1, 6 -> 6, {0 -> 0, 2 x (3, 1), 3 x (1, 2)}>]
  delta.tensor "{layer}.t" = %a as [4, 3, 2] stacked
}
}

// -----

// Tensors of two kinds of layers may share a template: layers tell them apart.
// CHECK-LABEL: module @kinds_of_layers
// CHECK: delta.route source 0 way 0 hf 0 {{.*}} to [0]
// CHECK-NEXT: delta.route source 1 way 0 hf 1 {{.*}} to [1]
// CHECK-NOT: delta.route
module @kinds_of_layers {
delta.side @source mesh {} layers 2 experts 0 stages [[2]] {
  %w = delta.param "a.{layer}" [4] : bf16 on layers(0)
  %v = delta.param "b.{layer}" [4] : bf16 on layers(1)
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %b = delta.apply %v by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "norm.{layer}" = %a as [4]
  delta.tensor "norm.{layer}" = %b as [4]
}
delta.side @destination mesh {} layers 2 experts 0 stages [[2]] {
  %w = delta.param "a.{layer}" [4] : bf16 on layers(0)
  %v = delta.param "b.{layer}" [4] : bf16 on layers(1)
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %b = delta.apply %v by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "norm.{layer}" = %a as [4]
  delta.tensor "norm.{layer}" = %b as [4]
}
}
