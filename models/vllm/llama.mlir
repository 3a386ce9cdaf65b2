// Llama and Mistral, which is Llama to vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @vllm_llama engine "vllm" versions ["0.33"]
    model_types ["llama", "mistral"]
    architectures ["LlamaForCausalLM", "MistralForCausalLM"] {
  delta.require not (config "attention_bias" else false) and
                not (config "mlp_bias" else false),
                "biases of the engine's layers are not known"
  delta.use @dense_layout with biased = false, head_norms = false
}
