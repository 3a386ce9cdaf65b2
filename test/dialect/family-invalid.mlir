// What is wrong before any size is known. Labels are those of the ops'
// documentation; the others are checked when a model is bound
// (passes/instantiate-invalid.mlir).
//
// RUN: delta-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{'delta.family' op (family_c1) has 0 'delta.decoder' ops, required one}}
delta.family @no_decoder model_types [] architectures [] {
}

// -----

// expected-error @below {{'delta.family' op (family_c1) has 2 'delta.decoder' ops, required one}}
delta.family @two_decoders model_types [] architectures [] {
  delta.decoder 1
  delta.decoder 2
}

// -----

delta.block @layers_in_layers {
  delta.layers where true {
    // expected-error @below {{'delta.layers' op (layers_c1) is inside another 'delta.layers', a 'delta.on' or a 'delta.stack'}}
    delta.layers where true {
    }
  }
}

// -----

delta.block @layers_on_a_stage {
  delta.on first {
    // expected-error @below {{'delta.layers' op (layers_c1) is inside another 'delta.layers', a 'delta.on' or a 'delta.stack'}}
    delta.layers where true {
    }
  }
}

// -----

delta.block @stage_unknown {
  // expected-error @below {{'delta.on' op (on_c1) stage is 'middle', required 'first' or 'last'}}
  delta.on middle {
  }
}

// -----

delta.block @stage_in_layers {
  delta.layers where true {
    delta.if true {
      // expected-error @below {{'delta.on' op (on_c2) is inside a 'delta.layers' or a 'delta.stack'}}
      delta.on last {
      }
    }
  }
}

// -----

delta.block @layers_in_a_stack {
  delta.stack 2 on last {
    // expected-error @below {{'delta.layers' op (layers_c1) is inside another 'delta.layers', a 'delta.on' or a 'delta.stack'}}
    delta.layers where true {
    }
  }
}

// -----

delta.block @stage_in_a_stack {
  delta.stack 2 on last {
    // expected-error @below {{'delta.on' op (on_c2) is inside a 'delta.layers' or a 'delta.stack'}}
    delta.on last {
    }
  }
}

// -----

delta.block @stack_in_layers {
  delta.layers where true {
    delta.if true {
      // expected-error @below {{'delta.stack' op (stack_c1) is inside a 'delta.layers', a 'delta.on' or another 'delta.stack'}}
      delta.stack 2 on last {
      }
    }
  }
}

// -----

delta.block @stack_on_a_stage {
  delta.on first {
    // expected-error @below {{'delta.stack' op (stack_c1) is inside a 'delta.layers', a 'delta.on' or another 'delta.stack'}}
    delta.stack 2 on first {
    }
  }
}

// -----

delta.block @stack_in_a_stack {
  delta.stack 2 on last {
    delta.scope trainer "a." hf "b." {
      // expected-error @below {{'delta.stack' op (stack_c1) is inside a 'delta.layers', a 'delta.on' or another 'delta.stack'}}
      delta.stack 2 on last {
      }
    }
  }
}

// -----

delta.block @stage_of_a_stack_unknown {
  // expected-error @below {{'delta.stack' op (on_c1) stage is 'all', required 'first' or 'last'}}
  delta.stack 2 on all {
  }
}

// -----

delta.block @stack_without_a_stage {
  // expected-error @below {{custom op 'delta.stack' expected 'on'}}
  delta.stack 2 {
  }
}

// -----

delta.block @listed_without_a_default {
  // expected-error @below {{custom op 'delta.if' expected 'else'}}
  delta.if listed "a" {
  }
}

// -----

delta.block @experts_in_experts {
  delta.experts 4 {
    // expected-error @below {{'delta.experts' op (experts_c1) is inside another 'delta.experts'}}
    delta.experts 4 {
    }
  }
}

// -----

delta.block @experts_on_a_stage {
  delta.on first {
    // expected-error @below {{'delta.experts' op (experts_c1) is inside a 'delta.on', required a 'delta.layers'}}
    delta.experts 4 {
    }
  }
}

// -----

delta.block @name_scheme_unknown {
  // expected-error @below {{'delta.param' op (param_c3) name scheme is "packed", required 'grouped' or 'sequential'}}
  %w = delta.param packed "w" [8] : storage
}

// -----

delta.block @type_unknown {
  // expected-error @below {{'delta.param' op type is 'f8', required storage, f32, bf16, f16 or i64}}
  %w = delta.param "w" [8] : f8
}

// -----

delta.block @type_of_a_tensor_unknown {
  %w = delta.param "w" [8] : storage
  // expected-error @below {{'delta.tensor' op type is 'f64', required storage, f32, bf16, f16 or i64}}
  delta.tensor "t" = %w as [8] : storage | f64
}

// -----

