// Qwen3.5, dense, in vLLM, with a vision tower or without.

delta.import "vllm/engine.mlir"
delta.import "engine_hybrid.mlir"
delta.import "engine_vision.mlir"

delta.family @vllm_qwen3_5 engine "vllm" versions ["0.33"]
    model_types ["qwen3_5", "qwen3_5_text"]
    architectures ["Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"] {
  delta.config_part "text_config"
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.use @hybrid_sizes
  delta.use @qwen_mtp_depth
  delta.use @engine_names
  delta.symbol centered = true
  delta.use @pipeline with layers = L
  delta.use @no_expert_rules
  delta.symbol F = config "intermediate_size"
  delta.use @qwen3_5_layout with sparse = false,
      tower_inner = "language_model.model.", tower_outer = "language_model."
}
