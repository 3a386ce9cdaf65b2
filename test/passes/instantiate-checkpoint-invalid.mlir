// What is wrong with stacks, key lists, casts and copied tensors. Labels are
// those of the ops' documentation.
//
// RUN: delta-opt %s --delta-instantiate -split-input-file -verify-diagnostics

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.config_part "text"
  // expected-error @below {{'delta.config_part' op (config_part_c1) is the second one of its family}}
  delta.config_part "text"
}
}

// -----

module attributes {delta.config = "{}"} {
delta.block @part {
  // expected-error @below {{'delta.config_part' op (config_part_c1) is the second one of its family}}
  delta.config_part "vision"
}
delta.family @f model_types [] architectures [] {
  delta.config_part "text"
  // expected-note @below {{used here}}
  delta.use @part
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.stack' op (stack_c2) stands before the 'delta.decoder', after whose layers its own are numbered}}
  delta.stack 1 on last {
  }
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{\"depth\": -1}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.stack' op (stack_c3) 'config "depth"' is -1, required 0 to 65536 layers}}
  delta.stack config "depth" on first {
  }
}
}

// -----

module attributes {delta.config = "{\"depth\": 65537}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.stack' op (stack_c3) 'config "depth"' is 65537, required 0 to 65536 layers}}
  delta.stack config "depth" on first {
  }
}
}

// -----

module attributes {delta.config = "{\"depth\": \"four\"}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.stack' op 'config "depth"' is "four", required an integer}}
  delta.stack config "depth" on first {
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.stack' op 'layer' is 0, required true or false}}
  delta.stack 2 on first where layer {
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 2 on last {
    // expected-error @below {{'delta.param' op (param_c4) name "w" is the same for all its layers or experts}}
    %w = delta.param "w" [8] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 1 on last {
    // The second prefix has no hole.
    delta.scope trainer "a.{layer}." or "b." hf "" {
      // expected-error @below {{'delta.param' op (param_c4) name "b.w" is the same for all its layers or experts}}
      %w = delta.param "w" [8] : storage
    }
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 2 on last {
    %w = delta.param "w.{layer}" [8] : storage
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
    }
  }
  delta.stack 1 on last {
    // expected-error @below {{'delta.experts' op (experts_c2) number of experts is 8, elsewhere it is 4}}
    delta.experts 8 {
    }
  }
}
}

// -----

module attributes {delta.config = "{}", delta.source = {ep = 2}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 1 on last {
    // expected-error @below {{'delta.experts' op (experts_c3) 3 experts are not divisible by ep 2}}
    delta.experts 3 {
    }
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 1 on last {
    %w = delta.param "w.{layer}" [8] : storage
    // expected-error @below {{'delta.copy' op (copy_c2) is outside of 'delta.on'}}
    delta.copy "v" of %w
  }
}
}

// -----

// Of a condition about all layers the key list answers all or none.
module attributes {delta.config = "{}", delta.keys = "{\"h.0.a\": {}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    // expected-error @below {{'delta.if' op the checkpoint lists "h.0.a" and not "h.1.a", required all of them or none}}
    delta.if listed "h.{layer}.a" else false {
    }
  }
}
}

// -----

module attributes {delta.config = "{}", delta.keys = "{\"h.1.a\": {}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    %w = delta.param "w.{layer}" [8] : storage
    // expected-error @below {{'delta.tensor' op the checkpoint lists "h.1.a" and not "h.0.a", required all of them or none}}
    delta.tensor "h.{layer}.a" = %w as [8] if_listed
  }
}
}

// -----

module attributes {delta.config = "{}", delta.keys = "{\"v.0.a\": {}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 2 on last {
    // expected-error @below {{'delta.passthrough' op the checkpoint lists "v.0.a" and not "v.1.a", required all of them or none}}
    delta.passthrough "v.{layer}.a" [8] : storage if_listed
  }
}
}

// -----

module attributes {delta.config = "{}", delta.keys = "{\"v.0.0.a\": {}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 1 on last {
    delta.experts 2 {
      // expected-error @below {{'delta.if' op the checkpoint lists "v.0.0.a" and not "v.0.1.a", required all of them or none}}
      delta.if listed "v.{layer}.{expert}.a" else false {
      }
    }
  }
}
}

// -----

module attributes {delta.config = "{}", delta.keys = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.if' op hole '{layer}' is outside of 'delta.layers'}}
  delta.if listed "h.{layer}.a" else false {
  }
}
}

// -----

