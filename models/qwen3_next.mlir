// Qwen3-Next: layers with linear attention (gated delta net) and, every fourth,
// with gated full attention; experts and a shared expert in every layer.

delta.import "qwen.mlir"

delta.family @qwen3_next model_types ["qwen3_next"]
    architectures ["Qwen3NextForCausalLM"] {
  delta.use @sizes
  delta.use @attention_sizes
  delta.use @hybrid_sizes
  delta.use @sparse_sizes
  delta.use @qwen_mtp_depth
  delta.decoder L
  delta.use @hybrid_model with text = "model.", joined = true, sparse = true
}
