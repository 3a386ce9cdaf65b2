// What a checkpoint decides: parts of its config, its key list, its types.
//
// RUN: delta-opt %s --delta-instantiate -split-input-file | FileCheck %s

// A key is looked up in the part first, then at the top; a null there is as
// good as no key. Dots lead from the top, whatever the part.
// CHECK-LABEL: module @config_part
// CHECK: delta.param "in_both" [1]
// CHECK: delta.param "in_part" [2]
// CHECK: delta.param "at_top" [3]
// CHECK: delta.param "null_in_part" [4]
// CHECK: delta.param "path" [5]
// CHECK: delta.param "path_of_the_part" [1]
// CHECK: delta.param "no_such_path" [6]
// CHECK: delta.param "path_through_a_number" [7]
module @config_part attributes {delta.config = "{\"a\": 9, \"c\": 3, \"d\": 4, \"text\": {\"a\": 1, \"b\": 2, \"d\": null}, \"vision\": {\"deep\": {\"er\": 5}}}"} {
delta.block @of {
  %w = delta.param "{name}" [size] : storage
  delta.tensor "{name}" = %w as [size]
}
delta.family @f model_types [] architectures [] {
  delta.config_part "text"
  delta.decoder 1
  delta.on first {
    delta.use @of with name = "in_both", size = config "a"
    delta.use @of with name = "in_part", size = config "b"
    delta.use @of with name = "at_top", size = config "c"
    delta.use @of with name = "null_in_part", size = config "d"
    delta.use @of with name = "path", size = config "vision.deep.er"
    delta.use @of with name = "path_of_the_part", size = config "text.a"
    delta.use @of with name = "no_such_path", size = config "vision.er" else 6
    delta.use @of with name = "path_through_a_number", size = config "c.er" else 7
  }
}
}

// -----

// Only from here on; a config without the part, or with another thing in its
// place, is looked at itself.
// CHECK-LABEL: module @before_and_no_part
// CHECK: delta.param "before" [9]
// CHECK: delta.param "after" [9]
module @before_and_no_part attributes {delta.config = "{\"a\": 9, \"text\": 7}"} {
delta.family @f model_types [] architectures [] {
  delta.symbol before = config "a"
  delta.config_part "text"
  delta.decoder 1
  delta.on first {
    %b = delta.param "before" [before] : storage
    delta.tensor "before" = %b as [before]
    %w = delta.param "after" [config "a"] : storage
    delta.tensor "after" = %w as [config "a"]
  }
}
}

// -----

// CHECK-LABEL: module @part_from_here_on
// CHECK: delta.param "before" [9]
// CHECK: delta.param "after" [1]
module @part_from_here_on attributes {delta.config = "{\"a\": 9, \"text\": {\"a\": 1}}"} {
delta.family @f model_types [] architectures [] {
  delta.symbol before = config "a"
  delta.config_part "text"
  delta.decoder 1
  delta.on first {
    %b = delta.param "before" [before] : storage
    delta.tensor "before" = %b as [before]
    %w = delta.param "after" [config "a"] : storage
    delta.tensor "after" = %w as [config "a"]
  }
}
}

// -----

// `listed` follows the key list and the scopes around it; the value after
// `else` counts where there is no list.
// CHECK-LABEL: module @listed
// CHECK: delta.param "here" [4]
// CHECK-NOT: delta.param "absent" [4]
// CHECK: delta.param "all_layers.{layer}" [4]
// CHECK-NOT: delta.param "no_layer.{layer}" [4]
// CHECK: delta.param "experts.{layer}.{expert}" [4]
// CHECK: }
module @listed attributes {delta.config = "{}", delta.keys = "{\"p.here\": {}, \"h.0.a\": {}, \"h.1.a\": {}, \"h.0.0.e\": {}, \"h.0.1.e\": {}, \"h.1.0.e\": {}, \"h.1.1.e\": {}}"} {
delta.block @layer {
  %w = delta.param "{name}.{layer}" [4] : storage
  delta.tensor "t.{name}.{layer}" = %w as [4]
}
delta.family @f model_types [] architectures [] {
  delta.symbol part = "here"
  delta.decoder 2
  delta.on first {
    delta.scope trainer "" hf "p." {
      delta.if listed "{part}" else false {
        %w = delta.param "here" [4] : storage
        delta.tensor "here" = %w as [4]
      }
      delta.if listed "absent" else true {
        %w = delta.param "absent" [4] : storage
        delta.tensor "absent" = %w as [4]
      }
    }
  }
  delta.layers where true {
    delta.if listed "h.{layer}.a" else false {
      delta.use @layer with name = "all_layers"
    }
    delta.if listed "h.{layer}.b" else true {
      delta.use @layer with name = "no_layer"
    }
    delta.experts 2 {
      delta.if listed "h.{layer}.{expert}.e" else false {
        %w = delta.param "experts.{layer}.{expert}" [4] : storage
        delta.tensor "t.e.{layer}.{expert}" = %w as [4]
      }
    }
  }
}
}

