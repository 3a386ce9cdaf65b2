// OLMoE: the attention of Llama with a norm over all query heads and one over
// all key heads; every layer has routed experts and no shared expert.
//
// The trainer keeps both norms whole and has no head to tie, no biases and as
// many key/value heads as heads.

delta.import "decoder.mlir"

delta.family @olmoe model_types ["olmoe"] architectures ["OlmoeForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.symbol E = config "num_experts"
  delta.symbol I = config "intermediate_size"
  delta.require tp == 1,
                "a norm over all heads needs all of them on one rank"
  delta.require g == n and n * d == H,
                "the norms of queries and keys have the hidden size"
  delta.require not tied, "the trainer always has a head of its own"
  delta.require not (config "attention_bias" else false),
                "biases of the attention are not mapped"
  delta.decoder config "num_hidden_layers"

  delta.use @llama_ends
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @llama_attention with qkv_bias = false, output_bias = false,
          head_norms = false
      delta.scope trainer "self_attention." hf "self_attn." {
        delta.use @vector with trained = "q_layernorm.weight",
            tensor = "q_norm.weight", size = H
        delta.use @vector with trained = "k_layernorm.weight",
            tensor = "k_norm.weight", size = H
      }
      delta.use @router with moe = "mlp"
      delta.scope trainer "mlp.experts." hf "mlp.experts." {
        delta.use @gated_experts
      }
    }
  }
}
