// Qwen3-MoE in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @vllm_qwen3_moe engine "vllm" versions ["0.33"]
    model_types ["qwen3_moe"]
    architectures ["Qwen3MoeForCausalLM"] {
  delta.use @qwen3_moe_layout
}