// -----

// In `where` each layer is asked for alone, so that they may differ.
// CHECK-LABEL: module @listed_in_where
// CHECK: delta.param "w.{layer}" [4] : bf16 on layers(1)
// CHECK: delta.param "s.{layer}" [4] : bf16 on layers(4)
module @listed_in_where attributes {delta.config = "{}", delta.keys = "{\"h.1\": {}, \"v.1\": {}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 3
  delta.layers where listed "h.{layer}" else false {
    %w = delta.param "w.{layer}" [4] : storage
    delta.tensor "h.{layer}" = %w as [4]
  }
  delta.stack 2 on last where listed "v.{layer}" else false {
    %w = delta.param "s.{layer}" [4] : storage
    delta.tensor "v.{layer}" = %w as [4]
  }
}
}

// -----

// CHECK-LABEL: module @no_key_list
// CHECK: delta.param "then" [4]
// CHECK-NOT: delta.param "else" [4]
// CHECK: }
module @no_key_list attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
  delta.on first {
    delta.if listed "t" else true {
      %w = delta.param "then" [4] : storage
      delta.tensor "t" = %w as [4]
    } else {
      %w = delta.param "else" [4] : storage
      delta.tensor "t" = %w as [4]
    }
  }
}
}

// -----

// Of alternative types the list's counts, else the first; a value of another
// type is cast, one of that type is not.
// CHECK-LABEL: module @types
// CHECK: %[[W:.*]] = delta.param "w" [4] : bf16
// CHECK-NEXT: delta.tensor "not_listed" = %[[W]] as [4]
// CHECK-NEXT: %[[A:.*]] = delta.cast %[[W]] : f32
// CHECK-NEXT: delta.tensor "listed_fp32" = %[[A]] as [4]
// CHECK-NEXT: delta.tensor "listed_storage" = %[[W]] as [4] alias
// CHECK-NEXT: delta.tensor "listed_no_alternative" = %[[W]] as [4] alias
// CHECK-NEXT: %[[B:.*]] = delta.cast %[[W]] : f32
// CHECK-NEXT: delta.tensor "always" = %[[B]] as [4]
module @types attributes {delta.config = "{}", delta.keys = "{\"listed_fp32\": {\"dtype\": \"fp32\"}, \"listed_storage\": {\"dtype\": \"bf16\"}, \"listed_no_alternative\": {\"dtype\": \"fp16\"}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
  delta.on first {
    %w = delta.param "w" [4] : storage
    delta.tensor "not_listed" = %w as [4] : storage | f32
    delta.tensor "listed_fp32" = %w as [4] : storage | f32
    delta.tensor "listed_storage" = %w as [4] : storage | f32
    delta.tensor "listed_no_alternative" = %w as [4] : storage | f32
    delta.tensor "always" = %w as [4] : f32
  }
}
}

// -----

// The storage type is the trainer's: from fp32 a tensor is cast down.
// CHECK-LABEL: module @types_of_an_fp32_trainer
// CHECK: delta.side @source
// CHECK: %[[W:.*]] = delta.param "w" [4] : f32
// CHECK-NEXT: %[[A:.*]] = delta.add_scalar %[[W]] 1
// CHECK-NEXT: %[[B:.*]] = delta.cast %[[A]] : bf16
// CHECK-NEXT: delta.tensor "t" = %[[B]] as [4]
// CHECK: delta.side @destination
// CHECK: %[[W:.*]] = delta.param "w" [4] : bf16
// CHECK-NEXT: %[[A:.*]] = delta.add_scalar %[[W]] 1
// CHECK-NEXT: delta.tensor "t" = %[[A]] as [4]
module @types_of_an_fp32_trainer attributes {delta.config = "{}",
    delta.keys = "{\"t\": {\"dtype\": \"bf16\"}}", delta.source = {dtype = "f32"}, delta.destination = {}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
  delta.on first {
    %w = delta.param "w" [4] : storage
    %p = delta.add_scalar %w 1
    delta.tensor "t" = %p as [4] : storage | bf16
  }
}
}

