// Qwen3.5 and 3.6 with experts: the layers of Qwen3-Next, the projections of
// the linear attention one by one, a vision tower around it or none.

delta.import "qwen.mlir"
delta.import "vision.mlir"

delta.family @qwen3_5_moe model_types ["qwen3_5_moe", "qwen3_5_moe_text"]
    architectures ["Qwen3_5MoeForConditionalGeneration",
                   "Qwen3_5MoeForCausalLM"] {
  delta.config_part "text_config"
  delta.use @sizes
  delta.use @attention_sizes
  delta.use @hybrid_sizes
  delta.use @sparse_sizes
  delta.use @qwen_mtp_depth
  delta.decoder L
  delta.use @qwen3_5_model with sparse = true
}
