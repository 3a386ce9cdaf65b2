// Falcon-H1 in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_hybrid.mlir"

delta.family @vllm_falcon_h1 engine "vllm" versions ["0.33"]
    model_types ["falcon_h1"]
    architectures ["FalconH1ForCausalLM"] {
  delta.use @falcon_h1_layout
}
