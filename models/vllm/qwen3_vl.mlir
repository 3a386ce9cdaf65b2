// Qwen3-VL, dense, in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_decoder.mlir"
delta.import "engine_vision.mlir"

delta.family @vllm_qwen3_vl engine "vllm" versions ["0.33"]
    model_types ["qwen3_vl"]
    architectures ["Qwen3VLForConditionalGeneration"] {
  delta.config_part "text_config"
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.use @engine_names
  delta.symbol centered = false
  delta.symbol inner = "language_model.model."
  delta.symbol outer = "language_model."
  delta.symbol text = "model.language_model."
  delta.use @pipeline with layers = config "num_hidden_layers"
  delta.use @no_expert_rules
  delta.use @held_vision
  delta.use @plain_ends
  delta.layers where true {
    delta.scope engine "{inner}layers.{layer}." hf "{text}layers.{layer}." {
      delta.use @held_attention with attn = "self_attn.", q = n * d,
          qkv_biased = false, head_norms = true
      delta.use @held_mlp with F = config "intermediate_size"
    }
  }
}
