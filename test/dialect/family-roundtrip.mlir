// Every op that a family may hold, with every clause that it may have.
//
// RUN: delta-opt %s | FileCheck %s
// RUN: delta-opt %s | delta-opt | FileCheck %s
// RUN: delta-opt %s --mlir-print-op-generic | delta-opt | FileCheck %s

// CHECK: delta.import "blocks.mlir"
delta.import "blocks.mlir"

// CHECK: delta.family @tiny model_types ["tiny", "tiny2"] architectures ["TinyForCausalLM"] {
delta.family @tiny model_types ["tiny", "tiny2"] architectures ["TinyForCausalLM"] {
  // CHECK: delta.symbol H = config "hidden_size"
  delta.symbol H = config "hidden_size"
  // CHECK: delta.require H mod tp == 0, "rows are split over tp"
  delta.require H mod tp == 0, "rows are split over tp"
  // CHECK: delta.config_part "text_config"
  delta.config_part "text_config"
  // CHECK: delta.symbol depth = config "vision_config.depth"
  delta.symbol depth = config "vision_config.depth"
  // CHECK: delta.symbol held = listed "mtp.norm.weight" else true
  delta.symbol held = listed "mtp.norm.weight" else true
  // CHECK: delta.decoder config "num_hidden_layers" pattern config "kinds" kinds "M*"
  delta.decoder config "num_hidden_layers" pattern config "kinds" kinds "M*"
  // CHECK: delta.on first {
  delta.on first {
    // CHECK: delta.use @vector{{$}}
    delta.use @vector
  }
  // CHECK: delta.on last {
  delta.on last {
    // CHECK: delta.use @vector with trained = "a", tensor = "b", size = 2 * H
    delta.use @vector with trained = "a", tensor = "b", size = 2 * H
  }
  // CHECK: delta.if tied {
  delta.if tied {
    // CHECK: delta.use @one
    delta.use @one
  // CHECK: } else {
  } else {
    // CHECK: delta.use @other
    delta.use @other
  }
  // CHECK: delta.if not tied {
  // CHECK-NOT: else
  delta.if not tied {
  }
  // CHECK: delta.layers where layer ge 2 {
  delta.layers where layer ge 2 {
    // CHECK: delta.scope trainer "decoder.{layer}." hf "h.{layer+1}." {
    delta.scope trainer "decoder.{layer}." hf "h.{layer+1}." {
      // CHECK: delta.experts E {
      delta.experts E {
        // CHECK: delta.param grouped "w{expert}" | sequential "{expert}.w" [I, H] : storage
        %w = delta.param grouped "w{expert}" | sequential "{expert}.w" [I, H] : storage
      }
    }
  }
}

// CHECK-LABEL: delta.block @layers_beside_the_decoder
delta.block @layers_beside_the_decoder {
  // CHECK: delta.stack depth on first {
  delta.stack depth on first {
    // CHECK: delta.scope trainer "vision.{layer}." or "visual.{layer}." hf "visual.{layer+1}." {
    delta.scope trainer "vision.{layer}." or "visual.{layer}." hf "visual.{layer+1}." {
    }
  }
  // CHECK: delta.stack config "num_nextn_predict_layers" else 0 on last where layer ge 1 {
  delta.stack config "num_nextn_predict_layers" else 0 on last where layer ge 1 {
    // CHECK: delta.experts E {
    delta.experts E {
    }
  }
  // CHECK: delta.if listed "a.{L}.b" else depth == 0 {
  delta.if listed "a.{L}.b" else depth == 0 {
  }
  // CHECK: delta.passthrough "rope.{layer}" [d / 2] : f32{{$}}
  delta.passthrough "rope.{layer}" [d / 2] : f32
  // CHECK: delta.passthrough "inv_freq" [d, 2] : storage if_listed{{$}}
  delta.passthrough "inv_freq" [d, 2] : storage if_listed
  // CHECK: delta.passthrough all "mtp."{{$}}
  delta.passthrough all "mtp."
}

