// DeepSeek-V2, V2.5 and V2-Lite in SGLang.

delta.import "sglang/engine.mlir"
delta.import "engine_mla.mlir"

delta.family @sglang_deepseek_v2 engine "sglang" versions ["0.5.23"]
    model_types ["deepseek_v2"]
    architectures ["DeepseekV2ForCausalLM"] {
  delta.use @deepseek_layout with router_bias = false
}
