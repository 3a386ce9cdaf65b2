// RUN: delta-opt %s --delta-compose-maps | FileCheck %s

// CHECK-LABEL: delta.side @chain
// CHECK: %[[W:.*]] = delta.param
// CHECK-NEXT: %[[A:.*]] = delta.apply %[[W]] by [#delta.map<ways 1, 8 -> 3, {5 -> 0, 3 x (1, 1)}>]
// CHECK-NEXT: delta.tensor "t" = %[[A]]
delta.side @chain mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first
  %1 = delta.apply %w by [#delta.map<ways 1, 8 -> 6, {2 -> 0, 6 x (1, 1)}>]
  %2 = delta.apply %1 by [#delta.map<ways 1, 6 -> 3, {3 -> 0, 3 x (1, 1)}>]
  delta.tensor "t" = %2 as [3]
}

// A tensor of a parameter itself gets the identity, so that all read an apply.
// CHECK-LABEL: delta.side @nothing_between
// CHECK: delta.apply %{{.*}} by [#delta.map<ways 1, 8 -> 8, {0 -> 0, 8 x (1, 1)}>]
delta.side @nothing_between mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first
  delta.tensor "t" = %w as [8]
}

// The cut of tp goes through the middle of the second half.
// CHECK-LABEL: delta.side @each_way_by_itself
// CHECK: #delta.map<ways 2, 4 -> 3, {ways 0 to 0: 0 -> 0, 3 x (1, 1)}>
// CHECK: #delta.map<ways 2, 4 -> 5, {ways 0 to 0: 3 -> 0}, {ways 1 to 1: 0 -> 1, 4 x (1, 1)}>
delta.side @each_way_by_itself mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first {axis = "tp", local = array<i64: 4>, ways = 2}
  %all = delta.apply %w by [#delta.map<ways 2, 4 -> 8, {0 -> 0 + 4 way, 4 x (1, 1)}>]
  %a = delta.apply %all by [#delta.map<ways 1, 8 -> 3, {0 -> 0, 3 x (1, 1)}>]
  %b = delta.apply %all by [#delta.map<ways 1, 8 -> 5, {3 -> 0, 5 x (1, 1)}>]
  delta.tensor "a" = %a as [3]
  delta.tensor "b" = %b as [5]
}

// CHECK-LABEL: delta.side @two_parameters_and_a_value_op
// CHECK: %[[A:.*]] = delta.param "a"
// CHECK: %[[B:.*]] = delta.param "b"
// CHECK: delta.apply %[[A]], %[[B]] by [#delta.map<ways 1, 2 -> 4, {0 -> 2, 2 x (1, 1)}>, #delta.map<ways 1, 2 -> 4, {0 -> 0, 2 x (1, 1)}>] op "add_one"
delta.side @two_parameters_and_a_value_op mesh {} layers 1 experts 0 stages [[1]] {
  %a = delta.param "a" [2] : bf16 on first
  %b = delta.param "b" [2] : bf16 on first
  %1 = delta.apply %a, %b by [#delta.map<ways 1, 2 -> 4, {0 -> 0, 2 x (1, 1)}>,
                              #delta.map<ways 1, 2 -> 4, {0 -> 2, 2 x (1, 1)}>] op "add_one"
  %2 = delta.apply %1 by [#delta.map<ways 1, 4 -> 4, {0 -> 2, 2 x (1, 1)}, {2 -> 0, 2 x (1, 1)}>]
  delta.tensor "t" = %2 as [4]
}

// A cast and the op before it are those of the composed map, wherever they
// stand in the chain.
// CHECK-LABEL: delta.side @value_op_and_cast
// CHECK: delta.apply %{{.*}} by [#delta.map<ways 1, 4 -> 4, {0 -> 2, 2 x (1, 1)}, {2 -> 0, 2 x (1, 1)}>] op "add_one" to "f32"{{$}}
// CHECK: delta.apply %{{.*}} by [#delta.map<ways 1, 4 -> 4, {0 -> 2, 2 x (1, 1)}, {2 -> 0, 2 x (1, 1)}>] to "f32"{{$}}
delta.side @value_op_and_cast mesh {} layers 1 experts 0 stages [[1]] {
  %a = delta.param "a" [4] : bf16 on first
  %b = delta.param "b" [4] : bf16 on first
  %1 = delta.apply %a by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>] op "add_one"
  %2 = delta.apply %1 by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>] to "f32"
  %3 = delta.apply %2 by [#delta.map<ways 1, 4 -> 4, {0 -> 2, 2 x (1, 1)}, {2 -> 0, 2 x (1, 1)}>]
  delta.tensor "t" = %3 as [4]
  %4 = delta.apply %b by [#delta.map<ways 1, 4 -> 4, {0 -> 2, 2 x (1, 1)}, {2 -> 0, 2 x (1, 1)}>]
  %5 = delta.apply %4 by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>] to "f32"
  delta.tensor "u" = %5 as [4]
}

// One parameter by two ways round is one operand.
// CHECK-LABEL: delta.side @parts_of_one_parameter
// CHECK: delta.apply %{{[^,]*}} by [#delta.map<ways 1, 4 -> 4, {0 -> 2, 2 x (1, 1)}, {2 -> 0, 2 x (1, 1)}>]{{$}}
delta.side @parts_of_one_parameter mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 2, {0 -> 0, 2 x (1, 1)}>]
  %b = delta.apply %w by [#delta.map<ways 1, 4 -> 2, {2 -> 0, 2 x (1, 1)}>]
  %1 = delta.apply %b, %a by [#delta.map<ways 1, 2 -> 4, {0 -> 0, 2 x (1, 1)}>,
                              #delta.map<ways 1, 2 -> 4, {0 -> 2, 2 x (1, 1)}>]
  delta.tensor "t" = %1 as [4]
}

// CHECK-LABEL: delta.side @drop
// CHECK: %[[A:.*]] = delta.apply %{{.*}} by [#delta.map<ways 1, 4 -> 1, {3 -> 0}>]
// CHECK: delta.drop %[[A]] because "padding"
delta.side @drop mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 2, {2 -> 0, 2 x (1, 1)}>]
  %b = delta.apply %a by [#delta.map<ways 1, 2 -> 1, {1 -> 0}>]
  delta.drop %b because "padding"
}
