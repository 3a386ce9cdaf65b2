// Kimi-K2 in SGLang: DeepSeek-V3 without prediction layers.

delta.import "sglang/engine.mlir"
delta.import "engine_mla.mlir"

delta.family @sglang_kimi_k2 engine "sglang" versions ["0.5.23"]
    model_types ["kimi_k2"]
    architectures ["KimiK2ForCausalLM"] {
  delta.symbol router_bias =
      (config "topk_method" else "noaux_tc") == "noaux_tc"
  delta.use @deepseek_layout
}
