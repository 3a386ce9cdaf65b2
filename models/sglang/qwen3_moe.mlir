// Qwen3-MoE in SGLang.

delta.import "sglang/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @sglang_qwen3_moe engine "sglang" versions ["0.5.23"]
    model_types ["qwen3_moe"]
    architectures ["Qwen3MoeForCausalLM"] {
  delta.use @qwen3_moe_layout
}
