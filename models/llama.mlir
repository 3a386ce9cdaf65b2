// Llama 2, 3 and 3.x and what is built like them: grouped-query attention and
// a gated MLP. Rows of queries and keys keep the order of the checkpoint; no
// permutation for the rotary embedding is made.
//
// The biases that `attention_bias` and `mlp_bias` ask for are in the
// checkpoint, so they are mapped; Megatron-Bridge maps none of them.

delta.import "decoder.mlir"

delta.family @llama model_types ["llama"] architectures ["LlamaForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.symbol biased = config "attention_bias" else false
  delta.decoder config "num_hidden_layers"

  delta.use @llama_ends
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @llama_attention with qkv_bias = biased, output_bias = biased,
          head_norms = false
      delta.use @llama_mlp with F = config "intermediate_size",
          mlp_bias = config "mlp_bias" else false
    }
  }
}
