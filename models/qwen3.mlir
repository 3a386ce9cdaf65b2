// Qwen3, dense: grouped-query attention with a norm on every query and key
// head, gated MLP. The trainer fuses each input norm into the projection that
// follows it; without fusion the norm has a name of its own.

delta.import "blocks.mlir"

delta.family @qwen3 model_types ["qwen3"] architectures ["Qwen3ForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.symbol F = config "intermediate_size"
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
      %post = delta.param "mlp.linear_fc1.layer_norm_weight"
          | "pre_mlp_layernorm.weight" [H] : storage
      delta.tensor "post_attention_layernorm.weight" = %post as [H]
      delta.scope trainer "mlp." hf "mlp." {
        delta.use @gated_mlp
      }
    }
  }
}
