// Mixtral in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @vllm_mixtral engine "vllm" versions ["0.33"]
    model_types ["mixtral"]
    architectures ["MixtralForCausalLM"] {
  delta.use @mixtral_layout
}
