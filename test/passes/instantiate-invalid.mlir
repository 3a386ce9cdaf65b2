// What is wrong once the sizes are known. Labels are those of the ops'
// documentation.
//
// RUN: delta-opt %s --delta-instantiate -split-input-file -verify-diagnostics

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.use' op (use_c1) no block '@vector'}}
  delta.use @vector
}
}

// -----

module attributes {delta.config = "{}"} {
delta.block @a {
  // expected-note @below {{used here}}
  delta.use @b
}
delta.block @b {
  // expected-error @below {{'delta.use' op (use_c2) block '@a' uses itself}}
  delta.use @a
}
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-note @below {{used here}}
  delta.use @a
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.symbol H = 4
  // expected-error @below {{'delta.symbol' op (symbol_c1) 'H' is defined already}}
  delta.symbol H = 8
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}"} {
delta.block @sizes {
  delta.symbol H = 8
}
delta.family @f model_types [] architectures [] {
  delta.symbol H = 4
  // expected-error @below {{'delta.use' op (symbol_c1) block '@sizes' defines 'H', which is defined already}}
  delta.use @sizes
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}", delta.source = {tp = 3}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.require' op (require_c1) '8 mod tp == 0' does not hold: heads are split over tp (tp 3, ep 1, etp 1, pp 1, vpp 1)}}
  delta.require 8 mod tp == 0, "heads are split over tp"
}
}

// -----

module attributes {delta.config = "{\"n\": 0}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.decoder' op (decoder_c1) 'config "n"' is 0, required 1 to 65536 layers}}
  delta.decoder config "n"
}
}

// -----

module attributes {delta.config = "{\"n\": 65537}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.decoder' op (decoder_c1) 'config "n"' is 65537, required 1 to 65536 layers}}
  delta.decoder config "n"
}
}

// -----

module attributes {delta.config = "{\"pattern\": \"MM*\"}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.decoder' op (decoder_c2) pattern 'MM*' has 3 layers, the config 4}}
  delta.decoder 4 pattern config "pattern" kinds "M*"
}
}

// -----

module attributes {delta.config = "{\"pattern\": \"M*?M\"}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.decoder' op (decoder_c2) layer 2 of pattern 'M*?M' is '?', required one of 'M*'}}
  delta.decoder 4 pattern config "pattern" kinds "M*"
}
}

// -----

module attributes {delta.config = "{\"pattern\": [1, 2]}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.decoder' op (decoder_c2) pattern is [1, 2], required a text}}
  delta.decoder 4 pattern config "pattern" kinds "M*"
}
}

// -----

module attributes {delta.config = "{}"} {
delta.block @again {
  // expected-error @below {{'delta.decoder' op (family_c1) is the second one of its family}}
  delta.decoder 3
}
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-note @below {{used here}}
  delta.use @again
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.layers' op (layers_c2) stands before the 'delta.decoder', which gives the number of layers}}
  delta.layers where true {
  }
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}", delta.source = {pp = 3}} {
delta.family @layers_do_not_divide model_types [] architectures [] {
  // expected-error @below {{'delta.decoder' op num_layers 4 is not divisible by pp x vpp 3; pp_layout gives an uneven split}}
  delta.decoder 4
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.experts' op (experts_c1) is outside of 'delta.layers'}}
  delta.experts 4 {
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    // expected-error @below {{'delta.experts' op (experts_c2) number of experts is 0, required 1 to 65536}}
    delta.experts 0 {
    }
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    delta.experts 4 {
    }
    // expected-error @below {{'delta.experts' op (experts_c2) number of experts is 8, elsewhere it is 4}}
    delta.experts 8 {
    }
  }
}
}

// -----

