// Layouts of decoders with the attention of Llama, and with experts in place of
// its MLP, for both engines: see engine.mlir. A layout imports its engine's own
// text as well.

delta.import "engine.mlir"

//===----------------------------------------------------------------------===//
// Parts. Need: inner, outer, text (how names begin: of the engine's language
// model, of its head, of the checkpoint's language model), centered
//===----------------------------------------------------------------------===//

delta.block @plain_names {
  delta.symbol inner = "model."
  delta.symbol outer = ""
  delta.symbol text = "model."
}

delta.block @plain_ends {
  delta.use @ends with held_embed = "{inner}embed_tokens.weight",
      embed = "{text}embed_tokens.weight", held_norm = "{inner}norm.weight",
      last_norm = "{text}norm.weight", held_head = "{outer}lm_head.weight",
      head = "lm_head.weight"
}

// A norm whose name is the same on both sides. Needs: at (its name without the
// ending), size
delta.block @norm_at {
  delta.use @norm with held = "{at}.weight", tensor = "{at}.weight"
}

// The norm before the attention, and the attention. Needs: attn (its scope in
// the engine), q, qkv_biased, head_norms
delta.block @held_attention {
  delta.use @norm_at with at = "input_layernorm", size = H
  delta.scope engine "{attn}" hf "self_attn." {
    delta.use @qkv
    delta.if qkv_biased {
      delta.use @qkv_bias
    }
    delta.if head_norms {
      delta.use @norm_at with at = "q_norm", size = d
      delta.use @norm_at with at = "k_norm", size = d
    }
    delta.use @row with held = "o_proj.weight", tensor = "o_proj.weight",
        out = H, in = n * d
  }
}

// The norm before the MLP, and the MLP. Needs: F
delta.block @held_mlp {
  delta.use @norm_at with at = "post_attention_layernorm", size = H
  delta.scope engine "mlp." hf "mlp." {
    delta.use @dense_mlp
  }
}

// Needs: E, I, routed, spare
delta.block @named_slots {
  delta.scope engine "experts.{routed}" hf "experts." {
    delta.use @gated_slots with gate = "gate_proj", up = "up_proj",
        down = "down_proj", fused = false, transposed = false
  }
}

// Routed experts behind a router, one tensor an expert, and the norm before
// them. Needs: E, I, routed
delta.block @held_experts {
  delta.use @norm_at with at = "post_attention_layernorm", size = H
  delta.scope engine "mlp." hf "mlp." {
    delta.use @held_matrix with held = "gate.weight", tensor = "gate.weight",
        out = E, in = H
    delta.use @named_slots with spare = 0
  }
}

