// RUN: delta-opt %s --delta-compose-maps -split-input-file -verify-diagnostics

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  // expected-error @below {{'delta.reshape' op is not folded yet}}
  %r = delta.reshape %w [2, 2]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  // expected-error @below {{'delta.apply' op map from an array of 5 elements, its operand has 4}}
  %a = delta.apply %w by [#delta.map<ways 1, 5 -> 5, {0 -> 0, 5 x (1, 1)}>]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first {axis = "tp", local = array<i64: 4>, ways = 2}
  // expected-error @below {{'delta.apply' op map of 3 ways after one of 2}}
  %a = delta.apply %w by [#delta.map<ways 3, 4 -> 12, {0 -> 0 + 4 way, 4 x (1, 1)}>]
}
