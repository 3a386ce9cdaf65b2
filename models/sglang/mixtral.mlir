// Mixtral in SGLang.

delta.import "sglang/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @sglang_mixtral engine "sglang" versions ["0.5.23"]
    model_types ["mixtral"]
    architectures ["MixtralForCausalLM"] {
  delta.use @mixtral_layout
}
