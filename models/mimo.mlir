// MiMo-7B: the decoder of Qwen2, with biases of queries, keys and values
// whatever the config says, and prediction layers with names of their own.

delta.import "decoder.mlir"
delta.import "mtp.mlir"

delta.family @mimo model_types ["mimo"] architectures ["MiMoForCausalLM"] {
  delta.use @sizes
  delta.use @attention_sizes
  delta.decoder config "num_hidden_layers"
  delta.use @mtp_depth with in_config = config "num_nextn_predict_layers" else 0,
      first_mtp = "model.mtp_layers.0.input_proj.weight"
  delta.symbol mtp_copies = ""

  delta.use @llama_ends
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @mimo_layer
    }
  }
  delta.stack mtp on last {
    delta.scope trainer "mtp.layers.{layer}." hf "model.mtp_layers.{layer}." {
      delta.use @mtp_norms with enorm = "token_layernorm.weight",
          hnorm = "hidden_layernorm.weight", norm = "final_layernorm.weight"
      delta.use @mtp_swapped_projection with eh_proj = "input_proj.weight"
      delta.scope trainer "mtp_model_layer." or "transformer_layer." hf "" {
        delta.use @mimo_layer
      }
    }
  }
  delta.if mtp == 0 {
    delta.passthrough all "model.mtp_layers."
  }
}

delta.block @mimo_layer {
  delta.use @llama_attention with qkv_bias = true, output_bias = false,
      head_norms = false
  delta.use @llama_mlp with F = config "intermediate_size", mlp_bias = false
}
