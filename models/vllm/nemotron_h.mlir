// Nemotron-H in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_hybrid.mlir"

delta.family @vllm_nemotron_h engine "vllm" versions ["0.33"]
    model_types ["nemotron_h"]
    architectures ["NemotronHForCausalLM"] {
  delta.use @nemotron_layout
}
