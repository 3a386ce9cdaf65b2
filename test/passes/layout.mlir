// RUN: delta-opt %s --delta-instantiate -split-input-file | FileCheck %s --check-prefix=BOUND
// RUN: delta-opt %s --delta-instantiate --delta-fold-instances --delta-fold-tensor-parallel --delta-fold-deinterleave --delta-compose-maps --delta-coalesce-runs --delta-align-layers --delta-verify-coverage --delta-plan-routes -split-input-file | FileCheck %s --check-prefix=ROUTES

// Four ranks, two key/value heads: two neighbors hold the same one. The
// engine's layers have global numbers, and its last stages have more of them.
// BOUND-LABEL: module @heads
// BOUND: delta.side @source
// BOUND: delta.side @destination mesh {{.*}}tp = 4 : i64{{.*}} layers 3 experts 0 stages {{\[\[}}1], [2]] engine "vllm" {
// BOUND-NEXT: %[[W:.*]] = delta.param "l.{layer}.qkv" [12, 1] : bf16 on layers(0 to 2)
// BOUND-NEXT: delta.unshard %[[W]] dim 0 over tp ways 4 sections [8 ways 4, 2 ways 2, 2 ways 2]
// The key is in row 2 of both ranks that hold it.
// ROUTES-LABEL: module @heads
// ROUTES: delta.side @destination {{.*}} placement [0, 0, 0, 0, 1, 0, 1, 1, 1, 0, 2, 2]
// ROUTES: delta.route source 0 way 0 hf 0 <ways 1, 8 -> 8, {0 -> 0, 2 x (1, 1)}> to [0] ways [0] [1] [#delta.map<ways 1, 8 -> 4, {0 -> 0, 2 x (1, 1)}>]
// ROUTES: delta.route source 1 way 0 hf 1 <ways 1, 2 -> 2, {0 -> 0}> to [0] ways [0] [2] [#delta.map<ways 1, 2 -> 4, {0 -> 2}>]
// ROUTES: delta.route source 1 way 0 hf 1 <ways 1, 2 -> 2, {1 -> 1}> to [0] ways [2] [4] [#delta.map<ways 1, 2 -> 4, {1 -> 2}>]
// ROUTES: delta.route source 2 way 0 hf 2 <ways 1, 2 -> 2, {1 -> 1}> to [0] ways [2] [4] [#delta.map<ways 1, 2 -> 4, {1 -> 3}>]
module @heads attributes {delta.config = "{}", delta.source = {},
    delta.destination = {tp = 4, pp = 2}} {
delta.family @trainer model_types [] architectures [] {
  delta.decoder 3
  delta.layers where true {
    delta.scope trainer "t.{layer}." hf "h.{layer}." {
      %q = delta.param "q" [8, 1] : storage
      delta.tensor "q" = %q as [8, 1]
      %k = delta.param "k" [2, 1] : storage
      delta.tensor "k" = %k as [2, 1]
      %v = delta.param "v" [2, 1] : storage
      delta.tensor "v" = %v as [2, 1]
    }
  }
}
delta.family @engine engine "vllm" versions ["0"] model_types [] architectures [] {
  delta.decoder 3 per_stage 1 + select(stage ge pp - 1, 1, 0)
  delta.layers where true {
    delta.scope engine "l.{layer}." hf "h.{layer}." {
      %w = delta.param "qkv" [12, 1] : storage
      %all = delta.unshard %w dim 0 over tp
          sections [8, 2 ways min(2, tp), 2 ways min(2, tp)]
      %q, %k, %v = delta.split %all dim 0 [8, 2, 2]
      delta.tensor "q" = %q as [8, 1]
      delta.tensor "k" = %k as [2, 1]
      delta.tensor "v" = %v as [2, 1]
    }
  }
}
}

// -----