// A shared expert: a slot behind those of the routed ones, or an MLP beside
// them. Needs: I, routed, shared (its rows)
delta.block @held_shared_experts {
  delta.if fuse_shared_experts {
    delta.require shared == I,
                  "one shared expert fills the slot of a routed one"
    delta.scope engine "experts.{routed}" hf "shared_experts." {
      delta.use @shared_slot with gate = "gate_proj", up = "up_proj",
          down = "down_proj"
    }
  } else {
    delta.if shared > 0 {
      delta.use @shared_expert_rules
      delta.scope engine "shared_experts." hf "shared_experts." {
        delta.use @dense_mlp with F = shared
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

// Llama and what is built like it. Needs: biased (of queries, keys and values),
// head_norms
delta.block @dense_layout {
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.use @no_expert_rules
  delta.use @plain_names
  delta.symbol centered = false
  delta.use @pipeline with layers = config "num_hidden_layers"
  delta.use @plain_ends
  delta.layers where true {
    delta.scope engine "model.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @held_attention with attn = "self_attn.", q = n * d,
          qkv_biased = biased
      delta.use @held_mlp with F = config "intermediate_size"
    }
  }
}

delta.block @qwen3_moe_layout {
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.symbol E = config "num_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.use @engine_names
  delta.use @plain_names
  delta.symbol centered = false
  delta.use @pipeline with layers = config "num_hidden_layers"
  delta.use @expert_rules with expert_groups = 1, has_shared = false
  delta.use @plain_ends
  delta.layers where true {
    delta.scope engine "model.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @held_attention with attn = "self_attn.", q = n * d,
          qkv_biased = false, head_norms = true
      delta.use @held_experts
    }
  }
}

delta.block @mixtral_layout {
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.symbol E = config "num_local_experts"
  delta.use @engine_names
  delta.use @plain_names
  delta.symbol centered = false
  delta.use @pipeline with layers = config "num_hidden_layers"
  delta.use @expert_rules with expert_groups = 1, has_shared = false
  delta.use @plain_ends
  delta.layers where true {
    delta.scope engine "model.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @held_attention with attn = "self_attn.", q = n * d,
          qkv_biased = false, head_norms = false
      delta.use @norm_at with at = "post_attention_layernorm", size = H
      delta.scope engine "block_sparse_moe." hf "block_sparse_moe." {
        delta.use @held_matrix with held = "gate.weight",
            tensor = "gate.weight", out = E, in = H
        delta.scope engine "experts.{routed}" hf "experts." {
          delta.use @gated_slots with gate = "w1", up = "w3", down = "w2",
              I = config "intermediate_size", fused = false,
              transposed = false, spare = 0
        }
      }
    }
  }
}

// GLM-4.5 and later: dense layers first. The router is float32. Prediction
// layers belong to a model of their own.
delta.block @glm4_moe_layout {
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.symbol layers = config "num_hidden_layers"
  delta.symbol dense = config "first_k_dense_replace" else 1
  delta.symbol E = config "n_routed_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.symbol shared = I * (config "n_shared_experts" else 1)
  delta.use @engine_names
  delta.use @plain_names
  delta.symbol centered = false
  delta.use @pipeline
  delta.use @expert_rules with has_shared = true,
      expert_groups = config "n_group" else 1
  delta.use @mtp_depth with first_mtp = "model.layers.{layers}.enorm.weight",
      in_config = config "num_nextn_predict_layers" else 0

  delta.use @plain_ends
  delta.layers where true {
    delta.scope engine "model.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @held_attention with attn = "self_attn.", q = n * d,
          qkv_biased = config "attention_bias" else false,
          head_norms = config "use_qk_norm" else false
    }
  }
  delta.layers where layer < dense {
    delta.scope engine "model.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @held_mlp with F = config "intermediate_size"
    }
  }
  delta.layers where layer ge dense {
    delta.scope engine "model.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @norm_at with at = "post_attention_layernorm", size = H
      delta.scope engine "mlp." hf "mlp." {
        %router = delta.param "gate.weight" [E, H] : f32
        delta.tensor "gate.weight" = %router as [E, H]
        delta.use @held_expert_bias
        delta.use @named_slots with spare = select(fuse_shared_experts, 1, 0)
        delta.use @held_shared_experts
      }
    }
  }
  delta.passthrough all "model.layers.{layers}."
  delta.stack mtp on last {
    delta.passthrough all "model.layers.{layer+layers}."
  }
}

// Needs: attn, held_embed, w13_bias, w2_bias, bias_type
delta.block @gpt_oss_layout {
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.symbol E = config "num_local_experts" | "num_experts"
  delta.symbol I = config "intermediate_size"
  delta.require config "attention_bias" else true,
                "the attention of the engine has biases"
  delta.use @engine_names
  delta.symbol centered = false
  delta.use @pipeline with layers = config "num_hidden_layers"
  delta.use @expert_rules with expert_groups = 1, has_shared = false
  delta.use @ends with embed = "model.embed_tokens.weight",
      held_norm = "model.norm.weight", last_norm = "model.norm.weight",
      held_head = "lm_head.weight", head = "lm_head.weight"
  delta.layers where true {
    delta.scope engine "model.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @held_attention with q = n * d, qkv_biased = true,
          head_norms = false
      delta.scope engine "{attn}" hf "self_attn." {
        delta.use @held_vector with held = "o_proj.bias",
            tensor = "o_proj.bias", size = H
        delta.use @sharded_vector with held = "sinks", tensor = "sinks",
            size = n
      }
      delta.use @norm_at with at = "post_attention_layernorm", size = H
      delta.scope engine "mlp." hf "mlp." {
        delta.use @held_matrix with held = "router.weight",
            tensor = "router.weight", out = E, in = H
        delta.use @held_vector with held = "router.bias",
            tensor = "router.bias", size = E
        delta.scope engine "experts.{routed}" hf "experts." {
          delta.use @interleaved_slots
        }
      }
    }
  }
}

// The text of Gemma 3. Needs: H, n, g, d, F
delta.block @gemma_layers {
  delta.require not (config "attention_bias" else false),
                "biases of the attention are not mapped"
  delta.layers where true {
    delta.scope engine "{inner}layers.{layer}." hf "{text}layers.{layer}." {
      delta.use @held_attention with attn = "self_attn.", q = n * d,
          qkv_biased = false, head_norms = true
      delta.use @norm_at with at = "post_attention_layernorm", size = H
      delta.use @norm_at with at = "pre_feedforward_layernorm", size = H
      delta.scope engine "mlp." hf "mlp." {
        delta.use @dense_mlp
      }
      delta.use @norm_at with at = "post_feedforward_layernorm", size = H
    }
  }
}
