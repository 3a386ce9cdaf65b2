// RUN: delta-opt %s --delta-fold-instances -split-input-file -verify-diagnostics

// expected-error @below {{'delta.side' op stage 1 has 1 chunks, another one has 2}}
delta.side @chunks_missing mesh {pp = 2} layers 4 experts 0 stages [[2, 1], [1]] {
}

// -----

// expected-error @below {{'delta.side' op (experts_c3) 4 experts are not divisible by ep 3}}
delta.side @experts_left_over mesh {ep = 3} layers 1 experts 4 stages [[1]] {
}