delta.block @no_type_of_a_tensor {
  %w = delta.param "w" [8] : storage
  // expected-error @below {{'delta.tensor' op has an empty list of types, required at least one}}
  "delta.tensor"(%w) {name = "t", shape = [#delta.expr<8>], dtypes = []} : (!delta.array) -> ()
}

// -----

delta.block @cast_to_an_integer {
  %w = delta.param "w" [8] : storage
  // expected-error @below {{'delta.cast' op (cast_c1) type is 'i64', required storage, f32, bf16 or f16}}
  %c = delta.cast %w : i64
}

// -----

delta.block @cast_to_a_type_unknown {
  %w = delta.param "w" [8] : storage
  // expected-error @below {{'delta.cast' op type is 'f8', required storage, f32, bf16, f16 or i64}}
  %c = delta.cast %w : f8
}

// -----

delta.block @type_of_a_passthrough_unknown {
  // expected-error @below {{'delta.passthrough' op type is 'u8', required storage, f32, bf16, f16 or i64}}
  delta.passthrough "t" [8] : u8
}

// -----

delta.block @copy_of_a_view {
  %w = delta.param "w" [8] : storage
  %r = delta.reshape %w [4, 2]
  // expected-error @below {{'delta.copy' op (copy_c1) operand is not the result of a 'delta.param'}}
  delta.copy "c" of %r
}

// -----

delta.block @unshard_of_a_view {
  %w = delta.param "w" [8] : storage
  %r = delta.reshape %w [4, 2]
  // expected-error @below {{'delta.unshard' op (unshard_c1) operand is not the result of a 'delta.param'}}
  %u = delta.unshard %r dim 0 over tp
}

// -----

delta.block @unshard_twice {
  %w = delta.param "w" [8] : storage
  // expected-error @below {{'delta.unshard' op (unshard_c1) parameter is put together twice}}
  %u = delta.unshard %w dim 0 over tp
  // expected-note @below {{the other one is here}}
  %v = delta.unshard %w dim 0 over tp
}

// -----

delta.block @axis_unknown {
  %w = delta.param "w" [8] : storage
  // expected-error @below {{'delta.unshard' op (unshard_c5) axis is 'ep', required 'tp', 'etp' or, in a layout, 'stage'}}
  %u = delta.unshard %w dim 0 over ep
}

// -----

delta.block @fewer_results_than_sizes {
  %w = delta.param "w" [8] : storage
  // expected-error @below {{'delta.split' op (split_c1) has 1 results for 2 sizes}}
  %a = "delta.split"(%w) {dim = 0, sizes = [#delta.expr<4>, #delta.expr<4>]} : (!delta.array) -> !delta.array
}

// -----

delta.block @more_names_than_sizes {
  %w = delta.param "w" [8] : storage
  // expected-error @below {{operation defines 2 results but was provided 3 to bind}}
  %a, %b, %c = delta.split %w dim 0 [4, 4]
}

// -----

delta.block @names_without_values {
  // expected-error @below {{'delta.use' op binds 1 names to 0 values}}
  "delta.use"() {block = "b", names = ["size"], values = []} : () -> ()
}

// -----

delta.block @fewer_schemes_than_names {
  // expected-error @below {{'delta.param' op has 1 names and 0 name schemes, required one for each}}
  %w = "delta.param"() {names = ["w"], schemes = [], shape = [], dtype = "f32"} : () -> !delta.array
}

// -----

delta.block @unknown_value {
  // expected-error @below {{use of undeclared SSA value name}}
  delta.tensor "t" = %w as [8]
}

// -----

%w = delta.param "w" [8] : storage
// expected-note @below {{required by region isolation constraints}}
delta.block @value_of_another_block {
  // expected-error @below {{'delta.tensor' op using value defined outside the region}}
  delta.tensor "t" = %w as [8]
}

// -----

// expected-note @below {{see existing symbol definition here}}
delta.block @twice {
}
// expected-error @below {{redefinition of symbol named 'twice'}}
delta.block @twice {
}

// -----

delta.block @unknown_op {
  // expected-error @below {{custom op 'delta.concatenate' is unknown}}
  delta.concatenate
}

// -----

// expected-error @below {{'delta.family' op (family_c1) has 2 'delta.decoder' ops, required one}}
delta.family @l engine "e" versions [] model_types [] architectures [] {
  delta.decoder 1
  delta.decoder 1
}

// -----

delta.block @b {
  // expected-error @below {{'delta.param' op (param_c5) holds 'exp', required 'neg_exp' or 'add_one'}}
  %w = delta.param "w" [2] : f32 holds exp
}

// -----

delta.block @b {
  // expected-error @below {{'delta.param' op (param_c6) is viewed [0, 2], required every dimension of a shape of 2 once}}
  %w = delta.param "w" [2, 3] : storage viewed [0, 2]
}

// -----

delta.block @b {
  %w = delta.param "w" [2, 3] : storage
  %r = delta.reshape %w [6]
  // expected-error @below {{'delta.refresh' op (refresh_c1) operand is not the result of a 'delta.param'}}
  delta.refresh "again" of %r
}

// -----

// expected-error @below {{'delta.side' op (side_c3) has 3 slots and begins for 3 ranks, ep is 2}}
delta.side @s mesh {ep = 2} layers 1 experts 2 stages [[1]] engine "e"
    slots [0, 1, 0] from [0, 1, 2] {
}

// -----

// expected-error @below {{'delta.side' op (side_c3) has expert 2 in a slot, of 2}}
delta.side @s mesh {ep = 1} layers 1 experts 2 stages [[1]] engine "e"
    slots [0, 2] from [0, 2] {
}
