// DeepSeek-V2, V2.5 and V2-Lite in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_mla.mlir"

delta.family @vllm_deepseek_v2 engine "vllm" versions ["0.33"]
    model_types ["deepseek_v2"]
    architectures ["DeepseekV2ForCausalLM"] {
  delta.use @deepseek_layout with router_bias = false
}
