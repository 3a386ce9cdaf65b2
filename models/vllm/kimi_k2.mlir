// Kimi-K2 in vLLM: DeepSeek-V3 without prediction layers.

delta.import "vllm/engine.mlir"
delta.import "engine_mla.mlir"

delta.family @vllm_kimi_k2 engine "vllm" versions ["0.33"]
    model_types ["kimi_k2"]
    architectures ["KimiK2ForCausalLM"] {
  delta.symbol router_bias =
      (config "topk_method" else "noaux_tc") == "noaux_tc"
  delta.use @deepseek_layout
}
