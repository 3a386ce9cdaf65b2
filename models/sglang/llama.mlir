// Llama and Mistral, which is Llama to SGLang.

delta.import "sglang/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @sglang_llama engine "sglang" versions ["0.5.23"]
    model_types ["llama", "mistral"]
    architectures ["LlamaForCausalLM", "MistralForCausalLM"] {
  delta.require not (config "attention_bias" else false) and
                not (config "mlp_bias" else false),
                "biases of the engine's layers are not known"
  delta.use @dense_layout with biased = false, head_norms = false
}
