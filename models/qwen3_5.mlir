// Qwen3.5, dense: layers with linear attention (gated delta net) and, every
// fourth, with gated full attention; a vision tower around it or none.

delta.import "qwen.mlir"
delta.import "vision.mlir"

delta.family @qwen3_5 model_types ["qwen3_5", "qwen3_5_text"]
    architectures ["Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"] {
  delta.config_part "text_config"
  delta.use @sizes
  delta.use @attention_sizes
  delta.use @hybrid_sizes
  delta.symbol F = config "intermediate_size"
  delta.use @qwen_mtp_depth
  delta.decoder L
  delta.use @qwen3_5_model with sparse = false
}
