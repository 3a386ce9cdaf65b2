// Qwen3-VL with experts in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_decoder.mlir"
delta.import "engine_vision.mlir"

delta.family @vllm_qwen3_vl_moe engine "vllm" versions ["0.33"]
    model_types ["qwen3_vl_moe"]
    architectures ["Qwen3VLMoeForConditionalGeneration"] {
  delta.config_part "text_config"
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.symbol E = config "num_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.use @engine_names
  delta.symbol centered = false
  delta.symbol inner = "language_model.model."
  delta.symbol outer = "language_model."
  delta.symbol text = "model.language_model."
  delta.use @pipeline with layers = config "num_hidden_layers"
  delta.use @expert_rules with expert_groups = 1, has_shared = false
  delta.use @held_vision
  delta.use @plain_ends
  delta.layers where true {
    delta.scope engine "{inner}layers.{layer}." hf "{text}layers.{layer}." {
      delta.use @held_attention with attn = "self_attn.", q = n * d,
          qkv_biased = false, head_norms = true
      delta.use @norm_at with at = "post_attention_layernorm", size = H
      delta.scope engine "mlp." hf "mlp." {
        delta.use @held_matrix with held = "gate.weight",
            tensor = "gate.weight", out = E, in = H
        delta.scope engine "experts.{routed}" hf "experts." {
          delta.use @gated_slots with gate = "gate_proj", up = "up_proj",
              down = "down_proj", fused = listed "gate_up_proj" else true,
              transposed = true, spare = 0
        }
      }
    }
  }
}
