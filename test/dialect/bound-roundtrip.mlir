// Ops of bound sides: what passes read and write.
//
// RUN: delta-opt %s | FileCheck %s
// RUN: delta-opt %s | delta-opt | FileCheck %s
// RUN: delta-opt %s --mlir-print-op-generic | delta-opt | FileCheck %s

// CHECK: delta.side @source mesh {pp = 2 : i64, tp = 2 : i64} layers 5 experts 2 stages {{\[\[}}2, 1], [2, 0]] {
delta.side @source mesh {tp = 2, pp = 2} layers 5 experts 2 stages [[2, 1], [2, 0]] {
  // CHECK: %[[A:.*]] = delta.param "a" [8] : bf16 on first{{$}}
  %a = delta.param "a" [8] : bf16 on first
  // CHECK: delta.copy "a2" of %[[A]] on last
  delta.copy "a2" of %a on last
  // CHECK: %[[B:.*]] = delta.param "b.{layer}" [8] : f32 on layers(0 to 1, 4) {{[{]}}axis = "tp", local = array<i64: 4>, ways = 2 : i64}
  %b = delta.param "b.{layer}" [8] : f32 on layers(0, 1, 4) {axis = "tp", local = array<i64: 4>, ways = 2}
  // CHECK: delta.param "c.{layer}.{expert}" [8] : bf16 on layers(2) experts
  %c = delta.param "c.{layer}.{expert}" [8] : bf16 on layers(2) experts
  // CHECK: %[[D:.*]] = delta.apply %[[A]], %[[B]] by [#delta.map<ways 1, 8 -> 16, {0 -> 0, 8 x (1, 1)}>, #delta.map<ways 2, 4 -> 16, {0 -> 8 + 4 way, 4 x (1, 1)}>]{{$}}
  %d = delta.apply %a, %b by [#delta.map<ways 1, 8 -> 16, {0 -> 0, 8 x (1, 1)}>,
                              #delta.map<ways 2, 4 -> 16, {0 -> 8 + 4 way, 4 x (1, 1)}>]
  // CHECK: delta.apply %[[D]] by [#delta.map<ways 1, 16 -> 16, {0 -> 0, 16 x (1, 1)}>] op "add_one"
  %e = delta.apply %d by [#delta.map<ways 1, 16 -> 16, {0 -> 0, 16 x (1, 1)}>] op "add_one"
  // CHECK: delta.apply %[[D]] by [{{.*}}] to "f32"{{$}}
  %f = delta.apply %d by [#delta.map<ways 1, 16 -> 16, {0 -> 0, 16 x (1, 1)}>] to "f32"
  // CHECK: delta.apply %[[D]] by [{{.*}}] op "add_one" to "f32"{{$}}
  %g = delta.apply %d by [#delta.map<ways 1, 16 -> 16, {0 -> 0, 16 x (1, 1)}>] op "add_one" to "f32"
  // CHECK: delta.passthrough "inv_freq.{layer}" [4] : f32 on layers(0 to 4){{$}}
  delta.passthrough "inv_freq.{layer}" [4] : f32 on layers(0 to 4)
  // CHECK: delta.tensor "t" = %{{.*}} as [16] alias
  delta.tensor "t" = %e as [16] alias
}

// CHECK: delta.side @folded
// CHECK-SAME: placement [0, 0, 0, 0] expert_ranks [0, 0, 1, 0] {
delta.side @folded mesh {ep = 2} layers 1 experts 2 stages [[1]]
    placement [0, 0, 0, 0] expert_ranks [0, 0, 1, 0] {
}

// CHECK: delta.side @stacks
// CHECK-SAME: layers 1 experts 0 stages {{\[\[}}1]] stacks {{\[\[}}2, "first"], [1, "last"]] placement [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 0, 0, 0, 3] {
delta.side @stacks mesh {} layers 1 experts 0 stages [[1]]
    stacks [[2, "first"], [1, "last"]]
    placement [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 0, 0, 0, 3] {
}

// CHECK: delta.route source 1 way 2 hf 3 <ways 1, 4 -> 8, {0 -> 4, 4 x (1, 1)}> to [5, 6] ways [0, 1] [1, 2] [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>, #delta.map<ways 1, 4 -> 8, {0 -> 4, 4 x (1, 1)}>] op "add_one"
delta.route source 1 way 2 hf 3 <ways 1, 4 -> 8, {0 -> 4, 4 x (1, 1)}>
    to [5, 6] ways [0, 1] [1, 2]
    [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>,
     #delta.map<ways 1, 4 -> 8, {0 -> 4, 4 x (1, 1)}>] op "add_one"