// CHECK-LABEL: delta.block @no_decoder_clause
delta.block @no_decoder_clause {
  // CHECK: delta.decoder 4{{$}}
  delta.decoder 4
}

// CHECK-LABEL: delta.block @parameters
delta.block @parameters {
  // CHECK: %[[A:.*]] = delta.param "a" [8, 2 * n] : storage{{$}}
  %a = delta.param "a" [8, 2 * n] : storage
  // CHECK: delta.param "b" | "c" [8] : f32
  %b = delta.param "b" | "c" [8] : f32
  // CHECK: delta.param "d" [8] : bf16
  %d = delta.param "d" [8] : bf16
  // CHECK: delta.param "e" [8] : f16
  %e = delta.param "e" [8] : f16
  // CHECK: delta.param "f" [8] : i64
  %f = delta.param "f" [8] : i64
  // CHECK: delta.copy "g" of %[[A]]{{$}}
  delta.copy "g" of %a
  // CHECK: delta.tensor "h" = %[[A]] as [8, 2 * n]{{$}}
  delta.tensor "h" = %a as [8, 2 * n]
  // CHECK: delta.tensor "i" = %[[A]] as [E, 8, 2 * n] stacked{{$}}
  delta.tensor "i" = %a as [E, 8, 2 * n] stacked
  // CHECK: delta.tensor "j" = %[[A]] as [8, 2 * n] if_listed{{$}}
  delta.tensor "j" = %a as [8, 2 * n] if_listed
  // CHECK: delta.tensor "k" = %[[A]] as [1] stacked if_listed alias
  delta.tensor "k" = %a as [1] stacked if_listed alias
  // CHECK: delta.tensor "l" = %[[A]] as [8] : storage{{$}}
  delta.tensor "l" = %a as [8] : storage
  // CHECK: delta.tensor "m" = %[[A]] as [8] stacked if_listed : f32 | storage | bf16{{$}}
  delta.tensor "m" = %a as [8] stacked if_listed : f32 | storage | bf16
  // CHECK: delta.drop %[[A]] because "the reason"
  delta.drop %a because "the reason"
}

// CHECK-LABEL: delta.block @index_functions
delta.block @index_functions {
  // CHECK: %[[A:.*]] = delta.param "a"
  %a = delta.param "a" [8, 2] : storage
  // CHECK: %[[B:.*]] = delta.param "b"
  %b = delta.param "b" [8, 2] : storage
  // CHECK: %[[C:.*]] = delta.param "c"
  %c = delta.param "c" [8, 2] : storage
  // CHECK: delta.unshard %[[A]] dim 0 over tp{{$}}
  %0 = delta.unshard %a dim 0 over tp
  // CHECK: delta.unshard %[[B]] dim 1 over etp ways etp / 2{{$}}
  %1 = delta.unshard %b dim 1 over etp ways etp / 2
  // CHECK: delta.unshard %[[C]] dim 0 over tp ways 2 sections [F, F + 1]{{$}}
  %2 = delta.unshard %c dim 0 over tp ways 2 sections [F, F + 1]
  // CHECK: delta.reshape %[[A]] [g, n / g + 2, d]
  %3 = delta.reshape %a [g, n / g + 2, d]
  // CHECK: delta.transpose %[[A]] [1, 0]
  %4 = delta.transpose %a [1, 0]
  // CHECK: %{{.*}}:3 = delta.split %[[A]] dim 1 [n / g, 1, 1]
  %q, %k, %v = delta.split %a dim 1 [n / g, 1, 1]
  // CHECK: delta.concat %[[A]], %[[B]] dim 0
  %5 = delta.concat %a, %b dim 0
  // CHECK: delta.interleave %[[A]], %[[B]], %[[C]] dim 1
  %6 = delta.interleave %a, %b, %c dim 1
  // CHECK: delta.take %[[A]] dim 0 first V - 1 because "padding"
  %7 = delta.take %a dim 0 first V - 1 because "padding"
  // CHECK: delta.add_scalar %[[A]] 1
  %8 = delta.add_scalar %a 1
  // CHECK: delta.cast %[[A]] : f32{{$}}
  %9 = delta.cast %a : f32
  // CHECK: delta.cast %[[A]] : storage{{$}}
  %10 = delta.cast %a : storage
}

