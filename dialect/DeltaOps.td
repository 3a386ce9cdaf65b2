//===- DeltaOps.td - Ops of families and of bound sides ----*- tablegen -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_OPS
#define DELTA_OPS

include "dialect/DeltaDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Delta_Op<string mnemonic, list<Trait> traits = []>
    : Op<Delta_Dialect, mnemonic, traits>;

/// An op with one region of delta ops and no terminator.
class Delta_RegionOp<string mnemonic, list<Trait> traits = []>
    : Delta_Op<mnemonic, !listconcat(traits, [NoTerminator, SingleBlock,
                                              NoRegionArguments])>;

//===----------------------------------------------------------------------===//
// Structure of a family
//===----------------------------------------------------------------------===//

def Delta_ImportOp : Delta_Op<"import"> {
  let summary = "Make the blocks of another file known";
  let description = [{
    The file is looked up beside the importing one, then in the installed
    `models` folder. Its blocks are added to this file's; its families are not.
    A file is read once, whoever imports it.

    Example:
    ```mlir
    delta.import "blocks.mlir"
    ```
  }];
  let arguments = (ins StrAttr:$file);
  let assemblyFormat = "$file attr-dict";
}

def Delta_FamilyOp : Delta_RegionOp<"family", [Symbol, IsolatedFromAbove]> {
  let summary = "Map the parameters of one architecture";
  let description = [{
    Chosen by the config's `model_type`, else by its `architectures`, or given
    with `--family`, where the file has exactly one.

    With `engine` it is a *layout*: how the parameters of an inference engine
    make up the same tensors, in the same ops. It is bound as the destination.
    `versions` are those whose loader was compared with it; another one that
    `rollout.version` asks for is refused. What only a layout has is said where
    it is declared: values that an engine holds in another form, experts that
    are slots of one parameter, tensors that it does not hold.

    Example:
    ```mlir
    delta.family @tiny model_types ["tiny"] architectures ["TinyForCausalLM"] {
      delta.decoder config "num_hidden_layers"
    }
    delta.family @vllm_tiny engine "vllm" versions ["0.33"]
        model_types ["tiny"] architectures ["TinyForCausalLM"] {
      delta.decoder config "num_hidden_layers"
    }
    ```

    **Constraints**
    - (family_c1) it binds exactly one `delta.decoder` op.
    - (family_c2) a layout is bound for a destination, another family is not
      bound for an engine.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$engine,
                       OptionalAttr<StrArrayAttr>:$versions,
                       StrArrayAttr:$model_types,
                       StrArrayAttr:$architectures);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name (`engine` $engine^ `versions` $versions)?
    `model_types` $model_types `architectures` $architectures $body attr-dict
  }];
  let hasVerifier = 1;
}

