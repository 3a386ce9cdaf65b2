// Layouts of the DeepSeek line, with latent attention, for both engines: see
// engine.mlir.

delta.import "engine_decoder.mlir"
delta.import "mla.mlir"
delta.import "mtp.mlir"

// The down projections are one parameter, whole on every rank; without a
// compression of queries there is one alone. Needs: @mla_sizes, joint (the name
// of the two together)
delta.block @held_mla {
  delta.require not (config "attention_bias" else false),
                "biases of latent attention are not mapped"
  delta.if q_rank > 0 {
    %down = delta.param "{joint}.weight" [q_rank + kv_rank + rope, H] : storage
    %q, %kv = delta.split %down dim 0 [q_rank, kv_rank + rope]
    delta.tensor "q_a_proj.weight" = %q as [q_rank, H]
    delta.tensor "kv_a_proj_with_mqa.weight" = %kv as [kv_rank + rope, H]
    delta.use @norm_at with at = "q_a_layernorm", size = q_rank
    delta.use @column with held = "q_b_proj.weight",
        tensor = "q_b_proj.weight", out = n * qk, in = q_rank
  } else {
    delta.use @column with held = "q_proj.weight", tensor = "q_proj.weight",
        out = n * qk, in = H
    delta.use @held_matrix with held = "kv_a_proj_with_mqa.weight",
        tensor = "kv_a_proj_with_mqa.weight", out = kv_rank + rope, in = H
  }
  delta.use @norm_at with at = "kv_a_layernorm", size = kv_rank
  delta.use @column with held = "kv_b_proj.weight",
      tensor = "kv_b_proj.weight", out = n * nope_v, in = kv_rank
  delta.use @row with held = "o_proj.weight", tensor = "o_proj.weight",
      out = H, in = n * v
  delta.use @absorbed_projections
}

delta.block @held_latent_attention {
  delta.use @norm_at with at = "input_layernorm", size = H
  delta.scope engine "self_attn." hf "self_attn." {
    delta.use @held_mla
  }
}

// Router, routed and shared experts. Needs: @deepseek_moe_sizes, router_bias
delta.block @held_deepseek_moe {
  delta.use @norm_at with at = "post_attention_layernorm", size = H
  delta.scope engine "mlp." hf "mlp." {
    delta.use @held_matrix with held = "gate.weight", tensor = "gate.weight",
        out = E, in = H
    delta.if router_bias {
      delta.use @held_expert_bias
    }
    delta.use @named_slots with spare = select(fuse_shared_experts, 1, 0)
    delta.use @held_shared_experts
  }
}

// Needs: joint, router_bias, in_config (prediction layers of the config)
delta.block @deepseek_layout {
  delta.use @engine_sizes
  delta.use @mla_sizes
  delta.use @deepseek_moe_sizes with dense_by_default = 0
  delta.use @engine_names
  delta.use @plain_names
  delta.symbol centered = false
  delta.use @pipeline with layers = L
  delta.use @expert_rules with has_shared = true,
      expert_groups = config "n_group" else 1
  delta.use @plain_ends
  delta.layers where select(len(mlps) > 0, mlps[layer] == "dense",
                            layer < first_moe) {
    delta.scope engine "model.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @held_latent_attention
      delta.use @held_mlp
    }
  }
  delta.layers where select(len(mlps) > 0, mlps[layer] == "sparse",
                            layer ge first_moe) {
    delta.scope engine "model.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @held_latent_attention
      delta.use @held_deepseek_moe
    }
  }
}

// Prediction layers belong to a model of their own. Needs: L, mtp
delta.block @without_deepseek_mtp {
  delta.passthrough all "model.layers.{L}."
  delta.stack mtp on last {
    delta.passthrough all "model.layers.{layer+L}."
  }
}
