// Qwen3-Next in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_hybrid.mlir"

delta.family @vllm_qwen3_next engine "vllm" versions ["0.33"]
    model_types ["qwen3_next"]
    architectures ["Qwen3NextForCausalLM"] {
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.use @hybrid_sizes
  delta.use @sparse_sizes
  delta.use @qwen_mtp_depth
  delta.use @engine_names
  delta.symbol centered = true
  delta.use @pipeline with layers = L
  delta.use @expert_rules with expert_groups = 1, has_shared = false
  delta.use @plain_names
  delta.use @hybrid_layout with joined = true, sparse = true
}
