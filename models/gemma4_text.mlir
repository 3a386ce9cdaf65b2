// Gemma 4, text. Layers without a window have other heads than layers with one.
// Three kinds of models:
// - small ones: the last layers borrow keys and values of a layer before, and
//   tokens have an embedding for every layer;
// - a large one whose layers without a window use their keys as values;
// - one with experts beside the MLP of every layer.
//
// The trainer has rows for keys and values in every layer. Where the checkpoint
// has none they are not used (borrowed) or repeat the keys, and have no image.
// Dense models are built on one stage only.

delta.import "gemma.mlir"

delta.family @gemma4_text model_types ["gemma4_text"]
    architectures ["Gemma4ForCausalLM"] {
  delta.use @without_mtp
  delta.use @gemma4_sizes
  delta.decoder L
  delta.use @gemma4_model with model = "model."
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

// Trailing 1: of layers without a window.
delta.block @gemma4_sizes {
  delta.symbol moe = config "enable_moe_block" else false
  delta.symbol H = config "hidden_size"
  delta.symbol V = config "vocab_size"
  delta.symbol L = config "num_hidden_layers"
  delta.symbol F = config "intermediate_size"
  delta.symbol rows = select(vocab_multiple == 0, V,
                             round_up(V, max(vocab_multiple, 1) *
                                         select(moe, tp, 1)))
  delta.symbol n = config "num_attention_heads"
  delta.symbol same_kv = config "attention_k_eq_v" else false
  delta.symbol g0 = config "num_key_value_heads"
  delta.symbol g1 = config "num_global_key_value_heads" else g0
  delta.symbol d0 = config "head_dim" else 256
  delta.symbol d1 = config "global_head_dim" else 512
  delta.symbol kinds = config "layer_types" else ""
  delta.symbol borrowing = config "num_kv_shared_layers" else 0
  delta.symbol own = L - borrowing
  delta.symbol wide = config "use_double_wide_mlp" else false
  delta.symbol per_layer = config "hidden_size_per_layer_input" else 256
  delta.use @heads_over_tp with g = g0
  delta.use @heads_over_tp with g = g1
  delta.require same_kv or g0 == g1,
                "another number of global key/value heads needs attention_k_eq_v"
  delta.require len(kinds) == L, "layer_types lists every layer"
  delta.require borrowing ge 0 and borrowing < L,
                "some layers have keys and values of their own"
  delta.require not (config "attention_bias" else false),
                "biases of the attention are not mapped"
  delta.require moe or pp == 1, "dense models are built on one stage"
  delta.require not moe or borrowing == 0,
                "layers with experts have keys and values of their own"
}

//===----------------------------------------------------------------------===//
// The model. Needs: @gemma4_sizes, model (the checkpoint's prefix)
//===----------------------------------------------------------------------===//

delta.block @gemma4_model {
  delta.use @gemma_ends
  delta.if not moe and per_layer > 0 {
    delta.use @per_layer_embedding
  }
  delta.layers where kinds[layer] == "sliding_attention" and layer < own {
    delta.use @gemma4_attention with g = g0, d = d0, borrowed = false,
        repeated = false
  }
  delta.layers where kinds[layer] == "full_attention" and layer < own {
    delta.use @gemma4_attention with g = g1, d = d1, borrowed = false,
        repeated = same_kv
  }
  delta.layers where kinds[layer] == "sliding_attention" and layer ge own {
    delta.use @gemma4_attention with g = g0, d = d0, borrowed = true,
        repeated = false
  }
  delta.layers where kinds[layer] == "full_attention" and layer ge own {
    delta.use @gemma4_attention with g = g1, d = d1, borrowed = true,
        repeated = false
  }
  delta.layers where not (kinds[layer] == "sliding_attention" or
                          kinds[layer] == "full_attention") {
    delta.require false, "layers have sliding_attention or full_attention"
  }
  delta.layers where layer < own {
    delta.scope trainer "decoder.layers.{layer}." hf "{model}layers.{layer}." {
      delta.use @gemma4_rest
    }
  }
  delta.layers where layer ge own {
    delta.scope trainer "decoder.layers.{layer}." hf "{model}layers.{layer}." {
      delta.use @gemma4_rest with F = select(wide, 2 * F, F)
    }
  }
}

// One row a token, with a part for every layer.
delta.block @per_layer_embedding {
  delta.symbol tokens = config "vocab_size_per_layer_input" else V
  delta.on first {
    delta.use @column_parallel with trained = "per_layer_embedding.weight",
        tensor = "{model}embed_tokens_per_layer.weight", out = tokens,
        in = L * per_layer
    delta.use @column_parallel with trained = "per_layer_model_proj.weight",
        tensor = "{model}per_layer_model_projection.weight",
        out = L * per_layer, in = H
    delta.use @vector with trained = "per_layer_proj_norm.weight",
        tensor = "{model}per_layer_projection_norm.weight", size = per_layer
  }
}

// Needs: g, d, borrowed, repeated (whether values are the keys)
delta.block @gemma4_attention {
  delta.scope trainer "decoder.layers.{layer}.self_attention."
      hf "{model}layers.{layer}.self_attn." {
    %w = delta.param "linear_qkv.weight" [(n + 2 * g) * d, H] : storage
    %all = delta.unshard %w dim 0 over tp
    %groups = delta.reshape %all [g, n / g + 2, d, H]
    %q, %k, %v = delta.split %groups dim 1 [n / g, 1, 1]
    delta.tensor "q_proj.weight" = %q as [n * d, H]
    delta.use @vector with trained = "q_layernorm.weight",
        tensor = "q_norm.weight", size = d
    %k_norm = delta.param "k_layernorm.weight" [d] : storage
    delta.if borrowed {
      delta.drop %k because "the layer borrows keys"
      delta.drop %v because "the layer borrows values"
      delta.drop %k_norm because "the layer borrows keys"
    } else {
      delta.tensor "k_proj.weight" = %k as [g * d, H]
      delta.tensor "k_norm.weight" = %k_norm as [d]
      delta.if repeated {
        delta.drop %v because "the values are the keys"
      } else {
        delta.tensor "v_proj.weight" = %v as [g * d, H]
      }
    }
    delta.use @row_parallel with trained = "linear_proj.weight",
        tensor = "o_proj.weight", out = H, in = n * d
  }
}

// A layer but for its attention. Needs: F
delta.block @gemma4_rest {
  delta.use @vector with trained = "layer_scalar", tensor = "layer_scalar",
      size = 1
  delta.if moe {
    delta.use @gemma4_moe
  } else {
    delta.use @gemma4_mlp
  }
}

delta.block @gemma4_mlp {
  delta.use @vector with trained = "input_layernorm.weight",
      tensor = "input_layernorm.weight", size = H
  delta.use @vector with trained = "post_self_attn_layernorm.weight",
      tensor = "post_attention_layernorm.weight", size = H
  delta.use @vector with trained = "pre_mlp_layernorm.weight",
      tensor = "pre_feedforward_layernorm.weight", size = H
  delta.use @vector with trained = "post_mlp_layernorm.weight",
      tensor = "post_feedforward_layernorm.weight", size = H
  delta.scope trainer "mlp." hf "mlp." {
    delta.use @gated_mlp
  }
  delta.if per_layer > 0 {
    delta.use @matrix with trained = "per_layer_input_gate.weight",
        tensor = "per_layer_input_gate.weight", out = per_layer, in = H
    delta.use @matrix with trained = "per_layer_projection.weight",
        tensor = "per_layer_projection.weight", out = H, in = per_layer
    delta.use @vector with trained = "post_per_layer_input_norm.weight",
        tensor = "post_per_layer_input_norm.weight", size = H
  }
}

// The MLP is the trainer's shared expert; the routed ones are stacked.
delta.block @gemma4_moe {
  delta.symbol E = config "num_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.require E > 0, "a router has experts to choose from"
  delta.use @fused_norm with
      fused = "self_attention.linear_qkv.layer_norm_weight",
      alone = "input_layernorm.weight", tensor = "input_layernorm.weight"
  delta.use @vector with
      trained = "self_attention.linear_proj.post_layernorm.weight",
      tensor = "post_attention_layernorm.weight", size = H
  delta.use @vector with trained = "pre_shared_expert_layernorm.weight",
      tensor = "pre_feedforward_layernorm.weight", size = H
  delta.use @vector with trained = "mlp.post_shared_expert_layernorm.weight",
      tensor = "post_feedforward_layernorm_1.weight", size = H
  delta.use @vector with trained = "pre_mlp_layernorm.weight",
      tensor = "pre_feedforward_layernorm_2.weight", size = H
  delta.use @vector with trained = "mlp.post_moe_layernorm.weight",
      tensor = "post_feedforward_layernorm_2.weight", size = H
  delta.use @vector with trained = "post_ffn_layernorm.weight",
      tensor = "post_feedforward_layernorm.weight", size = H
  delta.scope trainer "mlp.router." hf "router." {
    delta.use @matrix with trained = "weight", tensor = "proj.weight", out = E,
        in = H
    delta.use @vector with trained = "scale", tensor = "scale", size = H
    delta.use @vector with trained = "per_expert_scale",
        tensor = "per_expert_scale", size = E
  }
  delta.scope trainer "mlp.shared_experts." hf "mlp." {
    delta.use @gated_mlp
  }
  delta.scope trainer "mlp.experts." hf "experts." {
    delta.experts E {
      %fc1 = delta.param grouped "linear_fc1.weight{expert}"
          | sequential "local_experts.{expert}.linear_fc1.weight"
          [2 * I, H] : storage
      %gate_up = delta.unshard %fc1 dim 0 over etp sections [I, I]
      delta.tensor "gate_up_proj" = %gate_up as [E, 2 * I, H] stacked

      %fc2 = delta.param grouped "linear_fc2.weight{expert}"
          | sequential "local_experts.{expert}.linear_fc2.weight"
          [H, I] : storage
      %down = delta.unshard %fc2 dim 1 over etp
      delta.tensor "down_proj" = %down as [E, H, I] stacked
    }
  }
}
