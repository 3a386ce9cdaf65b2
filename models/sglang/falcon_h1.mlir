// Falcon-H1 in SGLang.

delta.import "sglang/engine.mlir"
delta.import "engine_hybrid.mlir"

delta.family @sglang_falcon_h1 engine "sglang" versions ["0.5.23"]
    model_types ["falcon_h1"]
    architectures ["FalconH1ForCausalLM"] {
  delta.use @one_attention_group
  delta.use @falcon_h1_layout
}