// Attributes that the compiler does not know stay.
// CHECK-LABEL: delta.block @other_attributes
delta.block @other_attributes {
  // CHECK: delta.symbol a = 1 {note}
  delta.symbol a = 1 {note}
  // CHECK: delta.require true, "r" {note}
  delta.require true, "r" {note}
  // CHECK: delta.decoder 4 {note}
  delta.decoder 4 {note}
  // CHECK: delta.use @b {note}
  delta.use @b {note}
  // CHECK: delta.param "w" [1] : f32 {note}
  %w = delta.param "w" [1] : f32 {note}
  // CHECK: delta.copy "v" of %{{.*}} {note}
  delta.copy "v" of %w {note}
  // CHECK: delta.tensor "t" = %{{.*}} as [1] {note}
  delta.tensor "t" = %w as [1] {note}
  // CHECK: delta.unshard %{{.*}} dim 0 over tp {note}
  %u = delta.unshard %w dim 0 over tp {note}
  // CHECK: delta.reshape %{{.*}} [1] {note}
  %r = delta.reshape %w [1] {note}
  // CHECK: delta.split %{{.*}} dim 0 [1] {note}
  %s = delta.split %w dim 0 [1] {note}
  // CHECK: delta.take %{{.*}} because "r" {note}
  %t = delta.take %w dim 0 first 1 because "r" {note}
  // CHECK: delta.cast %{{.*}} : f32 {note}
  %c = delta.cast %w : f32 {note}
  // CHECK: delta.config_part "p" {note}
  delta.config_part "p" {note}
  // CHECK: delta.passthrough "p" [1] : f32 if_listed {note}
  delta.passthrough "p" [1] : f32 if_listed {note}
  // CHECK: delta.passthrough all "p" {note}
  delta.passthrough all "p" {note}
  // CHECK: delta.stack 1 on last where true {
  // CHECK-NEXT: } {note}
  delta.stack 1 on last where true {
  } {note}
  // CHECK: delta.if true {
  // CHECK-NEXT: } {note}
  delta.if true {
  } {note}
}

// A layout: what only engines have.
// CHECK-LABEL: delta.family @layout engine "e" versions ["1", "2.0"]
// CHECK: delta.decoder L per_stage L / pp
// CHECK: delta.scope engine "l.{layer}." hf "h.{layer}." {
// CHECK: delta.param "w" [2 * I, H] : storage stacked extra n
// CHECK: delta.param "w" [2 * I, H] : storage stacked slot n - 1
// CHECK: delta.param "A" [h] : f32 holds neg_exp
// CHECK: delta.param "c" [n, 2, 3] : storage viewed [0, 2, 1]
// CHECK: delta.unshard %{{.*}} dim 0 over stage sections [n, 2 ways min(2, tp)]
// CHECK: delta.tensor "c" = %{{.*}} as [6 * n] also
// CHECK: delta.refresh "again" of %{{.*}}
// CHECK: delta.passthrough all "mtp."
delta.family @layout engine "e" versions ["1", "2.0"] model_types ["t"]
    architectures [] {
  delta.decoder L per_stage L / pp
  delta.layers where true {
    delta.scope engine "l.{layer}." hf "h.{layer}." {
      delta.experts E {
        %w = delta.param "w" [2 * I, H] : storage stacked extra n
      }
      %s = delta.param "w" [2 * I, H] : storage stacked slot n - 1
      %a = delta.param "A" [h] : f32 holds neg_exp
      %c = delta.param "c" [n, 2, 3] : storage viewed [0, 2, 1]
      %u = delta.unshard %a dim 0 over stage sections [n, 2 ways min(2, tp)]
      delta.tensor "c" = %c as [6 * n] also
      delta.refresh "again" of %c
    }
  }
  delta.passthrough all "mtp."
}
