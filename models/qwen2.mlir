// Qwen2 and Qwen2.5, dense: Llama with biases of queries, keys and values,
// whatever the config says, and of nothing else.

delta.import "decoder.mlir"

delta.family @qwen2 model_types ["qwen2"] architectures ["Qwen2ForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
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
