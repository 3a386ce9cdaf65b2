// Mistral, dense: the parameters of Llama without biases. The window of its
// attention has no parameter.

delta.import "decoder.mlir"

delta.family @mistral model_types ["mistral"]
    architectures ["MistralForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.decoder config "num_hidden_layers"

  delta.use @llama_ends
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @llama_attention with qkv_bias = false, output_bias = false,
          head_norms = false
      delta.use @llama_mlp with F = config "intermediate_size",
          mlp_bias = false
    }
  }
}
