// Qwen3, dense, in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @vllm_qwen3 engine "vllm" versions ["0.33"]
    model_types ["qwen3"]
    architectures ["Qwen3ForCausalLM"] {
  delta.use @dense_layout with biased = false, head_norms = true
}
