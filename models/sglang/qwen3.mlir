// Qwen3, dense, in SGLang.

delta.import "sglang/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @sglang_qwen3 engine "sglang" versions ["0.5.23"]
    model_types ["qwen3"]
    architectures ["Qwen3ForCausalLM"] {
  delta.use @dense_layout with biased = false, head_norms = true
}