module attributes {delta.config = "{}", delta.source = {ep = 3}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    // expected-error @below {{'delta.experts' op (experts_c3) 4 experts are not divisible by ep 3}}
    delta.experts 4 {
    }
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.param' op (param_c1) is outside of 'delta.layers' and 'delta.on'}}
  %w = delta.param "w" [8] : storage
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    // expected-error @below {{'delta.param' op size 'tp - 1' is 0, required at least 1}}
    %w = delta.param "w" [8, tp - 1] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    // expected-error @below {{'delta.param' op (param_c2) shape is [1, 1, 1, 1, 1, 1, 1], required 1 to 6 sizes whose product fits 64 bits}}
    %w = delta.param "w" [1, 1, 1, 1, 1, 1, 1] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    // expected-error @below {{'delta.param' op (param_c2) shape is [4294967296, 4294967296], required 1 to 6 sizes whose product fits 64 bits}}
    %w = delta.param "w" [4294967296, 4294967296] : storage
  }
}
}

// -----

module attributes {delta.config = "{}", delta.source = {experts = "sequential"}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    // expected-error @below {{'delta.param' op (param_c3) has no name for the scheme 'sequential'}}
    %w = delta.param grouped "w" [8] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    // expected-error @below {{'delta.param' op (param_c4) name "w" is the same for all its layers or experts}}
    %w = delta.param "w" [8] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    delta.experts 4 {
      // expected-error @below {{'delta.param' op (param_c4) name "{layer}.w" is the same for all its layers or experts}}
      %w = delta.param "{layer}.w" [8] : storage
    }
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    %w = delta.param "{layer}.w" [8] : storage
    // expected-error @below {{'delta.copy' op (copy_c2) is outside of 'delta.on'}}
    delta.copy "c" of %w
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    // expected-error @below {{'delta.param' op parameter "w" has no tensor; a 'delta.drop' says why one has none}}
    %w = delta.param "w" [8] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [2, 4] : storage
    // expected-error @below {{'delta.tensor' op (tensor_c1) shape [9] for a value of shape [2, 4], required 8 elements}}
    delta.tensor "t" = %w as [9]
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    delta.experts 4 {
      %w = delta.param "{layer}.w{expert}" [2, 4] : storage
      // expected-error @below {{'delta.tensor' op (tensor_c1) shape [4, 2, 2] for a value of shape [2, 4] of 4 experts, required 32 elements}}
      delta.tensor "{layer}.t" = %w as [4, 2, 2] stacked
    }
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [4] : storage
    // expected-error @below {{'delta.tensor' op (tensor_c2) stacks a value that is not of expert parameters}}
    delta.tensor "t" = %w as [4] stacked
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    delta.experts 4 {
      %w = delta.param "{layer}.w{expert}" [2, 4] : storage
      // expected-error @below {{'delta.tensor' op (tensor_c2) stacks 4 experts into a tensor of shape [2, 4, 4]}}
      delta.tensor "{layer}.t" = %w as [2, 4, 4] stacked
    }
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    delta.experts 4 {
      %w = delta.param "{layer}.w{expert}" [1] : storage
      // expected-error @below {{'delta.tensor' op (tensor_c2) stacks 4 experts into a tensor of shape []}}
      delta.tensor "{layer}.t" = %w as [] stacked
    }
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    delta.experts 4 {
      %w = delta.param "{layer}.w{expert}" [8] : storage
      // expected-error @below {{'delta.tensor' op (tensor_c2) name "{layer}.t{expert}" of a stack has an '{expert}'}}
      delta.tensor "{layer}.t{expert}" = %w as [4, 8] stacked
    }
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    %w = delta.param "{layer}.w" [8] : storage
    // expected-error @below {{'delta.tensor' op (tensor_c3) name "t" is the same for all its layers or experts}}
    delta.tensor "t" = %w as [8]
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    delta.experts 4 {
      %w = delta.param "{layer}.w{expert}" [8] : storage
      // expected-error @below {{'delta.tensor' op (tensor_c3) name "{layer}.t" is the same for all its layers or experts}}
      delta.tensor "{layer}.t" = %w as [8]
    }
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    // expected-error @below {{'delta.unshard' op (unshard_c2) dim 1 of a value of shape [8]}}
    %u = delta.unshard %w dim 1 over tp
  }
}
}

