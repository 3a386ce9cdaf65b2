// Mixtral: the attention of Llama; every layer has routed experts, whose gate,
// up and down projections the checkpoint calls w1, w3 and w2.

delta.import "decoder.mlir"

delta.family @mixtral model_types ["mixtral"]
    architectures ["MixtralForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.symbol E = config "num_local_experts"
  delta.decoder config "num_hidden_layers"

  delta.use @llama_ends
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @llama_attention with qkv_bias = false, output_bias = false,
          head_norms = false
      delta.use @router with moe = "block_sparse_moe"
      delta.scope trainer "mlp.experts." hf "block_sparse_moe.experts." {
        delta.use @named_gated_experts with gate = "w1", up = "w3",
            down = "w2", I = config "intermediate_size"
      }
    }
  }
}
