// RUN: delta-opt %s --delta-fold-tensor-parallel -split-input-file -verify-diagnostics

delta.side @source mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  // expected-error @below {{'delta.unshard' op has no number of ways; bind the module first}}
  %all = delta.unshard %w dim 0 over tp
}

// -----

delta.side @source mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  // expected-error @below {{'delta.param' op size 'n' is not a number; bind the module first}}
  %w = delta.param "w" [n] : bf16 on first
  %all = delta.unshard %w dim 0 over tp ways 2
}

// -----

delta.side @source mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [4] : bf16 on first
  // expected-error @below {{'delta.unshard' op (unshard_c2) dim 1 of a parameter of rank 1}}
  %all = delta.unshard %w dim 1 over tp ways 2
}

// -----

delta.side @source mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [5] : bf16 on first
  // expected-error @below {{'delta.unshard' op (unshard_c3) size 5 is not divisible by 2 ways}}
  %all = delta.unshard %w dim 0 over tp ways 2
}

// -----

delta.side @source mesh {tp = 2} layers 1 experts 0 stages [[1]] {
  %w = delta.param "w" [8] : bf16 on first
  // expected-error @below {{'delta.unshard' op (unshard_c4) sections sum up to 6, required 8}}
  %all = delta.unshard %w dim 0 over tp ways 2 sections [2, 4]
}
