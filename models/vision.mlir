// The vision tower of the Qwen VL models, on the first stage: patches, blocks
// with layer norms and biases, a merger of neighboring patches, and mergers of
// the outputs of some blocks (deepstack).

delta.import "blocks.mlir"

delta.block @qwen_vision {
  delta.symbol Hv = config "vision_config.hidden_size"
  delta.symbol nh = config "vision_config.num_heads"
  delta.symbol Fv = config "vision_config.intermediate_size"
  delta.symbol patch = config "vision_config.patch_size"
  delta.symbol frames = config "vision_config.temporal_patch_size"
  delta.symbol merge = config "vision_config.spatial_merge_size"
  delta.symbol colors = config "vision_config.in_channels" else 3
  delta.symbol M = Hv * merge * merge
  delta.require (config "vision_config.out_hidden_size" else H) == H,
                "the tower's output goes into the hidden states"
  delta.require nh > 0, "the vision tower has heads"
  delta.require nh mod tp == 0, "heads of the vision tower are split over tp"

  delta.scope trainer "vision_model." hf "model.visual." {
    delta.on first {
      %patches = delta.param "patch_embed.proj.weight"
          [Hv, colors, frames, patch, patch] : storage
      delta.tensor "patch_embed.proj.weight" = %patches
          as [Hv, colors, frames, patch, patch]
      delta.use @vector with trained = "patch_embed.proj.bias",
          tensor = "patch_embed.proj.bias", size = Hv
      delta.use @matrix with trained = "pos_embed.weight",
          tensor = "pos_embed.weight", in = Hv,
          out = config "vision_config.num_position_embeddings"
      delta.scope trainer "merger." hf "merger." {
        delta.use @vision_merger with normed = Hv
      }
    }
    delta.stack len(config "vision_config.deepstack_visual_indexes" else "")
        on first {
      delta.scope trainer "decoder.deepstack_merger_list.{layer}."
          hf "deepstack_merger_list.{layer}." {
        delta.use @vision_merger with normed = M
      }
    }
    delta.stack config "vision_config.depth" on first {
      delta.scope trainer "decoder.layers.{layer}." hf "blocks.{layer}." {
        delta.use @vision_block
      }
    }
  }
}

// Needs: Hv, nh, Fv
delta.block @vision_block {
  delta.use @fused_layer_norm with fused = "self_attention.linear_qkv",
      plain = "input_layernorm", tensor = "norm1"
  // A head's query, key and value one after the other; in the checkpoint all
  // queries, then all keys, then all values.
  %qkv = delta.param "self_attention.linear_qkv.weight" [3 * Hv, Hv] : storage
  %all = delta.unshard %qkv dim 0 over tp
  %heads = delta.reshape %all [nh, 3, Hv / nh, Hv]
  %parts = delta.transpose %heads [1, 0, 2, 3]
  delta.tensor "attn.qkv.weight" = %parts as [3 * Hv, Hv]
  %bias = delta.param "self_attention.linear_qkv.bias" [3 * Hv] : storage
  %all_bias = delta.unshard %bias dim 0 over tp
  %bias_heads = delta.reshape %all_bias [nh, 3, Hv / nh]
  %bias_parts = delta.transpose %bias_heads [1, 0, 2]
  delta.tensor "attn.qkv.bias" = %bias_parts as [3 * Hv]
  delta.use @biased_row_parallel with trained = "self_attention.linear_proj",
      tensor = "attn.proj", out = Hv, in = Hv

  delta.use @fused_layer_norm with fused = "mlp.linear_fc1",
      plain = "pre_mlp_layernorm", tensor = "norm2"
  delta.use @biased_column_parallel with trained = "mlp.linear_fc1",
      tensor = "mlp.linear_fc1", out = Fv, in = Hv
  delta.use @biased_row_parallel with trained = "mlp.linear_fc2",
      tensor = "mlp.linear_fc2", out = Hv, in = Fv
}

// Needs: M, H, normed (size of the norm: before or after merging)
delta.block @vision_merger {
  delta.use @vector with trained = "patch_norm.weight", tensor = "norm.weight",
      size = normed
  delta.use @vector with trained = "patch_norm.bias", tensor = "norm.bias",
      size = normed
  delta.use @biased_column_parallel with trained = "linear_fc1",
      tensor = "linear_fc1", out = M, in = M
  delta.use @biased_row_parallel with trained = "linear_fc2",
      tensor = "linear_fc2", out = H, in = M
}

// A norm before a projection, fused into it or not. Needs: fused, plain, tensor
// (names without the ending), Hv
delta.block @fused_layer_norm {
  %w = delta.param "{fused}.layer_norm_weight" | "{plain}.weight" [Hv] : storage
  delta.tensor "{tensor}.weight" = %w as [Hv]
  %b = delta.param "{fused}.layer_norm_bias" | "{plain}.bias" [Hv] : storage
  delta.tensor "{tensor}.bias" = %b as [Hv]
}

// Need: trained, tensor (names without the ending), out, in
delta.block @biased_column_parallel {
  %w = delta.param "{trained}.weight" [out, in] : storage
  %all = delta.unshard %w dim 0 over tp
  delta.tensor "{tensor}.weight" = %all as [out, in]
  %b = delta.param "{trained}.bias" [out] : storage
  %bias = delta.unshard %b dim 0 over tp
  delta.tensor "{tensor}.bias" = %bias as [out]
}

delta.block @biased_row_parallel {
  %w = delta.param "{trained}.weight" [out, in] : storage
  %all = delta.unshard %w dim 1 over tp
  delta.tensor "{tensor}.weight" = %all as [out, in]
  %b = delta.param "{trained}.bias" [out] : storage
  delta.tensor "{tensor}.bias" = %b as [out]
}
