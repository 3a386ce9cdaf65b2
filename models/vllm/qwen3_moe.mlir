// Qwen3-MoE in vLLM.

delta.import "vllm/engine.mlir"

delta.family @vllm_qwen3_moe engine "vllm" versions ["0.33"]
    model_types ["qwen3_moe"] architectures ["Qwen3MoeForCausalLM"] {
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.symbol E = config "num_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.use @vllm_pipeline

  delta.use @vllm_ends with inner = "model.", outer = ""
  delta.layers where true {
    delta.scope engine "model.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @held_vector with held = "input_layernorm.weight",
          tensor = "input_layernorm.weight", size = H
      delta.scope engine "self_attn." hf "self_attn." {
        delta.use @qkv
        delta.use @held_vector with held = "q_norm.weight",
            tensor = "q_norm.weight", size = d
        delta.use @held_vector with held = "k_norm.weight",
            tensor = "k_norm.weight", size = d
        delta.use @row with held = "o_proj.weight",
            tensor = "o_proj.weight", out = H, in = n * d
      }
      delta.use @held_vector with held = "post_attention_layernorm.weight",
          tensor = "post_attention_layernorm.weight", size = H
      delta.use @held_matrix with held = "mlp.gate.weight",
          tensor = "mlp.gate.weight", out = E, in = H
      delta.scope engine "mlp.experts.routed_experts." hf "mlp.experts." {
        delta.use @stacked_gated_experts with gate = "gate_proj",
            up = "up_proj", down = "down_proj"
      }
    }
  }
}
