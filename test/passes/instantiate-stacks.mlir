// Layers beside the decoder's: how they are numbered and named.
//
// RUN: delta-opt %s --delta-instantiate -split-input-file | FileCheck %s

// Rows of a stack follow the decoder's; the trainer's names count from 0 again,
// and a tensor's name takes the decoder's layers off.
// CHECK-LABEL: module @after_the_decoder
// CHECK: delta.side @source
// CHECK-SAME: layers 3 experts 0 stages {{\[\[}}3]] stacks {{\[\[}}2, "last"]] {
// CHECK-NEXT: %[[A:.*]] = delta.param "layers.{layer}.a" [4] : bf16 on layers(0 to 2)
// CHECK-NEXT: delta.tensor "h.{layer}.a" = %[[A]] as [4]
// CHECK-NEXT: %[[B:.*]] = delta.param "mtp.{layer}.b" [4] : bf16 on layers(3 to 4)
// CHECK-NEXT: delta.tensor "mtp.{layer-3}.b" = %[[B]] as [4]
// CHECK-NEXT: }
module @after_the_decoder attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 3
  delta.layers where true {
    %w = delta.param "layers.{layer}.a" [4] : storage
    delta.tensor "h.{layer}.a" = %w as [4]
  }
  delta.stack 2 on last {
    %w = delta.param "mtp.{layer}.b" [4] : storage
    delta.tensor "mtp.{layer}.b" = %w as [4]
  }
}
}

// -----

// A name that adds the decoder's layers again is one over all of them.
// CHECK-LABEL: module @numbered_on
// CHECK: delta.param "mtp.{layer}.b" [4] : bf16 on layers(3)
// CHECK-NEXT: delta.tensor "model.layers.{layer}.b" =
// CHECK-NEXT: delta.param "mtp.{layer+1}.c" [4] : bf16 on layers(3)
// CHECK-NEXT: delta.tensor "model.layers.{layer+2}.c" =
// CHECK-NEXT: }
module @numbered_on attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.symbol L = 3
  delta.symbol M = 5
  delta.decoder L
  delta.stack 1 on last {
    %w = delta.param "mtp.{layer}.b" [4] : storage
    delta.tensor "model.layers.{layer+L}.b" = %w as [4]
    %v = delta.param "mtp.{layer+1}.c" [4] : storage
    delta.tensor "model.layers.{layer+M}.c" = %v as [4]
  }
}
}

// -----

// `layer` in a condition is the number of the block within its stack; what is
// left out still has its place.
// CHECK-LABEL: module @some_blocks
// CHECK: stacks {{\[\[}}4, "first"]] {
// CHECK-NEXT: delta.param "v.{layer}.w" [4] : bf16 on layers(3, 5)
// CHECK-NEXT: delta.tensor "v.{layer-2}.w"
// CHECK-NEXT: }
module @some_blocks attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 4 on first where layer mod 2 == 1 {
    %w = delta.param "v.{layer}.w" [4] : storage
    delta.tensor "v.{layer}.w" = %w as [4]
  }
}
}

// -----

// A stack whose condition no block fulfils holds nothing and is still counted;
// one of no blocks is not.
// CHECK-LABEL: module @no_block
// CHECK: layers 2 experts 0 stages {{\[\[}}2]] stacks {{\[\[}}2, "last"]] {
// CHECK-NEXT: }
module @no_block attributes {delta.config = "{\"depth\": null}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 2 on last where layer > 7 {
    %w = delta.param "a.{layer}" [unknown] : storage
  }
  delta.stack config "depth" else 0 on first {
    %w = delta.param "b.{layer}" [unknown] : storage
  }
}
}

// -----

// Without a stack there is no list of them.
// CHECK-LABEL: module @no_stack
// CHECK: stages {{\[\[}}2]] {
// CHECK-NEXT: }
module @no_stack attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 0 on last {
  }
}
}

// -----

