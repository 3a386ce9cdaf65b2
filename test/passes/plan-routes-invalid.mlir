// RUN: delta-opt %s --delta-plan-routes -split-input-file -verify-diagnostics

// expected-error @below {{module has no side '@source'}}
module {
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  // expected-error @below {{'delta.tensor' op is not composed yet}}
  delta.tensor "t" = %w as [4]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %b = delta.apply %a by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op is not composed yet}}
  delta.tensor "t" = %b as [4]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op tensor "t" of shape [2, 2], in the destination [4]}}
  delta.tensor "t" = %a as [2, 2]
}
delta.side @destination mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "t" = %a as [4]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op tensor "t" of shape [4], the destination has none in these layers}}
  delta.tensor "t" = %a as [4]
}
delta.side @destination mesh {} layers 1 experts 0 stages [[1]] {
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
}
delta.side @destination mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op tensor "t" of shape [4], the source has none in these layers}}
  delta.tensor "t" = %a as [4]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "t" = %a as [4]
}
delta.side @destination mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [3] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 3 -> 4, {0 -> 0, 3 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op destination receives 3 of 4 elements of class 0 way 0}}
  delta.tensor "t" = %a as [4]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>] op "add_one"
  delta.tensor "t" = %a as [4]
}
delta.side @destination mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op tensor "t" has another value op on the way than in the source}}
  delta.tensor "t" = %a as [4]
}
