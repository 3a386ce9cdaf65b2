// Qwen3-MoE: the attention of Qwen3; every layer has routed experts with a
// gate and no shared expert.

delta.import "blocks.mlir"

delta.family @qwen3_moe model_types ["qwen3_moe"]
    architectures ["Qwen3MoeForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.symbol E = config "num_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.require (config "decoder_sparse_step" else 1) == 1,
                "dense layers between sparse ones are not mapped"
  delta.decoder config "num_hidden_layers"

  delta.use @embedding_and_head with embed = "model.embed_tokens.weight",
      head = "lm_head.weight"
  delta.on last {
    delta.use @vector with trained = "decoder.final_layernorm.weight",
        tensor = "model.norm.weight", size = H
  }

  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      %in = delta.param "self_attention.linear_qkv.layer_norm_weight"
          | "input_layernorm.weight" [H] : storage
      delta.tensor "input_layernorm.weight" = %in as [H]
      delta.scope trainer "self_attention." hf "self_attn." {
        delta.use @gqa
        delta.use @vector with trained = "q_layernorm.weight",
            tensor = "q_norm.weight", size = d
        delta.use @vector with trained = "k_layernorm.weight",
            tensor = "k_norm.weight", size = d
        delta.use @row_parallel with trained = "linear_proj.weight",
            tensor = "o_proj.weight", out = H, in = n * d
      }
      delta.use @vector with trained = "pre_mlp_layernorm.weight",
          tensor = "post_attention_layernorm.weight", size = H
      delta.use @matrix with trained = "mlp.router.weight",
          tensor = "mlp.gate.weight", out = E, in = H
      delta.scope trainer "mlp.experts." hf "mlp.experts." {
        delta.use @gated_experts
      }
    }
  }
}
