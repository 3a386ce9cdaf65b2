// Qwen2 and Qwen2.5, dense, in vLLM: queries, keys and values have a bias.

delta.import "vllm/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @vllm_qwen2 engine "vllm" versions ["0.33"]
    model_types ["qwen2"]
    architectures ["Qwen2ForCausalLM"] {
  delta.use @dense_layout with biased = true, head_norms = false
}
