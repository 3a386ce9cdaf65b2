//===- Passes.td - From a bound family to static maps ------*- tablegen -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_PASSES
#define DELTA_PASSES

include "mlir/Pass/PassBase.td"

class Delta_Pass<string flag> : Pass<flag, "::mlir::ModuleOp"> {
  let dependentDialects = ["::delta::DeltaDialect"];
}

def InstantiatePass : Delta_Pass<"delta-instantiate"> {
  let summary = "Bind a family to a config and a geometry";
  let description = [{
    **Before:** a module with one family and the blocks it uses; attributes
    `delta.config` (a JSON text), `delta.source` and, where the destination is
    another geometry, `delta.destination` (axis sizes and options), and
    optionally `delta.keys` (a JSON text: the key list of a checkpoint).

    **After:** one `delta.side` for each geometry, with straight-line ops whose
    sizes are numbers; families and blocks are gone. Every constraint of the
    ops' documentation that depends on sizes has been checked.

    ```mlir
    delta.layers where true {
      delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
        delta.use @vector with trained = "a", tensor = "b", size = H
      }
    }
    ```
    becomes
    ```mlir
    delta.side @source mesh {cp = 1, ...} layers 4 experts 0 stages [[4]] {
      %0 = delta.param "decoder.layers.{layer}.a" [64] : bf16 on layers(0 to 3)
      delta.tensor "model.layers.{layer}.b" = %0 as [64]
    }
    ```
  }];
}

def FoldInstancesPass : Delta_Pass<"delta-fold-instances"> {
  let summary = "Fold pipeline and expert parallelism into instance tables";
  let description = [{
    **Before:** sides with `stages` and `mesh`.

    **After:** each side has `placement` (four numbers a layer: stage, chunk,
    local number, number) and `expert_ranks` (two numbers an expert: ep rank,
    local number). Chunks are numbered with the virtual stage outermost;
    the layers of stacks follow the decoder's.

    `layers 4 experts 2 stages [[1, 1], [1, 1]]` with `ep = 2` becomes
    `placement [0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 2, 1, 1, 0, 3]
    expert_ranks [0, 0, 1, 0]`.
  }];
}

def FoldTensorParallelPass : Delta_Pass<"delta-fold-tensor-parallel"> {
  let summary = "Fold shards into index maps";
  let description = [{
    **Before:** bound sides.

    **After:** no `delta.unshard` is left. Each parameter has its `axis`, its
    number of `ways` and its `local` shape; each former `unshard` is a
    `delta.apply` whose map has one piece list for every way.

    ```mlir
    %0 = delta.param "w" [8, 4] : bf16 on first
    %1 = delta.unshard %0 dim 0 over tp
    ```
    becomes
    ```mlir
    %0 = delta.param "w" [8, 4] : bf16 on first {axis = "tp", ...}
    %1 = delta.apply %0 by [#delta.map<ways 2, 16 -> 32,
                                       {0 -> 0 + 16 way, 16 x (1, 1)}>]
    ```
  }];
}

def FoldDeinterleavePass : Delta_Pass<"delta-fold-deinterleave"> {
  let summary = "Fold sections, splits and interleaves into index maps";
  let description = [{
    **Before:** bound sides, with or without `unshard`.

    **After:** of the index functions only `unshard` and `delta.apply` are
    left. Rows that a `take` leaves out go to a `delta.drop`, so that every
    element of a parameter is accounted for.

    ```mlir
    %2:2 = delta.split %1 dim 0 [3, 1]
    ```
    becomes
    ```mlir
    %2 = delta.apply %1 by [#delta.map<ways 1, 16 -> 12, {0 -> 0, 12 x (1, 1)}>]
    %3 = delta.apply %1 by [#delta.map<ways 1, 16 -> 4, {12 -> 0, 4 x (1, 1)}>]
    ```
  }];
}

def ComposeMapsPass : Delta_Pass<"delta-compose-maps"> {
  let summary = "Compose chains of maps into one map for each tensor";
  let description = [{
    **Before:** the index functions are `delta.apply` ops.

    **After:** each tensor and each drop reads one `delta.apply`, whose
    operands are parameters.

    ```mlir
    %1 = delta.apply %0 by [#delta.map<ways 1, 8 -> 6, {2 -> 0, 6 x (1, 1)}>]
    %2 = delta.apply %1 by [#delta.map<ways 1, 6 -> 3, {3 -> 0, 3 x (1, 1)}>]
    ```
    becomes
    ```mlir
    %1 = delta.apply %0 by [#delta.map<ways 1, 8 -> 3, {5 -> 0, 3 x (1, 1)}>]
    ```
  }];
}

def CoalesceRunsPass : Delta_Pass<"delta-coalesce-runs"> {
  let summary = "Join neighboring pieces into longer runs";
  let description = [{
    **Before:** any maps.

    **After:** the same maps with the fewest pieces and loops, in the order of
    the source.

    `{0 -> 0, 4 x (1, 1)}, {4 -> 4, 4 x (1, 1)}` becomes `{0 -> 0, 8 x (1, 1)}`.
  }];
}

def AlignLayersPass : Delta_Pass<"delta-align-layers"> {
  let summary = "Put an engine's classes on the layers of the trainer's";
  let description = [{
    **Before:** composed maps on both sides.

    **After:** each parameter of an engine whose tensors come from several
    classes of the trainer, on other layers each, is as many parameters; all
    that reads it is repeated with it. Other destinations stay as they are.

    With dense layers 0 and 1 and a sparse layer 2 in the trainer's family,
    ```mlir
    %0 = delta.param "l.{layer}.norm" [8] : bf16 on layers(0 to 2)
    ```
    becomes
    ```mlir
    %0 = delta.param "l.{layer}.norm" [8] : bf16 on layers(0 to 1)
    %1 = delta.param "l.{layer}.norm" [8] : bf16 on layers(2)
    ```
  }];
}

def VerifyCoveragePass : Delta_Pass<"delta-verify-coverage"> {
  let summary = "Prove that every element has exactly one owner";
  let description = [{
    **Before:** composed maps and instance tables.

    **After:** the same; fails unless, on each side, all indices are in bounds;
    no parameter element has two places in one tensor; no tensor element has
    two owners; every tensor element has one; every parameter element has an
    image or is dropped for a reason; no offset overflows 64 bits; layers and
    experts have one place each; no two parameters of a rank and no two tensors
    share a name. A failure names the parameter or tensor, both claimants and
    one element.
  }];
}

def PlanRoutesPass : Delta_Pass<"delta-plan-routes"> {
  let summary = "Compose both sides into route boxes";
  let description = [{
    **Before:** composed maps on the source side, and on the destination side
    where there is one.

    **After:** `delta.route` ops, sorted by source class and way: boxes all of
    whose elements go to the same ways of the same destination classes.
  }];
}

#endif // DELTA_PASSES
