// Qwen3.5 and 3.6 with experts in SGLang, with a vision tower or without.

delta.import "sglang/engine.mlir"
delta.import "engine_hybrid.mlir"
delta.import "engine_vision.mlir"

delta.family @sglang_qwen3_5_moe engine "sglang" versions ["0.5.23"]
    model_types ["qwen3_5_moe", "qwen3_5_moe_text"]
    architectures ["Qwen3_5MoeForConditionalGeneration",
                   "Qwen3_5MoeForCausalLM"] {
  delta.config_part "text_config"
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.use @hybrid_sizes
  delta.use @sparse_sizes
  delta.use @qwen_mtp_depth
  delta.use @engine_names
  delta.symbol centered = true
  delta.use @pipeline with layers = L
  delta.use @expert_rules with expert_groups = 1, has_shared = false
  delta.use @qwen3_5_layout with sparse = true, tower_inner = "model.",
      tower_outer = ""
}
