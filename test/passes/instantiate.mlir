// RUN: delta-opt %s --delta-instantiate -split-input-file | FileCheck %s

// Families and blocks are gone; defaults of the geometry are filled in.
// CHECK-LABEL: module @defaults
// CHECK-NOT: delta.family
// CHECK-NOT: delta.block
// CHECK: delta.side @source mesh {cp = 1 : i64, dp = 1 : i64, edp = 1 : i64, ep = 1 : i64, etp = 1 : i64, pp = 1 : i64, tp = 1 : i64, vpp = 1 : i64} layers 2 experts 0 stages {{\[\[}}2]] {
// CHECK-NEXT: %[[W:.*]] = delta.param "norm.weight" [8] : bf16 on first
// CHECK-NEXT: delta.tensor "model.norm" = %[[W]] as [8]
// CHECK-NEXT: }
// CHECK-NOT: delta.side @destination
module @defaults attributes {delta.config = "{\"hidden_size\": 8}"} {
delta.block @vector {
  %w = delta.param "{trained}" [size] : storage
  delta.tensor "{tensor}" = %w as [size]
}
delta.family @defaults model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    delta.use @vector with trained = "norm.weight", tensor = "model.norm",
        size = config "hidden_size"
  }
}
}

// -----

// One side a geometry, each with its own sizes, types and names.
// CHECK-LABEL: module @two_geometries
// CHECK: delta.side @source mesh {{.*}}tp = 2 : i64{{.*}} layers 3 experts 0 stages {{\[\[}}2], [1]]
// CHECK-NEXT: delta.param "w" [2] : f16 on first
// CHECK: delta.side @destination mesh {{.*}}tp = 4 : i64{{.*}} layers 3 experts 0 stages {{\[\[}}3]]
// CHECK-NEXT: delta.param "w" [4] : bf16 on first
module @two_geometries attributes {delta.config = "{}",
                   delta.source = {tp = 2, pp = 2, pp_layout = [2, 1], dtype = "f16"},
                   delta.destination = {tp = 4}} {
delta.family @two_geometries model_types [] architectures [] {
  delta.decoder 3
  delta.on first {
    %w = delta.param "w" [tp] : storage
    delta.tensor "t" = %w as [tp]
  }
}
}

// -----

// Layers are chosen, not unrolled; a body that no layer chooses is left out.
// CHECK-LABEL: module @layers
// CHECK: delta.side @source
// CHECK-NEXT: %[[E:.*]] = delta.param "l.{layer}.even" [4] : bf16 on layers(0, 2, 4)
// CHECK-NEXT: delta.tensor "h.{layer}.even" = %[[E]] as [4]
// CHECK-NEXT: %[[L:.*]] = delta.param "l.{layer}.late" [4] : bf16 on layers(3 to 4)
// CHECK-NEXT: delta.tensor "h.{layer+1}.late" = %[[L]] as [4]
// CHECK-NEXT: }
module @layers attributes {delta.config = "{}"} {
delta.family @layers model_types [] architectures [] {
  delta.symbol offset = 1
  delta.decoder 5
  delta.layers where layer mod 2 == 0 {
    delta.scope trainer "l.{layer}." hf "h.{layer}." {
      %w = delta.param "even" [4] : storage
      delta.tensor "even" = %w as [4]
    }
  }
  delta.layers where layer ge 3 {
    %w = delta.param "l.{layer}.late" [4] : storage
    delta.tensor "h.{layer+offset}.late" = %w as [4]
  }
  delta.layers where layer > 7 {
    %w = delta.param "l.{layer}.never" [unknown] : storage
  }
}
}

// -----

// Experts stay a mark on the parameter; the trainer's scheme chooses the name.
// CHECK-LABEL: module @experts
// CHECK: delta.side @source
// CHECK-SAME: experts 4
// CHECK-NEXT: delta.param "{layer}.local.{expert}.w" | "{layer}.{expert}.other" [4] : bf16 on layers(0) experts
module @experts attributes {delta.config = "{}", delta.source = {experts = "sequential"}} {
delta.family @experts model_types [] architectures [] {
  delta.decoder 1
  delta.layers where true {
    delta.experts 4 {
      %w = delta.param grouped "{layer}.w{expert}"
          | sequential "{layer}.local.{expert}.w" | "{layer}.{expert}.other" [4] : storage
      delta.tensor "{layer}.{expert}.t" = %w as [4]
    }
  }
}
}

// -----

