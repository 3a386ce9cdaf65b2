// Qwen2 and Qwen2.5, dense, in SGLang: queries, keys and values have a bias.

delta.import "sglang/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @sglang_qwen2 engine "sglang" versions ["0.5.23"]
    model_types ["qwen2"]
    architectures ["Qwen2ForCausalLM"] {
  delta.use @dense_layout with biased = true, head_norms = false
}
