// Bound text that does not fit together; a bound family never gives it.
//
// RUN: delta-opt %s --delta-fold-deinterleave -split-input-file -verify-diagnostics

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  // expected-error @below {{'delta.param' op size 'H' is not a number; bind the module first}}
  %w = delta.param "w" [H] : bf16 on first
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4, 2] : bf16 on first
  // expected-error @below {{'delta.reshape' op (reshape_c1) has 9 elements, its operand 8}}
  %r = delta.reshape %w [3, 3]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4, 2] : bf16 on first
  // expected-error @below {{'delta.transpose' op (transpose_c1) does not permute 2 dimensions}}
  %t = delta.transpose %w [0, 2]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4, 2] : bf16 on first
  // expected-error @below {{'delta.split' op (split_c2) dim 2 of a value of rank 2}}
  %a, %b = delta.split %w dim 2 [1, 1]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4, 2] : bf16 on first
  // expected-error @below {{'delta.split' op (split_c3) sizes sum up to 5, required 4}}
  %a, %b = delta.split %w dim 0 [4, 1]
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4, 2] : bf16 on first
  %v = delta.param "v" [4] : bf16 on first
  // expected-error @below {{'delta.concat' op (concat_c1) operands do not agree outside of dim 1}}
  %c = delta.concat %w, %v dim 1
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4, 2] : bf16 on first
  %v = delta.param "v" [4, 3] : bf16 on first
  // expected-error @below {{'delta.interleave' op (interleave_c1) operands do not have one shape}}
  %c = delta.interleave %w, %v dim 1
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  // expected-error @below {{'delta.concat' op (concat_c1) has no operands}}
  %c = "delta.concat"() {dim = 0} : () -> !delta.array
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4, 2] : bf16 on first
  // expected-error @below {{'delta.take' op (take_c1) takes 5 of 4 rows}}
  %t = delta.take %w dim 0 first 5 because "padding"
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4, 2] : bf16 on first
  // expected-error @below {{'delta.take' op (take_c1) dim -1 of a value of rank 2}}
  %t = delta.take %w dim -1 first 1 because "padding"
}

// -----

delta.side @source mesh {} layers 1 experts 0 stages [[1]] {
  // expected-error @below {{'builtin.unrealized_conversion_cast' op is not an op of a bound side}}
  %c = builtin.unrealized_conversion_cast to !delta.array
}