// expected-error @below {{attribute 'delta.keys' is not a JSON object}}
module attributes {delta.config = "{}", delta.keys = "[1"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : bf16
    // expected-error @below {{'delta.cast' op (cast_c1) casts from bf16 to f16, required f32 at one end and one cast at most}}
    %c = delta.cast %w : f16
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    %c = delta.cast %w : f32
    // expected-error @below {{'delta.cast' op (cast_c1) casts from f32 to bf16, after another cast, required f32 at one end and one cast at most}}
    %d = delta.cast %c : bf16
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : i64
    // expected-error @below {{'delta.cast' op (cast_c1) casts from i64 to f32, required f32 at one end and one cast at most}}
    %c = delta.cast %w : f32
  }
}
}

// -----

// The storage type of the geometry decides whether a cast is one.
module attributes {delta.config = "{}", delta.source = {dtype = "f16"}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    // expected-error @below {{'delta.cast' op (cast_c1) casts from f16 to bf16, required f32 at one end and one cast at most}}
    %c = delta.cast %w : bf16
  }
}
}

// -----

// A tensor's types cast as `delta.cast` does.
module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    // expected-error @below {{'delta.tensor' op (cast_c1) casts from bf16 to f16, required f32 at one end and one cast at most}}
    delta.tensor "t" = %w as [8] : f16
  }
}
}

// -----

module attributes {delta.config = "{}", delta.keys = "{\"t\": {\"dtype\": \"bf16\"}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    %c = delta.cast %w : f32
    // expected-error @below {{'delta.tensor' op (cast_c1) casts from f32 to bf16, after another cast, required f32 at one end and one cast at most}}
    delta.tensor "t" = %c as [8] : f32 | bf16
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    %c = delta.cast %w : f32
    // expected-error @below {{'delta.add_scalar' op (add_scalar_c1) adds 1 after a cast, required 1, once, before any cast}}
    %a = delta.add_scalar %c 1
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    %w = delta.param "w" [8] : storage
    %v = delta.param "v" [8] : storage
    %c = delta.cast %w : f32
    // expected-error @below {{'delta.concat' op (concat_c1) operands have shapes [8] of f32 and [8] of bf16, required equal ones of parameters that live together}}
    %j = delta.concat %c, %v dim 0
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    // expected-error @below {{'delta.passthrough' op (passthrough_c1) name "inv_freq" is the same for all its layers}}
    delta.passthrough "inv_freq" [4] : f32
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 2 on last {
    // expected-error @below {{'delta.passthrough' op (passthrough_c1) name "inv_freq" is the same for all its layers}}
    delta.passthrough "inv_freq" [4] : f32
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    // expected-error @below {{'delta.passthrough' op (passthrough_c1) name "h.{layer}." is the same for all its layers}}
    delta.passthrough all "h.{layer}."
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.passthrough' op (passthrough_c2) shape is [1, 1, 1, 1, 1, 1, 1], required 1 to 6 sizes whose product fits 64 bits}}
  delta.passthrough "t" [1, 1, 1, 1, 1, 1, 1] : f32
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.passthrough' op (passthrough_c2) shape is [], required 1 to 6 sizes whose product fits 64 bits}}
  delta.passthrough "t" [] : f32
}
}

// -----

module attributes {delta.config = "{\"d\": 4}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.passthrough' op size '(config "d") - 4' is 0, required at least 1}}
  delta.passthrough "t" [(config "d") - 4] : f32
}
}

// -----

module attributes {delta.config = "{}", delta.keys = "{\"x.a\": {\"dtype\": \"bf16\", \"shape\": []}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.passthrough' op (passthrough_c2) tensor "x.a" of the key list has 1 to 6 sizes and a plain type, got {"dtype":"bf16","shape":[]}}}
  delta.passthrough all "x."
}
}

// -----

module attributes {delta.config = "{}", delta.keys = "{\"x.a\": {\"dtype\": \"bf16\", \"shape\": \"a\"}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.passthrough' op (passthrough_c2) tensor "x.a" of the key list has 1 to 6 sizes and a plain type, got {"dtype":"bf16","shape":"a"}}}
  delta.passthrough all "x."
}
}

// -----

module attributes {delta.config = "{}", delta.keys = "{\"x.a\": {\"dtype\": \"bf16\", \"shape\": [0]}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.passthrough' op (passthrough_c2) tensor "x.a" of the key list has 1 to 6 sizes and a plain type, got {"dtype":"bf16","shape":[0]}}}
  delta.passthrough all "x."
}
}

// -----

module attributes {delta.config = "{}", delta.keys = "{\"x.a\": {\"dtype\": \"fp8\", \"shape\": [4]}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.passthrough' op (passthrough_c2) tensor "x.a" of the key list has 1 to 6 sizes and a plain type, got {"dtype":"fp8","shape":[4]}}}
  delta.passthrough all "x."
}
}

// -----

module attributes {delta.config = "{}", delta.keys = "{\"x.a\": {\"dtype\": \"bf16\"}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.passthrough' op (passthrough_c2) tensor "x.a" of the key list has 1 to 6 sizes and a plain type, got {"dtype":"bf16"}}}
  delta.passthrough all "x."
}
}