// -----

module attributes {delta.config = "{}", delta.source = {tp = 3}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [4100, 2] : storage
    // expected-error @below {{'delta.unshard' op (unshard_c3) dim 0 of size 4100 is not divisible by axis 'tp' of size 3}}
    %u = delta.unshard %w dim 0 over tp
  }
}
}

// -----

module attributes {delta.config = "{}", delta.source = {tp = 6}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    // expected-error @below {{'delta.unshard' op (unshard_c3) dim 0 of size 8 is not divisible by 3 ways of axis 'tp' of size 6}}
    %u = delta.unshard %w dim 0 over tp ways 3
  }
}
}

// -----

module attributes {delta.config = "{}", delta.source = {tp = 2}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    // expected-error @below {{'delta.unshard' op (unshard_c3) dim 0 of size 8 has a section of size 3, which is not divisible by axis 'tp' of size 2}}
    %u = delta.unshard %w dim 0 over tp sections [3, 5]
  }
}
}

// -----

module attributes {delta.config = "{}", delta.source = {tp = 2}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    // expected-error @below {{'delta.unshard' op (unshard_c4) sections [2, 4] sum up to 6, dim 0 has size 8}}
    %u = delta.unshard %w dim 0 over tp sections [2, 4]
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    // expected-error @below {{'delta.unshard' op (unshard_c5) axis is 'etp' for a common parameter, required 'tp'}}
    %u = delta.unshard %w dim 0 over etp
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    delta.experts 2 {
      %w = delta.param "{layer}.w{expert}" [8] : storage
      // expected-error @below {{'delta.unshard' op (unshard_c5) axis is 'tp' for an expert parameter, required 'etp'}}
      %u = delta.unshard %w dim 0 over tp
    }
  }
}
}

// -----

module attributes {delta.config = "{}", delta.source = {tp = 4}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [12] : storage
    // expected-error @below {{'delta.unshard' op (unshard_c6) 3 ways do not divide axis 'tp' of size 4}}
    %u = delta.unshard %w dim 0 over tp ways 3
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    // expected-error @below {{'delta.reshape' op (reshape_c1) shape [3, 3] for a value of shape [8], required 8 elements}}
    %r = delta.reshape %w [3, 3]
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [2, 4] : storage
    // expected-error @below {{'delta.transpose' op (transpose_c1) permutation [1, 1] of a value of shape [2, 4]}}
    %t = delta.transpose %w [1, 1]
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [2, 4] : storage
    // expected-error @below {{'delta.transpose' op (transpose_c1) permutation [] of a value of shape [2, 4]}}
    %t = delta.transpose %w []
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [2, 4] : storage
    // expected-error @below {{'delta.split' op (split_c2) dim 2 of a value of shape [2, 4]}}
    %a, %b = delta.split %w dim 2 [1, 1]
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [2, 4] : storage
    // expected-error @below {{'delta.split' op (split_c3) sizes [1, 2] sum up to 3, dim 1 has size 4}}
    %a, %b = delta.split %w dim 1 [1, 2]
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [2, 4] : storage
    %v = delta.param "v" [2, 5] : storage
    // expected-error @below {{'delta.concat' op (concat_c1) operands have shapes [2, 4] of bf16 and [2, 5] of bf16, required equal ones of parameters that live together}}
    %c = delta.concat %w, %v dim 0
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [2, 4] : storage
    %v = delta.param "v" [2, 4] : f32
    // expected-error @below {{'delta.concat' op (concat_c1) operands have shapes [2, 4] of bf16 and [2, 4] of f32, required equal ones of parameters that live together}}
    %c = delta.concat %w, %v dim 0
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [2, 4] : storage
    // expected-error @below {{'delta.concat' op (concat_c1) dim -1 of a value of shape [2, 4]}}
    %c = delta.concat %w, %w dim -1
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [4611686018427387904] : storage
    // expected-error @below {{'delta.concat' op (concat_c1) size overflows 64 bits}}
    %c = delta.concat %w, %w dim 0
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [2, 2] : storage
    %v = delta.param "v" [2, 4] : storage
    // expected-error @below {{'delta.interleave' op (interleave_c1) operands have shapes [2, 2] of bf16 and [2, 4] of bf16, required equal ones of parameters that live together}}
    %i = delta.interleave %w, %v dim 1
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    // expected-error @below {{'delta.take' op (take_c1) first 9 rows of dim 0 of a value of shape [8]}}
    %t = delta.take %w dim 0 first 9 because "padding"
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    // expected-error @below {{'delta.add_scalar' op (add_scalar_c1) adds 2, required 1, once}}
    %a = delta.add_scalar %w 2
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    %a = delta.add_scalar %w 1
    // expected-error @below {{'delta.add_scalar' op (add_scalar_c1) adds 1 after another, required 1, once}}
    %b = delta.add_scalar %a 1
  }
}
}

