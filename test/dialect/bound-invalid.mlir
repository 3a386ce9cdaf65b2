// RUN: delta-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{'delta.side' op (side_c1) size of axis "tp" is 0 : i64, required an integer of at least 1}}
delta.side @source mesh {tp = 0} layers 1 experts 0 stages [[1]] {
}

// -----

// expected-error @below {{'delta.side' op (side_c1) size of axis "tp" is "two", required an integer of at least 1}}
delta.side @source mesh {tp = "two"} layers 1 experts 0 stages [[1]] {
}

// -----

// expected-error @below {{'delta.side' op (side_c2) stages hold 3 layers, required 4}}
delta.side @source mesh {} layers 4 experts 0 stages [[1], [2]] {
}

// -----

// expected-error @below {{'delta.side' op (side_c2) stage 4 : i64 is not a list}}
delta.side @source mesh {} layers 4 experts 0 stages [4] {
}

// -----

// expected-error @below {{'delta.side' op (side_c2) chunk -1 : i64 is not a number of layers}}
delta.side @source mesh {} layers 1 experts 0 stages [[2, -1]] {
}

// -----

// expected-error @below {{'delta.side' op (side_c2) stack 2 : i64 is not a number of layers and 'first' or 'last'}}
delta.side @source mesh {} layers 1 experts 0 stages [[1]] stacks [2] {
}

// -----

// expected-error @below {{'delta.side' op (side_c2) stack [2] is not a number of layers and 'first' or 'last'}}
delta.side @source mesh {} layers 1 experts 0 stages [[1]] stacks [[1, "last"], [2]] {
}

// -----

// expected-error @below {{'delta.side' op (side_c2) stack ["last", "last"] is not a number of layers and 'first' or 'last'}}
delta.side @source mesh {} layers 1 experts 0 stages [[1]] stacks [["last", "last"]] {
}

// -----

// expected-error @below {{'delta.side' op (side_c2) stack [2, "middle"] is not a number of layers and 'first' or 'last'}}
delta.side @source mesh {} layers 1 experts 0 stages [[1]] stacks [[2, "middle"]] {
}

// -----

// expected-error @below {{'delta.side' op (side_c2) stack [-1, "first"] is not a number of layers and 'first' or 'last'}}
delta.side @source mesh {} layers 1 experts 0 stages [[1]] stacks [[-1, "first"]] {
}

// -----

// expected-error @below {{'delta.side' op (side_c2) stack [65537, "first"] is not a number of layers and 'first' or 'last'}}
delta.side @source mesh {} layers 1 experts 0 stages [[1]] stacks [[65537, "first"]] {
}

// -----

// The layers of stacks are not the decoder's.
// expected-error @below {{'delta.side' op (side_c2) stages hold 1 layers, required 2}}
delta.side @source mesh {} layers 2 experts 0 stages [[1]] stacks [[1, "last"]] {
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first
  // expected-error @below {{'delta.apply' op (apply_c1) has 2 maps for 1 operands, required one for each}}
  %a = delta.apply %w by [#delta.map<ways 1, 8 -> 8>, #delta.map<ways 1, 8 -> 8>]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first
  // expected-error @below {{'delta.apply' op (apply_c1) maps lead into arrays of 8 and 9 elements, required one size}}
  %a = delta.apply %w, %w by [#delta.map<ways 1, 8 -> 8>, #delta.map<ways 1, 8 -> 9>]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  // expected-error @below {{'delta.param' op (on_c1) stage is 'middle', required 'first' or 'last'}}
  %w = delta.param "w" [8] : bf16 on middle
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first
  // expected-error @below {{'delta.copy' op (on_c1) stage is 'middle', required 'first' or 'last'}}
  delta.copy "c" of %w on middle
}

// -----

delta.side @source mesh {} layers 4 experts 0 stages [[4]] {
  // expected-error @below {{custom op 'delta.param' layers 3 to 1, required ascending numbers}}
  %w = delta.param "w" [8] : bf16 on layers(3 to 1)
}