def Delta_BlockOp : Delta_RegionOp<"block", [Symbol, IsolatedFromAbove]> {
  let summary = "Name ops that several families use";
  let description = [{
    The ops stand for nothing by themselves; `delta.use` instantiates them.

    Example:
    ```mlir
    delta.block @vector {
      %w = delta.param "{trained}" [size] : storage
      delta.tensor "{tensor}" = %w as [size]
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $body attr-dict";
}

def Delta_UseOp : Delta_Op<"use"> {
  let summary = "Instantiate a block here";
  let description = [{
    The block's names are completed by the scopes around the use and its
    symbols are looked up there. `with` binds symbols inside the block only.
    Symbols that the block itself defines are known after the use.

    Example:
    ```mlir
    delta.use @vector with trained = "norm.weight", tensor = "norm.weight",
        size = H
    ```

    **Constraints**
    - (use_c1) the block is known: in this file or in an imported one.
    - (use_c2) blocks do not use themselves, directly or through others.
  }];
  let arguments = (ins SymbolNameAttr:$block, StrArrayAttr:$names,
                       TypedArrayAttrBase<Delta_ExprAttr, "expressions">:$values);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Delta_SymbolOp : Delta_Op<"symbol"> {
  let summary = "Name a value";
  let description = [{
    The expression is evaluated where it stands, when a model is bound. Later
    ops of the same region and of regions in it know the name.

    Example:
    ```mlir
    delta.symbol d = config "head_dim" else H / n
    ```

    **Constraints**
    - (symbol_c1) a name is defined once in a region and its blocks.
  }];
  let arguments = (ins StrAttr:$name, Delta_ExprAttr:$value);
  let hasCustomAssemblyFormat = 1;
}

def Delta_ConfigPartOp : Delta_Op<"config_part"> {
  let summary = "Look values up in a part of the config first";
  let description = [{
    A multimodal config keeps the values of its language model in an object of
    its own. From here on `config "key"` means that object's key where the
    config has the object and the object the key, else the config's. A key with
    dots, `config "vision_config.depth"`, is a path from the top.

    Example:
    ```mlir
    delta.config_part "text_config"
    ```

    **Constraints**
    - (config_part_c1) is the only one of its family.
  }];
  let arguments = (ins StrAttr:$key);
  let assemblyFormat = "$key attr-dict";
}

def Delta_RequireOp : Delta_Op<"require"> {
  let summary = "Refuse models and geometries that do not fit";
  let description = [{
    Example:
    ```mlir
    delta.require groups mod tp == 0, "groups are never replicated"
    ```

    **Constraints**
    - (require_c1) the condition is true for the model that is bound.
  }];
  let arguments = (ins Delta_ExprAttr:$condition, StrAttr:$reason);
  let hasCustomAssemblyFormat = 1;
}

def Delta_DecoderOp : Delta_Op<"decoder"> {
  let summary = "State the number of decoder layers";
  let description = [{
    The layers are dealt out to pipeline stages by the geometry. A hybrid model
    names its pattern, one character a layer, and the characters it maps; the
    pipeline layout may then be the same pattern with `|` between stages.
    `per_stage` is how an engine deals them out by itself: the number of layers
    of stage `stage`.

    Example:
    ```mlir
    delta.decoder config "num_hidden_layers" pattern kinds_of_layers kinds "M*"
    delta.decoder L per_stage (L - L mod pp) / pp
        + select(stage ge pp - L mod pp, 1, 0)
    ```

    **Constraints**
    - (decoder_c1) the number of layers is at least 1.
    - (decoder_c2) the pattern has one character a layer, all of them in
      `kinds`.
    - (decoder_c3) the layers of the stages sum up to all of them.
  }];
  let arguments = (ins Delta_ExprAttr:$layers,
                       OptionalAttr<Delta_ExprAttr>:$pattern,
                       OptionalAttr<StrAttr>:$kinds,
                       OptionalAttr<Delta_ExprAttr>:$per_stage);
  let hasCustomAssemblyFormat = 1;
}

def Delta_LayersOp : Delta_RegionOp<"layers"> {
  let summary = "Hold parameters in some decoder layers";
  let description = [{
    The condition is evaluated with `layer` bound to every layer's number. The
    body is bound once for all layers that fulfil it, and not at all if none
    does. In trainer names `{layer}` is the number within the model chunk, in
    tensor names the number within the model.

    Example:
    ```mlir
    delta.layers where layer ge first_dense {
      delta.use @mlp
    }
    ```

    **Constraints**
    - (layers_c1) is not inside another `delta.layers`, a `delta.on` or a
      `delta.stack`.
    - (layers_c2) the family's `delta.decoder` stands before it.
  }];
  let arguments = (ins Delta_ExprAttr:$condition);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Delta_StackOp : Delta_RegionOp<"stack"> {
  let summary = "Hold parameters in layers beside the decoder's";
  let description = [{
    A multi-token-prediction head, a vision tower: `layers` blocks that stay
    together on the `first` or the `last` pipeline stage (as in `delta.on`). The
    body is bound once for all of them, or for those that fulfil `where`, in
    which `layer` is the number of the block. `{layer}` is that number in both
    names.

    Example:
    ```mlir
    delta.stack config "num_nextn_predict_layers" else 0 on last {
      delta.scope trainer "mtp.layers.{layer}." hf "model.layers.{layer+L}." {
        delta.use @vector with trained = "enorm.weight", tensor = "enorm.weight",
            size = H
      }
    }
    ```

    **Constraints**
    - (stack_c1) is not inside a `delta.layers`, a `delta.on` or another
      `delta.stack`.
    - (stack_c2) the family's `delta.decoder` stands before it.
    - (stack_c3) the number of layers is 0 to 65536.
  }];
  let arguments = (ins Delta_ExprAttr:$layers, StrAttr:$stage,
                       OptionalAttr<Delta_ExprAttr>:$condition);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Delta_OnOp : Delta_RegionOp<"on"> {
  let summary = "Hold parameters on the first or last pipeline stage";
  let description = [{
    `first` is chunk 0 of stage 0, `last` the last chunk of the last stage.

    Example:
    ```mlir
    delta.on last {
      delta.use @head
    }
    ```

    **Constraints**
    - (on_c1) the stage is `first` or `last`.
    - (on_c2) is not inside a `delta.layers` or a `delta.stack`.
  }];
  let arguments = (ins StrAttr:$stage);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Delta_IfOp : Delta_Op<"if", [NoTerminator, NoRegionArguments]> {
  let summary = "Bind ops only where a condition holds";
  let description = [{
    Example:
    ```mlir
    delta.if config "attention_bias" else false {
      delta.use @bias
    } else {
      delta.use @no_bias
    }
    ```
  }];
  let arguments = (ins Delta_ExprAttr:$condition);
  let regions = (region SizedRegion<1>:$thenRegion, AnyRegion:$elseRegion);
  let hasCustomAssemblyFormat = 1;
}

def Delta_ScopeOp : Delta_RegionOp<"scope"> {
  let summary = "Complete the names of a region";
  let description = [{
    Prefixes of the trainer's parameters and of the checkpoint's tensors. Of two
    prefixes of the trainer, all names of the region are alternatives.
    A hole is `{layer}`, `{expert}` or a symbol's name, also `{layer+N}` where
    `N` is an integer or a symbol. `{layer}` and `{expert}` stay open. In bound
    text the layers of a stack are numbered on after the decoder's, and a
    tensor's name says `{layer-N}`. In a layout the first prefix is the
    engine's and says so; the engine's layers have their global numbers.

    Example:
    ```mlir
    delta.scope trainer "layers.{layer}.attention." hf "h.{layer}.attn." {
      delta.use @attention
    }
    delta.scope engine "model.layers.{layer}.attn." hf "h.{layer}.attn." {
      delta.use @attention
    }
    ```
  }];
  let arguments = (ins StrAttr:$trainer, OptionalAttr<StrAttr>:$other,
                       StrAttr:$hf, UnitAttr:$engine);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
}

def Delta_ExpertsOp : Delta_RegionOp<"experts"> {
  let summary = "Hold one of each parameter for every expert";
  let description = [{
    Expert `e` of `E` lives on the expert-parallel rank `e / (E/EP)`, there
    under the number `e mod (E/EP)`. In trainer names `{expert}` is the local
    number, in tensor names the global one. Where an engine's experts are is the
    business of its placement (`rollout.expert_placement`), which may hold an
    expert several times; EP need not divide them.

    Example:
    ```mlir
    delta.experts E {
      %w = delta.param "experts.{expert}.a" [I, H] : storage
      delta.tensor "experts.{expert}.b" = %w as [I, H]
    }
    ```

    **Constraints**
    - (experts_c1) is inside a `delta.layers` or a `delta.stack` and not inside
      another `delta.experts`.
    - (experts_c2) the number is 1 to 65536 and the same wherever it is given.
    - (experts_c3) the number is divisible by ep, but for an engine's.
  }];
  let arguments = (ins Delta_ExprAttr:$number);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Parameters and tensors
//===----------------------------------------------------------------------===//

def Delta_ParamOp : Delta_Op<"param"> {
  let summary = "Declare a parameter of the trainer";
  let description = [{
    The shape is that of all shards together; `delta.unshard` says how it is
    cut. What no `unshard` reads is whole on every rank. Further names are
    alternatives: a plan knows all, a trainer has one. A name with a scheme
    (`grouped "..." | sequential "..."`) counts only where the trainer uses it.
    Types: `storage` (the trainer's), `f32`, `bf16`, `f16`, `i64`.

    In bound text `on` tells where it lives: `layers(0 to 3)`, `first` or
    `last`, and `experts` that there is one for each expert. Folding adds the
    axis that shards it, the number of distinct shards and the shape of one.

    A layout has more to say, in this order:

    - `stacked`: the experts of a rank are slots of one parameter, whose leading
      dimension the shape leaves out. `extra N` more slots follow them on every
      rank; outside of `delta.experts`, `slot J` is number J of these, in the
      stacked parameter of the same name.
    - `holds neg_exp` (or `add_one`): the engine keeps -exp(x), in fp32, rounded
      to the parameter's type, where the tensor has x.
    - `viewed [0, 2, 1]`: the engine shows dimension `viewed[i]` of the shape,
      which is that of memory, as its dimension `i`.

    Example:
    ```mlir
    %w = delta.param "kernel_weight" | "kernel.weight" [D, 1, 4] : storage
    %a = delta.param "A" [heads] : f32 holds neg_exp
    %k = delta.param "w_kc" [n, latent, nope] : storage viewed [0, 2, 1]
    %e = delta.param "w13_weight" [2 * I, H] : storage stacked extra shared
    %s = delta.param "w13_weight" [2 * I, H] : storage stacked slot 0
    ```

    **Constraints**
    - (param_c1) is inside a `delta.layers`, a `delta.stack` or a `delta.on`, or
      says `on`.
    - (param_c2) the sizes are integers, at least 1, at most 6 of them.
    - (param_c3) a name scheme is `grouped` or `sequential`.
    - (param_c4) its names hold `{layer}` and `{expert}` where it has them, and
      no two parameters of a rank can have one name.
    - (param_c5) `stacked`, `holds` and `viewed` are for layouts; a stacked
      parameter of experts has no `{expert}`, a `slot` has a stacked one of its
      name before it with that many `extra`.
    - (param_c6) `viewed` names every dimension once.
  }];
  let arguments = (ins StrArrayAttr:$names, StrArrayAttr:$schemes,
                       TypedArrayAttrBase<Delta_ExprAttr, "sizes">:$shape,
                       StrAttr:$dtype, OptionalAttr<StrAttr>:$stage,
                       OptionalAttr<DenseI64ArrayAttr>:$layers,
                       UnitAttr:$experts, OptionalAttr<StrAttr>:$axis,
                       OptionalAttr<I64Attr>:$ways,
                       OptionalAttr<DenseI64ArrayAttr>:$local,
                       UnitAttr:$stacked, OptionalAttr<Delta_ExprAttr>:$extra,
                       OptionalAttr<Delta_ExprAttr>:$slot,
                       OptionalAttr<StrAttr>:$holds,
                       OptionalAttr<DenseI64ArrayAttr>:$viewed);
  let results = (outs Delta_Array:$result);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Delta_CopyOp : Delta_Op<"copy"> {
  let summary = "Declare a parameter that repeats another one's values";
  let description = [{
    The trainer keeps the two equal (a tied output layer on the last stage).
    The first one is the owner: a copy is never read, but it is written where
    the trainer is a destination.

    Example:
    ```mlir
    delta.copy "output.weight" of %w
    ```

    **Constraints**
    - (copy_c1) the operand is the result of a `delta.param`.
    - (copy_c2) is inside a `delta.on`, or says `on`.
  }];
  let arguments = (ins StrAttr:$name, Delta_Array:$original,
                       OptionalAttr<StrAttr>:$stage);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Delta_TensorOp : Delta_Op<"tensor"> {
  let summary = "Produce a tensor of the checkpoint";
  let description = [{
    The value, row-major, is the tensor, viewed as the given shape. `stacked`:
    the values of the experts are the rows of the leading dimension.
    `if_listed`: only where the key list of a checkpoint has the name. In bound
    text a second tensor of one value is an `alias` of the first. `also`: a
    layout's parameters make up the tensor once more (a derived copy that the
    engine keeps beside them).

    The tensor's type is the value's. Types after a colon are alternatives: the
    key list's counts where it is one of them, else the first; the value is cast
    where it has another type.

    Example:
    ```mlir
    delta.tensor "experts.down" = %down as [E, I, H] stacked
    delta.tensor "decay" = %decay as [E] : storage | f32
    ```

    **Constraints**
    - (tensor_c1) the shape has as many elements as the value, once for each
      expert if stacked.
    - (tensor_c2) `stacked` is used for values of expert parameters only, whose
      number is the leading size; its name then has no `{expert}`.
    - (tensor_c3) its name holds `{layer}` and `{expert}` where the value has
      them, and no two tensors can have one name, but for `also`, which is for
      layouts.
  }];
  let hasVerifier = 1;
  let arguments = (ins StrAttr:$name, Delta_Array:$value,
                       TypedArrayAttrBase<Delta_ExprAttr, "sizes">:$shape,
                       UnitAttr:$stacked, UnitAttr:$if_listed,
                       UnitAttr:$alias, UnitAttr:$also,
                       OptionalAttr<StrArrayAttr>:$dtypes);
  let hasCustomAssemblyFormat = 1;
}

def Delta_PassthroughOp : Delta_Op<"passthrough"> {
  let summary = "Leave a tensor of the checkpoint as its base has it";
  let description = [{
    The trainer does not hold the tensor: a complete checkpoint copies it from
    the one that the training started from, and nothing is sent for it.
    `if_listed`: only where the key list has the name, in all layers alike.
    `all`: every tensor of the key list whose name begins so, whatever its
    shape; without a key list, none. In a layout: tensors that the engine does
    not hold, `all` of the source's whose names begin so.

    Example:
    ```mlir
    delta.passthrough "rotary_emb.inv_freq" [d / 2] : f32 if_listed
    delta.passthrough all "mtp."
    ```

    **Constraints**
    - (passthrough_c1) its name holds `{layer}` where it is in layers, and no
      tensor and no other passthrough can have that name.
    - (passthrough_c2) the sizes are integers, at least 1, at most 6 of them.
  }];
  let arguments = (ins StrAttr:$name,
                       TypedArrayAttrBase<Delta_ExprAttr, "sizes">:$shape,
                       StrAttr:$dtype, UnitAttr:$all, UnitAttr:$if_listed,
                       OptionalAttr<DenseI64ArrayAttr>:$layers);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Delta_RefreshOp : Delta_Op<"refresh"> {
  let summary = "Name what an engine must recompute when a parameter changed";
  let description = [{
    An engine may keep values that follow from a parameter where no pointer
    reaches them. The method belongs to the module of the parameter: its name
    up to the last dot. Nothing is called for parameters that did not change.

    Example:
    ```mlir
    delta.refresh "refresh_copy" of %w
    ```

    **Constraints**
    - (refresh_c1) the operand is the result of a `delta.param` of a layout.
  }];
  let arguments = (ins StrAttr:$method, Delta_Array:$param);
  let assemblyFormat = "$method `of` $param attr-dict";
  let hasVerifier = 1;
}

def Delta_DropOp : Delta_Op<"drop"> {
  let summary = "Leave a value out of the checkpoint, for a reason";
  let description = [{
    A trained parameter without an image is refused unless its family drops it.
    The compiler prints the reason. Another trainer would get nothing for it. In
    a layout: elements of an engine's parameter that no tensor fills, and that
    stay as they are.

    Example:
    ```mlir
    delta.drop %scale because "recomputed by the engine"
    ```

    **Constraints**
    - (drop_c1) is not bound for a trainer that is the destination.
  }];
  let arguments = (ins Delta_Array:$value, StrAttr:$reason);
  let assemblyFormat = "$value `because` $reason attr-dict";
}

//===----------------------------------------------------------------------===//
// Index functions, from the trainer to the checkpoint
//===----------------------------------------------------------------------===//

def Delta_UnshardOp : Delta_Op<"unshard", [Pure]> {
  let summary = "Put the shards of a parameter together";
  let description = [{
    Way `w` of `W` holds rows `[w*n/W, (w+1)*n/W)` of dimension `dim`, whose
    size is `n`. With sections `s0, s1, ...` it holds its part of each, one
    after the other:

        result[base_i + w*s_i/W + r] = shard[sum of s_j/W for j < i, plus r]

    `axis` is `tp` or `etp`; in a layout also `stage`, all ranks of a pipeline
    stage. With `ways u` there are only `u` distinct shards, each held by
    `axis size / u` neighboring ranks. A section of a layout's parameter may
    have fewer ways than the others: so few distinct parts, each in `ways / u`
    neighboring shards.

    Example:
    ```mlir
    %all = delta.unshard %w dim 0 over tp sections [F, F]
    %qkv = delta.unshard %v dim 0 over tp
        sections [n * d, g * d ways min(g, tp), g * d ways min(g, tp)]
    ```

    **Constraints**
    - (unshard_c1) the operand is the result of a `delta.param` that no other
      `delta.unshard` reads.
    - (unshard_c2) `dim` is a dimension of the operand.
    - (unshard_c3) the size of `dim`, or every section, is divisible by the
      number of ways.
    - (unshard_c4) the sections sum up to the size of `dim`.
    - (unshard_c5) the axis is `tp` or `etp`; `etp` for expert parameters only,
      `tp` for the others; any of the three in a layout.
    - (unshard_c6) the ways divide the size of the axis.
    - (unshard_c7) the ways of a section divide the others and are for layouts.
  }];
  let arguments = (ins Delta_Array:$shards, I64Attr:$dim, StrAttr:$axis,
                       OptionalAttr<Delta_ExprAttr>:$ways,
                       TypedArrayAttrBase<Delta_ExprAttr, "sizes">:$sections,
                       OptionalAttr<TypedArrayAttrBase<Delta_ExprAttr, "ways">>:$section_ways);
  let results = (outs Delta_Array:$result);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Delta_ReshapeOp : Delta_Op<"reshape", [Pure]> {
  let summary = "View a value in another shape";
  let description = [{
    Row-major order is kept: no element moves.

    Example:
    ```mlir
    %groups = delta.reshape %all [g, n / g + 2, d, H]
    ```

    **Constraints**
    - (reshape_c1) the shape has as many elements as the operand.
  }];
  let arguments = (ins Delta_Array:$value,
                       TypedArrayAttrBase<Delta_ExprAttr, "sizes">:$shape);
  let results = (outs Delta_Array:$result);
  let hasCustomAssemblyFormat = 1;
}

def Delta_TransposeOp : Delta_Op<"transpose", [Pure]> {
  let summary = "Permute the dimensions of a value";
  let description = [{
    Dimension `i` of the result is dimension `permutation[i]` of the operand.

    Example:
    ```mlir
    %columns = delta.transpose %rows [1, 0]
    ```

    **Constraints**
    - (transpose_c1) the permutation names every dimension once.
  }];
  let arguments = (ins Delta_Array:$value, DenseI64ArrayAttr:$permutation);
  let results = (outs Delta_Array:$result);
  let assemblyFormat = "$value $permutation attr-dict";
}

def Delta_SplitOp : Delta_Op<"split", [Pure]> {
  let summary = "Cut a dimension into named parts";
  let description = [{
    Example:
    ```mlir
    %q, %k, %v = delta.split %groups dim 1 [n / g, 1, 1]
    ```

    **Constraints**
    - (split_c1) there are as many sizes as results.
    - (split_c2) `dim` is a dimension of the operand.
    - (split_c3) the sizes sum up to the size of `dim`.
  }];
  let arguments = (ins Delta_Array:$value, I64Attr:$dim,
                       TypedArrayAttrBase<Delta_ExprAttr, "sizes">:$sizes);
  let results = (outs Variadic<Delta_Array>:$parts);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Delta_ConcatOp : Delta_Op<"concat", [Pure]> {
  let summary = "Put values one after the other along a dimension";
  let description = [{
    Example:
    ```mlir
    %qkv = delta.concat %q, %k, %v dim 0
    ```

    **Constraints**
    - (concat_c1) `dim` is a dimension of the operands, which agree in all
      others and in their type.
  }];
  let arguments = (ins Variadic<Delta_Array>:$values, I64Attr:$dim);
  let results = (outs Delta_Array:$result);
  let assemblyFormat = "$values `dim` $dim attr-dict";
}

def Delta_InterleaveOp : Delta_Op<"interleave", [Pure]> {
  let summary = "Alternate the rows of values along a dimension";
  let description = [{
    Index `k` of operand `j` of `m` becomes index `k*m + j`.

    Example:
    ```mlir
    %gate_up = delta.interleave %gate, %up dim 0
    ```

    **Constraints**
    - (interleave_c1) `dim` is a dimension of the operands, which have one
      shape and type.
  }];
  let arguments = (ins Variadic<Delta_Array>:$values, I64Attr:$dim);
  let results = (outs Delta_Array:$result);
  let assemblyFormat = "$values `dim` $dim attr-dict";
}

def Delta_TakeOp : Delta_Op<"take", [Pure]> {
  let summary = "Keep the first rows of a dimension";
  let description = [{
    The other rows have no image; the reason says why that is right.

    Example:
    ```mlir
    %table = delta.take %all dim 0 first V because "vocabulary padding"
    ```

    **Constraints**
    - (take_c1) `dim` is a dimension of the operand and has at least that many
      rows.
  }];
  let arguments = (ins Delta_Array:$value, I64Attr:$dim,
                       Delta_ExprAttr:$size, StrAttr:$reason);
  let results = (outs Delta_Array:$result);
  let hasCustomAssemblyFormat = 1;
}

def Delta_AddScalarOp : Delta_Op<"add_scalar", [Pure]> {
  let summary = "Add a constant to every element";
  let description = [{
    In the storage type, with its rounding. Only 1 is known: norms that the
    trainer centers at zero and the checkpoint does not.

    Example:
    ```mlir
    %scale = delta.add_scalar %w 1
    ```

    **Constraints**
    - (add_scalar_c1) the scalar is 1 and the value goes through one
      `add_scalar` at most, before any `cast`.
  }];
  let arguments = (ins Delta_Array:$value, I64Attr:$scalar);
  let results = (outs Delta_Array:$result);
  let assemblyFormat = "$value $scalar attr-dict";
}

def Delta_CastOp : Delta_Op<"cast", [Pure]> {
  let summary = "Convert every element to another type";
  let description = [{
    Rounded to nearest even, after an `add_scalar` before it. A checkpoint may
    hold in `f32` what the trainer holds in its storage type, or the other way.

    Example:
    ```mlir
    %scale = delta.cast %w : f32
    ```

    **Constraints**
    - (cast_c1) the type is storage, f32, bf16 or f16; one of the two types is
      f32, and the value goes through one `cast` at most.
  }];
  let arguments = (ins Delta_Array:$value, StrAttr:$dtype);
  let results = (outs Delta_Array:$result);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Bound models
//===----------------------------------------------------------------------===//

def Delta_SideOp : Delta_RegionOp<"side", [Symbol, IsolatedFromAbove]> {
  let summary = "Hold the bound ops of one side";
  let description = [{
    `@source` is the trainer, `@destination` another geometry of it or an
    engine. `mesh` gives the sizes of the axes, `stages` the decoder layers of
    each chunk of each pipeline stage, `stacks` the layers beside them, which
    are numbered on after the decoder's, `experts` their number. An engine's
    experts lie in slots: rank `p` of ep has those from `slot_begins[p]` to
    `slot_begins[p + 1]`, and `slots` is the expert in each. `placement` (layer
    -> stage, chunk, local number) and `expert_ranks` (expert -> ep rank, local
    number) are filled in by the passes that fold the instances.

    Example:
    ```mlir
    delta.side @source mesh {tp = 2, pp = 2} layers 4 experts 0
        stages [[2], [2]] {
    }
    ```

    **Constraints**
    - (side_c1) every axis size is at least 1.
    - (side_c2) the stages sum up to the number of layers, and a stack is a
      number of layers and `first` or `last`.
    - (side_c3) an engine has a slot for every expert, and begins for all of its
      ep ranks.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DictionaryAttr:$mesh,
                       I64Attr:$layers, I64Attr:$experts, ArrayAttr:$stages,
                       OptionalAttr<ArrayAttr>:$stacks,
                       OptionalAttr<StrAttr>:$engine,
                       OptionalAttr<DenseI64ArrayAttr>:$slot_begins,
                       OptionalAttr<DenseI64ArrayAttr>:$slots,
                       OptionalAttr<DenseI64ArrayAttr>:$placement,
                       OptionalAttr<DenseI64ArrayAttr>:$expert_ranks);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `mesh` $mesh `layers` $layers `experts` $experts
    `stages` $stages (`stacks` $stacks^)?
    (`engine` $engine^ (`slots` $slots^ `from` $slot_begins)?)?
    (`placement` $placement^)? (`expert_ranks` $expert_ranks^)? $body attr-dict
  }];
  let extraClassDeclaration = [{
    /// Number of layers and stage of each stack.
    llvm::SmallVector<std::pair<int64_t, llvm::StringRef>> stacksOfLayers();
    /// The layers of the decoder and of all stacks.
    int64_t numAllLayers();
  }];
  let hasVerifier = 1;
}

def Delta_ApplyOp : Delta_Op<"apply", [Pure]> {
  let summary = "Move elements by index maps";
  let description = [{
    What folding leaves of the index functions. Each operand has a map into the
    result; together they write it. The maps of a sharded parameter have one
    list of pieces for every way. `op` is a value op on the way, `to` the type
    that the values are cast to after it.

    Example:
    ```mlir
    %q = delta.apply %w by [#delta.map<ways 1, 8 -> 6, {0 -> 0, 6 x (1, 1)}>]
    ```

    **Constraints**
    - (apply_c1) there is one map for each operand, all into arrays of one
      size.
  }];
  let arguments = (ins Variadic<Delta_Array>:$values,
                       TypedArrayAttrBase<Delta_MapAttr, "maps">:$maps,
                       OptionalAttr<StrAttr>:$op, OptionalAttr<StrAttr>:$to);
  let results = (outs Delta_Array:$result);
  let assemblyFormat = [{
    $values `by` $maps (`op` $op^)? (`to` $to^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Delta_RouteOp : Delta_Op<"route"> {
  let summary = "Send a box of a source class to its destinations";
  let description = [{
    `source` and `way` name the shards; `hf` is the place in the checkpoint's
    layout; `images` are places in destination classes. Each place is a map of
    one piece from the shard.  `classes`, `way_begin`, `way_end` belong to the
    one by one. `op` leads to the checkpoint's values; another trainer
    holds those of the source. An engine holds the checkpoint's, in the form of
    its classes.
  }];
  let arguments = (ins I64Attr:$source, I64Attr:$way, I64Attr:$hf_class,
                       Delta_MapAttr:$hf, DenseI64ArrayAttr:$classes,
                       DenseI64ArrayAttr:$way_begin,
                       DenseI64ArrayAttr:$way_end,
                       TypedArrayAttrBase<Delta_MapAttr, "maps">:$images,
                       OptionalAttr<StrAttr>:$op);
  let assemblyFormat = [{
    `source` $source `way` $way `hf` $hf_class $hf `to` $classes `ways`
    $way_begin $way_end $images (`op` $op^)? attr-dict
  }];
}

#endif // DELTA_OPS