// Three experts and one more slot on two ranks; a shared one behind them, and
// padding between the halves.
// BOUND-LABEL: module @slots
// BOUND: delta.side @destination {{.*}} layers 1 experts 3 stages {{\[\[}}1]] engine "e" slots [0, 1, 2, 0] from [0, 2, 4]
// BOUND-NEXT: delta.param "{layer}.w13" [6] : bf16 stacked extra 1 on layers(0) experts
// BOUND: delta.param "{layer}.w13" [6] : bf16 stacked slot 0 on layers(0)
// ROUTES-LABEL: module @slots
// ROUTES: delta.side @destination {{.*}} expert_ranks [0, 0, 0, 1, 1, 0]
// ROUTES: delta.route source 0 way 0 hf 0 <ways 1, 2 -> 2, {0 -> 0, 2 x (1, 1)}> to [0] ways [0] [1] [#delta.map<ways 1, 2 -> 6, {0 -> 0, 2 x (1, 1)}>]
// ROUTES: delta.route source 1 way 0 hf 1 <ways 1, 2 -> 2, {0 -> 0, 2 x (1, 1)}> to [0] ways [0] [1] [#delta.map<ways 1, 2 -> 6, {0 -> 3, 2 x (1, 1)}>]
// ROUTES: delta.route source 2 way 0 hf 2 <ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}> to [1] ways [0] [1] [#delta.map<ways 1, 4 -> 6, {0 -> 0, 4 x (1, 1)}>]
module @slots attributes {delta.config = "{}", delta.source = {},
    delta.destination = {ep = 2, dp = 2, redundant_experts = 1}} {
delta.family @trainer model_types [] architectures [] {
  delta.decoder 1
  delta.layers where true {
    delta.experts 3 {
      %g = delta.param "{layer}.g{expert}" [2] : storage
      delta.tensor "{layer}.{expert}.g" = %g as [2]
      %u = delta.param "{layer}.u{expert}" [2] : storage
      delta.tensor "{layer}.{expert}.u" = %u as [2]
    }
    %s = delta.param "{layer}.s" [4] : storage
    delta.tensor "{layer}.s" = %s as [4]
  }
}
delta.family @layout engine "e" versions ["0"] model_types [] architectures [] {
  delta.decoder 1
  delta.layers where true {
    delta.experts 3 {
      %w = delta.param "{layer}.w13" [6] : storage stacked extra 1
      %halves = delta.reshape %w [2, 3]
      %rows = delta.take %halves dim 1 first 2 because "padding"
      %g, %u = delta.split %rows dim 0 [1, 1]
      delta.tensor "{layer}.{expert}.g" = %g as [2]
      delta.tensor "{layer}.{expert}.u" = %u as [2]
    }
    %s = delta.param "{layer}.w13" [6] : storage stacked slot 0
    %t = delta.take %s dim 0 first 4 because "padding"
    delta.tensor "{layer}.s" = %t as [4]
  }
}
}

// -----

// A copy in another order of memory, a tensor that the engine does not hold, a
// parameter that no tensor fills, a value in another form.
// BOUND-LABEL: module @derived
// BOUND: delta.side @destination
// BOUND: delta.param "w_c" [2, 3, 2] : bf16 viewed [0, 2, 1] on first
// BOUND: delta.tensor "w" = %{{.*}} as [4, 3] also
// BOUND: delta.param "A" [2] : f32 holds neg_exp on first
// BOUND: delta.refresh "remake" of
// BOUND: delta.passthrough all "mtp."
// ROUTES-LABEL: module @derived
// ROUTES: delta.route source 0 way 0 hf 0 <ways 1, 12 -> 12, {0 -> 0, 2 x (6, 6), 2 x (3, 3), 3 x (1, 1)}> to [0, 1] ways [0, 0] [1, 1] [#delta.map<ways 1, 12 -> 12, {0 -> 0, 2 x (6, 6), 2 x (3, 3), 3 x (1, 1)}>, #delta.map<ways 1, 12 -> 12, {0 -> 0, 2 x (6, 6), 2 x (3, 1), 3 x (1, 2)}>]
// ROUTES: delta.route source 1 way 0 hf 1 <ways 1, 2 -> 2, {0 -> 0, 2 x (1, 1)}> to [2]
// ROUTES: delta.route source 2 way 0 hf 2 <ways 1, 2 -> 2, {0 -> 0, 2 x (1, 1)}> to [] ways [] [] []
module @derived attributes {delta.config = "{}", delta.source = {},
    delta.destination = {}} {
delta.family @trainer model_types [] architectures [] {
  delta.decoder 1
  delta.on first {
    %w = delta.param "w" [4, 3] : storage
    delta.tensor "w" = %w as [4, 3]
    %a = delta.param "A_log" [2] : storage
    delta.tensor "A_log" = %a as [2]
    %m = delta.param "mtp.x" [2] : storage
    delta.tensor "mtp.x" = %m as [2]
  }
}
delta.family @layout engine "e" versions ["0"] model_types [] architectures [] {
  delta.decoder 1
  delta.on first {
    %w = delta.param "w" [4, 3] : storage
    delta.tensor "w" = %w as [4, 3]
    %c = delta.param "w_c" [2, 3, 2] : storage viewed [0, 2, 1]
    %t = delta.transpose %c [0, 2, 1]
    delta.tensor "w" = %t as [4, 3] also
    %a = delta.param "A" [2] : f32 holds neg_exp
    delta.tensor "A_log" = %a as [2]
    delta.refresh "remake" of %a
    %x = delta.param "unused" [5] : storage
    delta.drop %x because "no checkpoint fills it"
  }
  delta.passthrough all "mtp."
}
}

