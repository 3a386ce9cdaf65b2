// GLM-4.5, 4.5-Air and 4.6 in SGLang.

delta.import "sglang/engine.mlir"
delta.import "engine_decoder.mlir"
delta.import "mtp.mlir"

delta.family @sglang_glm4_moe engine "sglang" versions ["0.5.23"]
    model_types ["glm4_moe"]
    architectures ["Glm4MoeForCausalLM"] {
  delta.use @glm4_moe_layout
}