// Stacks are numbered on in the order of the text, whatever their stage.
// CHECK-LABEL: module @several
// CHECK: layers 2 experts 0 stages {{\[\[}}2]] stacks {{\[\[}}1, "last"], [3, "first"], [1, "last"]] {
// CHECK-NEXT: delta.param "a.{layer}" [4] : bf16 on layers(2)
// CHECK-NEXT: delta.tensor "ta.{layer-2}"
// CHECK-NEXT: delta.param "b.{layer}" [4] : bf16 on layers(3 to 5)
// CHECK-NEXT: delta.tensor "tb.{layer-3}"
// CHECK-NEXT: delta.param "c.{layer}" [4] : bf16 on layers(6)
// CHECK-NEXT: delta.tensor "tc.{layer-5}"
// CHECK-NEXT: delta.param "d.{layer}" [4] : bf16 on layers(0 to 1)
// CHECK-NEXT: delta.tensor "td.{layer}"
module @several attributes {delta.config = "{}"} {
delta.block @part {
  %w = delta.param "{kind}.{layer}" [4] : storage
  delta.tensor "t{kind}.{layer+offset}" = %w as [4]
}
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.stack 1 on last {
    delta.use @part with kind = "a", offset = 0
  }
  delta.stack 3 on first {
    delta.use @part with kind = "b", offset = 0
  }
  delta.stack 1 on last {
    delta.use @part with kind = "c", offset = 1
  }
  delta.layers where true {
    delta.use @part with kind = "d", offset = 0
  }
}
}

// -----

// Experts of a stack are those of the decoder; stacked ones have one name.
// CHECK-LABEL: module @experts_in_a_stack
// CHECK: layers 1 experts 4 stages {{.*}} stacks {{\[\[}}1, "last"]] {
// CHECK-NEXT: %[[W:.*]] = delta.param "mtp.{layer}.w{expert}" [8] : bf16 on layers(1) experts
// CHECK-NEXT: %[[U:.*]] = delta.unshard %[[W]] dim 0 over etp ways 2
// CHECK-NEXT: delta.tensor "mtp.{layer-1}.{expert}.w" = %[[U]] as [8]{{$}}
// CHECK-NEXT: %[[V:.*]] = delta.param "mtp.{layer}.v{expert}" [8] : bf16 on layers(1) experts
// CHECK-NEXT: delta.tensor "mtp.{layer-1}.v" = %[[V]] as [4, 8] stacked
module @experts_in_a_stack attributes {delta.config = "{}",
                          delta.source = {tp = 2, ep = 2, etp = 2}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
  delta.stack 1 on last {
    delta.experts 4 {
      %w = delta.param "mtp.{layer}.w{expert}" [8] : storage
      %u = delta.unshard %w dim 0 over etp
      delta.tensor "mtp.{layer}.{expert}.w" = %u as [8]
      %v = delta.param "mtp.{layer}.v{expert}" [8] : storage
      delta.tensor "mtp.{layer}.v" = %v as [4, 8] stacked
    }
  }
}
}

// -----

// Of two prefixes every name of the region has both, also within another one.
// CHECK-LABEL: module @two_prefixes
// CHECK: delta.param "m.{layer}.a.w" | "m.{layer}.b.w" [4]
// CHECK-NEXT: delta.tensor "t.{layer-1}.w"
// CHECK: delta.param "m.{layer}.a.c.v" | "m.{layer}.a.d.v" | "m.{layer}.b.c.v" | "m.{layer}.b.d.v" | "m.{layer}.a.c.u" | "m.{layer}.a.d.u" | "m.{layer}.b.c.u" | "m.{layer}.b.d.u" [4]
// CHECK-NEXT: delta.tensor "t.{layer-1}.v"
module @two_prefixes attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
  delta.stack 1 on last {
    delta.scope trainer "m.{layer}." hf "t.{layer}." {
      delta.scope trainer "a." or "b." hf "" {
        %w = delta.param "w" [4] : storage
        delta.tensor "w" = %w as [4]
        delta.scope trainer "c." or "d." hf "" {
          %v = delta.param "v" | "u" [4] : storage
          delta.tensor "v" = %v as [4]
        }
      }
    }
  }
}
}

// -----

// Each geometry has its own stacks: mtp_layers is the trainer's.
// CHECK-LABEL: module @one_side_only
// CHECK: delta.side @source
// CHECK-SAME: stacks {{\[\[}}1, "last"]]
// CHECK: delta.side @destination
// CHECK-NOT: stacks
module @one_side_only attributes {delta.config = "{}", delta.source = {mtp_layers = 1},
                         delta.destination = {mtp_layers = 0}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
  delta.stack mtp_layers on last {
    %w = delta.param "m.{layer}" [4] : storage
    delta.tensor "t.{layer}" = %w as [4]
  }
}
}