// Symbols: a block sees its user's, what it defines is known after the use,
// `with` binds inside only, an inner region may hide a name.
// CHECK-LABEL: module @symbols
// CHECK: delta.side @source
// CHECK-NEXT: delta.param "a" [8]
// CHECK: delta.param "b" [16]
// CHECK: delta.param "c" [3]
// CHECK: delta.param "d" [8]
module @symbols attributes {delta.config = "{}"} {
delta.block @sizes {
  delta.symbol H = base * 2
}
delta.block @parameter {
  %w = delta.param "{name}" [size] : storage
  delta.tensor "t.{name}" = %w as [size]
}
delta.family @symbols model_types [] architectures [] {
  delta.symbol base = 4
  delta.use @sizes
  delta.decoder 1
  delta.on first {
    delta.use @parameter with name = "a", size = H
  }
  delta.on first {
    delta.use @parameter with name = "b", size = 2 * H
  }
  delta.on first {
    delta.symbol H = 3
    delta.use @parameter with name = "c", size = H
  }
  delta.on first {
    delta.use @parameter with name = "d", size = H
  }
}
}

// -----

// Options of the model.
// CHECK-LABEL: module @options
// CHECK: delta.side @source
// CHECK-NEXT: delta.param "bias"
// CHECK-NOT: delta.param "no_bias"
// CHECK: delta.param "else"
// CHECK-NOT: delta.param "then"
// CHECK: }
module @options attributes {delta.config = "{\"attention_bias\": true, \"other\": false, \"n\": 2.0}"} {
delta.family @options model_types [] architectures [] {
  delta.require config "n" == 2, "publishers write whole numbers as 2.0"
  delta.decoder 1
  delta.on first {
    delta.if config "attention_bias" else false {
      %w = delta.param "bias" [4] : storage
      delta.tensor "bias" = %w as [4]
    } else {
      %w = delta.param "no_bias" [4] : storage
      delta.tensor "no_bias" = %w as [4]
    }
    delta.if config "other" {
      %w = delta.param "then" [4] : storage
    } else {
      %w = delta.param "else" [4] : storage
      delta.tensor "else" = %w as [4]
    }
  }
}
}

// -----

// A second tensor of one value is an alias; names only if they are listed.
// CHECK-LABEL: module @aliases
// CHECK: delta.side @source
// CHECK: delta.tensor "first" = %[[W:.*]] as [4]{{$}}
// CHECK-NEXT: delta.tensor "listed" = %[[W]] as [2, 2] alias
// CHECK-NEXT: delta.copy "head" of %[[W]] on last
// CHECK-NEXT: }
module @aliases attributes {delta.config = "{}", delta.keys = "{\"listed\": {}}"} {
delta.family @aliases model_types [] architectures [] {
  delta.decoder 1
  delta.on first {
    %w = delta.param "w" [4] : storage
    delta.tensor "first" = %w as [4]
    delta.tensor "listed" = %w as [2, 2] if_listed
    delta.tensor "not_listed" = %w as [4] if_listed
    delta.on last {
      delta.copy "head" of %w
    }
  }
}
}

// -----

// All index functions with their sizes as numbers.
// CHECK-LABEL: module @index_functions
// CHECK: delta.side @source
// CHECK: delta.unshard %{{.*}} dim 0 over tp ways 4 sections [8, 4]
// CHECK: delta.reshape %{{.*}} [3, 4, 2]
// CHECK: delta.transpose %{{.*}} [1, 0, 2]
// CHECK: %[[S:.*]]:2 = delta.split %{{.*}} dim 1 [1, 2]
// CHECK: delta.interleave %[[S]]#1, %[[S]]#1 dim 0
// CHECK: delta.concat %{{.*}}, %{{.*}} dim 1
// CHECK: delta.take %{{.*}} dim 2 first 1 because "half"
// CHECK: delta.add_scalar %{{.*}} 1
// CHECK: delta.drop %{{.*}} because "test"
module @index_functions attributes {delta.config = "{}", delta.source = {tp = 8}} {
delta.family @index_functions model_types [] architectures [] {
  delta.symbol n = 4
  delta.decoder 1
  delta.on first {
    %w = delta.param "w" [3 * n, 2] : storage
    %all = delta.unshard %w dim 0 over tp ways tp / 2 sections [2 * n, n]
    %r = delta.reshape %all [3, n, 2]
    %t = delta.transpose %r [1, 0, 2]
    %a, %b = delta.split %t dim 1 [1, n - 2]
    %i = delta.interleave %b, %b dim 0
    %j = delta.concat %i, %i dim 1
    %k = delta.take %j dim 2 first 1 because "half"
    %l = delta.add_scalar %k 1
    delta.drop %l because "test"
  }
}
}
