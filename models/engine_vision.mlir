// The vision tower of the Qwen VL models in both engines: see engine.mlir. What
// pipeline stages do with it is not known.

delta.import "engine.mlir"

// Needs: H, tower_qkv (the name of the tower's fused projection)
delta.block @held_vision {
  delta.symbol Hv = config "vision_config.hidden_size"
  delta.symbol nh = config "vision_config.num_heads"
  delta.symbol Fv = config "vision_config.intermediate_size"
  delta.symbol patch = config "vision_config.patch_size"
  delta.symbol frames = config "vision_config.temporal_patch_size"
  delta.symbol merge = config "vision_config.spatial_merge_size"
  delta.symbol colors = config "vision_config.in_channels" else 3
  delta.symbol positions = config "vision_config.num_position_embeddings"
  delta.symbol M = Hv * merge * merge
  delta.use @vision_rules
  delta.require pp == 1, "which stages have the vision tower is not known"
  delta.require nh mod tp == 0,
                "heads of the vision tower are split over the ranks"

  delta.scope engine "visual." hf "model.visual." {
    delta.on first {
      %patches = delta.param "patch_embed.proj.weight"
          [Hv, colors, frames, patch, patch] : storage
      delta.tensor "patch_embed.proj.weight" = %patches
          as [Hv, colors, frames, patch, patch]
      delta.use @held_vector with held = "patch_embed.proj.bias",
          tensor = "patch_embed.proj.bias", size = Hv
      delta.use @vision_positions
      delta.scope engine "merger." hf "merger." {
        delta.use @held_merger with normed = Hv
      }
    }
    delta.stack len(config "vision_config.deepstack_visual_indexes" else "")
        on first {
      delta.scope engine "deepstack_merger_list.{layer}."
          hf "deepstack_merger_list.{layer}." {
        delta.use @held_merger with normed = M
      }
    }
    delta.stack config "vision_config.depth" on first {
      delta.scope engine "blocks.{layer}." hf "blocks.{layer}." {
        delta.use @held_vision_block
      }
    }
  }
}

delta.block @held_vision_block {
  delta.use @held_layer_norm with at = "norm1", size = Hv
  delta.use @held_layer_norm with at = "norm2", size = Hv
  %qkv = delta.param "{tower_qkv}.weight" [3 * Hv, Hv] : storage
  %all = delta.unshard %qkv dim 0 over tp sections [Hv, Hv, Hv]
  delta.tensor "attn.qkv.weight" = %all as [3 * Hv, Hv]
  %bias = delta.param "{tower_qkv}.bias" [3 * Hv] : storage
  %all_bias = delta.unshard %bias dim 0 over tp sections [Hv, Hv, Hv]
  delta.tensor "attn.qkv.bias" = %all_bias as [3 * Hv]
  delta.use @biased_row with at = "attn.proj", out = Hv, in = Hv
  delta.use @biased_column with at = "mlp.linear_fc1", out = Fv, in = Hv
  delta.use @biased_row with at = "mlp.linear_fc2", out = Hv, in = Fv
}

// Needs: M, H, normed (size of the norm: before or after merging)
delta.block @held_merger {
  delta.use @held_layer_norm with at = "norm", size = normed
  delta.use @biased_column with at = "linear_fc1", out = M, in = M
  delta.use @biased_row with at = "linear_fc2", out = H, in = M
}

// Need: at (the name on both sides, without the ending), and sizes
delta.block @held_layer_norm {
  delta.use @held_vector with held = "{at}.weight", tensor = "{at}.weight"
  delta.use @held_vector with held = "{at}.bias", tensor = "{at}.bias"
}

delta.block @biased_column {
  delta.use @column with held = "{at}.weight", tensor = "{at}.weight"
  delta.use @sharded_vector with held = "{at}.bias", tensor = "{at}.bias",
      size = out
}

// The bias is whole on every rank: the first one adds it.
delta.block @biased_row {
  delta.use @row with held = "{at}.weight", tensor = "{at}.weight"
  delta.use @held_vector with held = "{at}.bias", tensor = "{at}.bias",
      size = out
}