// -----

// The first layer's name tells the type, also of a stack.
// CHECK-LABEL: module @type_of_a_stack
// CHECK: delta.param "s.{layer}" [4] : bf16 on layers(2)
// CHECK-NEXT: delta.cast
// CHECK-NEXT: delta.tensor "v.{layer-2}"
module @type_of_a_stack attributes {delta.config = "{}", delta.keys = "{\"v.0\": {\"dtype\": \"fp32\"}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 1 on last {
    %w = delta.param "s.{layer}" [4] : storage
    delta.tensor "v.{layer}" = %w as [4] : storage | f32
  }
}
}

// -----

// A written cast; one to the type that the value has is none.
// CHECK-LABEL: module @casts
// CHECK: %[[W:.*]] = delta.param "w" [4] : bf16
// CHECK-NEXT: %[[A:.*]] = delta.cast %[[W]] : f32
// CHECK-NEXT: %[[R:.*]] = delta.reshape %[[A]] [2, 2]
// CHECK-NEXT: delta.tensor "cast" = %[[R]] as [2, 2]
// CHECK-NEXT: delta.tensor "same" = %[[W]] as [4]
// CHECK-NEXT: delta.tensor "twice" = %[[A]] as [4]
// CHECK-NEXT: %[[F:.*]] = delta.param "f" [4] : f32
// CHECK-NEXT: %[[B:.*]] = delta.cast %[[F]] : bf16
// CHECK-NEXT: delta.tensor "down" = %[[B]] as [4]
module @casts attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
  delta.on first {
    %w = delta.param "w" [4] : storage
    %a = delta.cast %w : f32
    %r = delta.reshape %a [2, 2]
    delta.tensor "cast" = %r as [2, 2]
    %s = delta.cast %w : storage
    delta.tensor "same" = %s as [4]
    %t = delta.cast %a : f32
    delta.tensor "twice" = %t as [4]
    %f = delta.param "f" [4] : f32
    %b = delta.cast %f : storage
    delta.tensor "down" = %b as [4]
  }
}
}

// -----

// Tensors that the trainer does not hold: of all layers, of a stack, only
// where listed, and all with a prefix.
// CHECK-LABEL: module @passthrough
// CHECK: delta.side @source {{.*}}{
// CHECK-NEXT: delta.passthrough "h.{layer}.inv_freq" [4] : f32 on layers(0 to 1)
// CHECK-NEXT: delta.passthrough "h.{layer}.listed" [2] : bf16 on layers(0 to 1)
// CHECK-NEXT: delta.passthrough "v.{layer-2}.rope" [2] : bf16 on layers(2)
// CHECK-NEXT: delta.passthrough "top" [3, 2] : i64{{$}}
// CHECK-NEXT: delta.passthrough "mtp.0.a" [5, 2] : bf16{{$}}
// CHECK-NEXT: delta.passthrough "mtp.b" [7] : f32{{$}}
// CHECK-NEXT: }
module @passthrough attributes {delta.config = "{}", delta.keys = "{\"h.0.listed\": {}, \"h.1.listed\": {}, \"mtp.0.a\": {\"dtype\": \"bf16\", \"shape\": [5, 2]}, \"mtp.b\": {\"dtype\": \"fp32\", \"shape\": [7]}, \"mtpx\": {}, \"amtp.c\": {}}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    delta.passthrough "h.{layer}.inv_freq" [4] : f32
    delta.passthrough "h.{layer}.listed" [2] : storage if_listed
    delta.passthrough "h.{layer}.not_listed" [2] : storage if_listed
  }
  delta.stack 1 on last {
    delta.passthrough "v.{layer}.rope" [2] : storage
  }
  delta.passthrough "top" [3, 2] : i64
  delta.scope trainer "" hf "mtp" {
    delta.passthrough all "."
  }
}
}

// -----

// Without a key list nothing is copied by its prefix, and nothing `if_listed`.
// CHECK-LABEL: module @passthrough_without_a_list
// CHECK: delta.side @source {{.*}}{
// CHECK-NEXT: }
module @passthrough_without_a_list attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
  delta.passthrough all ""
  delta.passthrough "a" [4] : f32 if_listed
}
}