// -----

// The trainer tells dense layers from sparse ones; the layout does not.
// ROUTES-LABEL: module @kinds
// ROUTES: delta.side @destination
// ROUTES-NEXT: %[[A:.*]] = delta.param "l.{layer}.n" [2] : bf16 on layers(0)
// ROUTES: delta.tensor "h.{layer}.n"
// ROUTES: %[[B:.*]] = delta.param "l.{layer}.n" [2] : bf16 on layers(1 to 2)
// ROUTES: delta.tensor "h.{layer}.n"
// ROUTES: delta.route source 0 way 0 hf 0 {{.*}} to [0] ways
// ROUTES: delta.route source 1 way 0 hf 1 {{.*}} to [1] ways
// ROUTES-NOT: delta.route
module @kinds attributes {delta.config = "{}", delta.source = {},
    delta.destination = {}} {
delta.block @norm {
  %n = delta.param "t.{layer}.{kind}" [2] : storage
  delta.tensor "h.{layer}.n" = %n as [2]
}
delta.family @trainer model_types [] architectures [] {
  delta.decoder 3
  delta.layers where layer lt 1 {
    delta.use @norm with kind = "dense"
  }
  delta.layers where layer ge 1 {
    delta.use @norm with kind = "sparse"
  }
}
delta.family @layout engine "e" versions ["0"] model_types [] architectures [] {
  delta.decoder 3
  delta.layers where true {
    %n = delta.param "l.{layer}.n" [2] : storage
    delta.tensor "h.{layer}.n" = %n as [2]
  }
}
}

// -----

// A section that both ranks hold whole lies next to the rows of the second
// one: in that rank they are one run, and the other rank's box is a part of it.
// ROUTES-LABEL: module @groups
// ROUTES: delta.route source 0 way 0 hf 0 <ways 1, 6 -> 6, {0 -> 0, 2 x (1, 1)}> to [0] ways [0] [1] [#delta.map<ways 1, 6 -> 4, {0 -> 0, 2 x (1, 1)}>]
// ROUTES: delta.route source 0 way 0 hf 0 <ways 1, 6 -> 6, {2 -> 2, 2 x (1, 1)}> to [0] ways [1] [2] [#delta.map<ways 1, 6 -> 4, {2 -> 0, 2 x (1, 1)}>]
// ROUTES: delta.route source 0 way 0 hf 0 <ways 1, 6 -> 6, {4 -> 4, 2 x (1, 1)}> to [0] ways [0] [2] [#delta.map<ways 1, 6 -> 4, {4 -> 2, 2 x (1, 1)}>]
// ROUTES-NOT: delta.route
module @groups attributes {delta.config = "{}", delta.source = {},
    delta.destination = {tp = 2}} {
delta.family @trainer model_types [] architectures [] {
  delta.decoder 1
  delta.on first {
    %n = delta.param "w" [6] : storage
    delta.tensor "w" = %n as [6]
  }
}
delta.family @layout engine "e" versions ["0"] model_types [] architectures [] {
  delta.decoder 1
  delta.on first {
    %w = delta.param "w" [6] : storage
    %a = delta.unshard %w dim 0 over tp sections [4, 2 ways 1]
    delta.tensor "w" = %a as [6]
  }
}
}
