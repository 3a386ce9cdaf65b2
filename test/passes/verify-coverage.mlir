// What is right passes and stays as it is.
//
// RUN: delta-opt %s --delta-verify-coverage | FileCheck %s

// CHECK-LABEL: delta.side @identity
// CHECK: delta.tensor "t"
delta.side @identity mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  %w = delta.param "w" [8] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 8 -> 8, {0 -> 0, 8 x (1, 1)}>]
  delta.tensor "t" = %a as [8]
}

// Two parameters interleaved, one of them cut over two ranks.
// CHECK-LABEL: delta.side @interleaved_owners
delta.side @interleaved_owners mesh {tp = 2} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  %w = delta.param "w" [4] : bf16 on first {axis = "tp", local = array<i64: 2>, ways = 2}
  %v = delta.param "v" [4] : bf16 on first
  %a = delta.apply %w, %v by [#delta.map<ways 2, 2 -> 8, {0 -> 0 + 4 way, 2 x (1, 2)}>,
                              #delta.map<ways 1, 4 -> 8, {0 -> 1, 4 x (1, 2)}>]
  delta.tensor "t" = %a as [8]
}

// A part in a tensor, the rest dropped.
// CHECK-LABEL: delta.side @drop
delta.side @drop mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  %w = delta.param "w" [8] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 8 -> 6, {0 -> 0, 6 x (1, 1)}>]
  %b = delta.apply %w by [#delta.map<ways 1, 8 -> 2, {6 -> 0, 2 x (1, 1)}>]
  delta.tensor "t" = %a as [6]
  delta.drop %b because "padding"
}

// An alias is a second name, not a second image.
// CHECK-LABEL: delta.side @alias
delta.side @alias mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  %w = delta.param "w" [8] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 8 -> 8, {0 -> 0, 8 x (1, 1)}>]
  delta.tensor "t" = %a as [8]
  delta.tensor "u" = %a as [8] alias
}

// A stack's maps lead into one expert's slice.
// CHECK-LABEL: delta.side @stacked
delta.side @stacked mesh {ep = 2} layers 1 experts 2 stages [[1]] placement [0, 0, 0, 0] expert_ranks [0, 0, 1, 0] {
  %w = delta.param "{layer}.w{expert}" [4] : bf16 on layers(0) experts
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "{layer}.t" = %a as [2, 4] stacked
}

// Names of different layers, stages or parameters of one op do not clash.
// CHECK-LABEL: delta.side @one_name_in_two_places
delta.side @one_name_in_two_places mesh {pp = 2} layers 2 experts 0 stages [[1], [1]] placement [0, 0, 0, 0, 1, 0, 0, 1] expert_ranks [] {
  %a = delta.param "w.{layer}" | "old.{layer}" [4] : bf16 on layers(0)
  %b = delta.param "w.{layer}" | "old.{layer}" [4] : bf16 on layers(1)
  %c = delta.param "table" [4] : bf16 on first
  %d = delta.param "table" [4] : bf16 on last
  %1 = delta.apply %a by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %2 = delta.apply %b by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %3 = delta.apply %c by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %4 = delta.apply %d by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "t.{layer}" = %1 as [4]
  delta.tensor "t.{layer}" = %2 as [4]
  delta.tensor "first" = %3 as [4]
  delta.tensor "last" = %4 as [4]
}

// Strides 4 and 6 do not nest in one another: MLIR's Presburger library finds
// that 0, 4, 8, 12 and 3, 9 have nothing in common.
// CHECK-LABEL: delta.side @strides_that_do_not_nest
delta.side @strides_that_do_not_nest mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  %a = delta.param "a" [4] : bf16 on first
  %b = delta.param "b" [2] : bf16 on first
  %c = delta.param "c" [8] : bf16 on first
  %1 = delta.apply %a, %b, %c by [
      #delta.map<ways 1, 4 -> 14, {0 -> 0, 4 x (1, 4)}>,
      #delta.map<ways 1, 2 -> 14, {0 -> 3, 2 x (1, 6)}>,
      #delta.map<ways 1, 8 -> 14, {0 -> 1, 2 x (1, 1)}, {2 -> 5, 3 x (1, 1)}, {5 -> 10, 2 x (1, 1)}, {7 -> 13}>]
  delta.tensor "t" = %1 as [14]
}

// 0, 2, 3, 5: strides of one piece that do not nest, and yet no element twice.
// CHECK-LABEL: delta.side @strides_of_one_piece
delta.side @strides_of_one_piece mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  %w = delta.param "w" [6] : bf16 on first
  %1 = delta.apply %w by [
      #delta.map<ways 1, 6 -> 6, {0 -> 0, 2 x (2, 3), 2 x (1, 2)}, {4 -> 1, 2 x (1, 3)}>]
  delta.tensor "t" = %1 as [6]
}
