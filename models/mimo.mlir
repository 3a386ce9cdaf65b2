// MiMo-7B: the decoder of Qwen2, with biases of queries, keys and values
// whatever the config says.

delta.import "decoder.mlir"

delta.family @mimo model_types ["mimo"] architectures ["MiMoForCausalLM"] {
  delta.use @sizes
  delta.use @attention_sizes
  delta.symbol mtp = select(mtp_layers < 0,
                            config "num_nextn_predict_layers" else 0,
                            mtp_layers)
  delta.symbol mtp_copies = ""
  delta.require mtp == 0, "its MTP layers are not mapped"
  delta.decoder config "num_hidden_layers"

  delta.use @llama_ends
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @llama_attention with qkv_bias = true, output_bias = false,
          head_norms = false
      delta.use @llama_mlp with F = config "intermediate_size",
          mlp_bias = false
    }
  }
}
