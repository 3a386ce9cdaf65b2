// GLM-4.5, 4.5-Air, 4.6: dense layers first, then layers with routed and
// shared experts. Biases of queries, keys and values, and norms on their
// heads, as the config says. Prediction layers have experts and are numbered on
// after the decoder's; the checkpoint repeats embedding and head for the first.
//
// Several shared experts are one MLP of their sizes together, as in the
// checkpoint; Megatron-Bridge makes it the size of one. All published models
// have one.

delta.import "decoder.mlir"
delta.import "mtp.mlir"

delta.family @glm4_moe model_types ["glm4_moe"]
    architectures ["Glm4MoeForCausalLM"] {
  delta.use @sizes
  delta.use @attention_sizes
  delta.symbol layers = config "num_hidden_layers"
  delta.symbol dense = config "first_k_dense_replace" else 1
  delta.symbol E = config "n_routed_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.symbol shared = config "n_shared_experts" else 1
  delta.require dense ge 0 and dense le layers,
                "dense layers are the first ones of all layers"
  delta.decoder layers
  delta.use @mtp_depth with in_config = config "num_nextn_predict_layers" else 0,
      first_mtp = "model.layers.{layers}.enorm.weight"
  delta.symbol mtp_copies = "model.layers.{layers}."

  delta.use @llama_ends
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @glm4_attention
    }
  }
  delta.layers where layer < dense {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @llama_mlp with F = config "intermediate_size",
          mlp_bias = false
    }
  }
  delta.layers where layer ge dense {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @glm4_experts
    }
  }
  delta.stack mtp on last {
    delta.scope trainer "mtp.layers.{layer}."
        hf "model.layers.{layer+layers}." {
      delta.use @mtp_joint with enorm = "enorm.weight", hnorm = "hnorm.weight",
          eh_proj = "eh_proj.weight", norm = "shared_head.norm.weight"
      delta.scope trainer "mtp_model_layer." or "transformer_layer." hf "" {
        delta.use @glm4_attention
        delta.use @glm4_experts
      }
    }
  }
  delta.if mtp == 0 {
    delta.passthrough all "model.layers.{layers}."
  }
}

delta.block @glm4_attention {
  delta.use @llama_attention with
      qkv_bias = config "attention_bias" else false, output_bias = false,
      head_norms = config "use_qk_norm" else false
}

// Needs: E, I, shared
delta.block @glm4_experts {
  delta.use @router with moe = "mlp"
  delta.use @expert_bias with tensor = "mlp.gate.e_score_correction_bias"
  delta.scope trainer "mlp.experts." hf "mlp.experts." {
    delta.use @gated_experts
  }
  delta.if shared > 0 {
    delta.scope trainer "mlp.shared_experts." hf "mlp.shared_experts." {
      delta.use @gated_mlp with F = I * shared
    }
  }
}