// -----

// The stack trace of blocks is told, innermost first.
module attributes {delta.config = "{}"} {
delta.block @inner {
  // expected-error @below {{'delta.param' op unknown symbol 'size'}}
  %w = delta.param "w" [size] : storage
}
delta.block @outer {
  // expected-note @below {{used here}}
  delta.use @inner
}
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    // expected-note @below {{used here}}
    delta.use @outer
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.import' op does not belong into a family}}
  delta.import "blocks.mlir"
}
}

// -----

module attributes {delta.config = "{}", delta.source = {ep = 2}} {
// expected-error @below {{'delta.family' op ep is 2, the model has no experts}}
delta.family @dense model_types [] architectures [] {
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}", delta.source = {etp = 2}} {
// expected-error @below {{'delta.family' op etp is 2, the model has no experts}}
delta.family @dense model_types [] architectures [] {
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}", delta.source = {mtp_layers = 1}} {
// expected-error @below {{'delta.family' op mtp_layers is 1, the family has no multi-token-prediction layers}}
delta.family @f model_types [] architectures [] {
  delta.decoder 2
}
}

// -----

// expected-error @below {{(family_c2) module has 0 families, required one}}
module attributes {delta.config = "{}"} {
}

// -----

// A layout is no family of a trainer.
// expected-error @below {{(family_c2) module has 0 families, required one}}
module attributes {delta.config = "{}"} {
delta.family @f engine "vllm" versions ["0"] model_types [] architectures [] {
  delta.decoder 2
}
}

// -----

// expected-error @below {{(family_c2) module has 2 layouts, required one}}
module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
}
delta.family @g engine "vllm" versions ["0"] model_types [] architectures [] {
  delta.decoder 2
}
delta.family @h engine "vllm" versions ["0"] model_types [] architectures [] {
  delta.decoder 2
}
}

// -----

// expected-error @below {{(family_c2) module has 2 families, required one}}
module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
}
delta.family @g model_types [] architectures [] {
  delta.decoder 2
}
}

// -----

// expected-error @below {{attribute 'delta.config' is not a JSON object}}
module attributes {delta.config = "[1, 2"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
}
}

// -----

// Of two geometries the wrong one is told.
module attributes {delta.config = "{}", delta.destination = {pp = 3}} {
// expected-note @below {{bound for the destination}}
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.decoder' op num_layers 4 is not divisible by pp x vpp 3; pp_layout gives an uneven split}}
  delta.decoder 4
}
}

// -----

// Another trainer would be left with values that nobody sends.
module attributes {delta.config = "{}", delta.destination = {tp = 2}} {
// expected-note @below {{bound for the destination}}
delta.family @f model_types [] architectures [] {
  delta.decoder 1
  delta.on first {
    %w = delta.param "w" [8] : storage
    // expected-error @below {{'delta.drop' op (drop_c1) leaves values of the destination that no tensor holds: the layer borrows keys}}
    delta.drop %w because "the layer borrows keys"
  }
}
}
