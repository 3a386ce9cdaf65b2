// GLM-4.5, 4.5-Air and 4.6 in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_decoder.mlir"
delta.import "mtp.mlir"

delta.family @vllm_glm4_moe engine "vllm" versions ["0.33"]
    model_types ["glm4_moe"]
    architectures ["Glm4MoeForCausalLM"] {
  delta.use @glm4_moe_layout
}
