// Layers of the Qwen line since Qwen3-Next. Names of the checkpoint's language
// model begin with `text`, a symbol that the family binds.

delta.import "decoder.mlir"
delta.import "gdn.mlir"
delta.import "mtp.mlir"

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

// Which layers have linear attention: as layer_types says, else all but every
// interval-th.
delta.block @hybrid_sizes {
  delta.symbol L = config "num_hidden_layers"
  delta.symbol kinds = config "layer_types" else ""
  delta.symbol interval = select(len(kinds) > 0, 1,
                                 config "full_attention_interval" else 4)
  delta.require len(kinds) == 0 or len(kinds) == L,
                "layer_types has one entry a layer"
  delta.require interval > 0, "full_attention_interval is at least 1"
  delta.require config "attn_output_gate" else true,
                "full attention without output gates is not mapped"
  delta.require not (config "attention_bias" else false),
                "biases of attention are not mapped"
}

// Routed experts in every layer.
delta.block @sparse_sizes {
  delta.symbol E = config "num_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.require (config "decoder_sparse_step" else 1) == 1,
                "dense layers between sparse ones are not mapped"
  delta.require len(config "mlp_only_layers" else "") == 0,
                "dense layers between sparse ones are not mapped"
}

//===----------------------------------------------------------------------===//
// Parts of the model
//===----------------------------------------------------------------------===//

delta.block @qwen_ends {
  delta.use @embedding_and_head with embed = "{text}embed_tokens.weight",
      head = "lm_head.weight"
  delta.on last {
    delta.use @vector with trained = "decoder.final_layernorm.weight",
        tensor = "{text}norm.weight", size = H
  }
}

// Attention with norms of queries and keys, and a gate for every query head.
// Needs: @attention_sizes
delta.block @gated_attention {
  delta.use @fused_norm with
      fused = "self_attention.linear_qkv.layer_norm_weight",
      alone = "input_layernorm.weight", tensor = "input_layernorm.weight"
  delta.scope trainer "self_attention." hf "self_attn." {
    delta.use @gated_gqa
    delta.use @vector with trained = "q_layernorm.weight",
        tensor = "q_norm.weight", size = d
    delta.use @vector with trained = "k_layernorm.weight",
        tensor = "k_norm.weight", size = d
    delta.use @row_parallel with trained = "linear_proj.weight",
        tensor = "o_proj.weight", out = H, in = n * d
  }
}

// Needs: joined
delta.block @linear_attention {
  delta.use @fused_norm with
      fused = "self_attention.in_proj.layer_norm_weight",
      alone = "input_layernorm.weight", tensor = "input_layernorm.weight"
  delta.scope trainer "self_attention." hf "linear_attn." {
    delta.use @gdn
  }
}

// Router, routed experts, a shared expert with a gate of its own. The key list
// says whether the checkpoint stacks the experts; a library that builds such a
// model from its config does not. Needs: E, I
delta.block @shared_moe {
  delta.symbol shared = config "shared_expert_intermediate_size"
  delta.require shared > 0,
                "shared_expert_intermediate_size is that of the shared expert"
  delta.use @router with moe = "mlp"
  delta.scope trainer "mlp." hf "mlp." {
    delta.scope trainer "experts." hf "experts." {
      delta.if listed "gate_up_proj" else false {
        delta.use @stacked_experts with transposed = false
      } else {
        delta.use @gated_experts
      }
    }
    delta.scope trainer "shared_experts." hf "shared_expert." {
      delta.use @gated_mlp with F = shared
    }
    delta.use @matrix with trained = "shared_experts.gate_weight",
        tensor = "shared_expert_gate.weight", out = 1, in = H
  }
}

//===----------------------------------------------------------------------===//
// The hybrid models. Need: @hybrid_sizes, text, mtp, mtp_copies, joined, sparse
// (experts in every layer; else F)
//===----------------------------------------------------------------------===//

delta.block @feed_forward {
  delta.if sparse {
    delta.use @shared_moe
  } else {
    delta.use @llama_mlp with mlp_bias = false
  }
}

delta.block @hybrid_model {
  delta.use @qwen_ends
  delta.layers where len(kinds) > 0 and
      (kinds[layer] ne "linear_attention" and
       kinds[layer] ne "full_attention") {
    delta.require len(kinds) == 0,
                  "layer_types are linear_attention and full_attention"
  }
  delta.layers where select(len(kinds) > 0, kinds[layer] == "linear_attention",
                            (layer + 1) mod interval ne 0) {
    delta.scope trainer "decoder.layers.{layer}." hf "{text}layers.{layer}." {
      delta.use @linear_attention
    }
  }
  delta.layers where select(len(kinds) > 0, kinds[layer] == "full_attention",
                            (layer + 1) mod interval == 0) {
    delta.scope trainer "decoder.layers.{layer}." hf "{text}layers.{layer}." {
      delta.use @gated_attention
    }
  }
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "{text}layers.{layer}." {
      delta.use @feed_forward
    }
  }

  // One layer with full attention, at the top of the checkpoint.
  delta.use @qwen_mtp_joint
  delta.stack mtp on last {
    delta.scope trainer "mtp.layers.{layer}.mtp_model_layer."
        or "mtp.layers.{layer}.transformer_layer." hf "mtp.layers.{layer}." {
      delta.use @gated_attention
      delta.use @feed_forward
    }
  }
}

// Alone, or as the language model of one with a vision tower, which has its
// config in a part of the whole. Needs as @hybrid_model
delta.block @qwen3_5_model {
  delta.if (config "text_config.hidden_size" else 0) > 0 {
    delta.use @qwen_vision
    delta.scope trainer "language_model." hf "" {
      delta.use @hybrid_model with text = "model.language_model.",
          joined = false
    }
  } else {
    delta.use @hybrid_model with text = "model.", joined = false
  }
}
