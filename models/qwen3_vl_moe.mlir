// Qwen3-VL with experts: Qwen3-MoE with a vision tower around it. The
// checkpoint stacks the experts, input features before output features, unless
// a key list says that it has them one by one.

delta.import "qwen.mlir"
delta.import "vision.mlir"

delta.family @qwen3_vl_moe model_types ["qwen3_vl_moe"]
    architectures ["Qwen3VLMoeForConditionalGeneration"] {
  delta.config_part "text_config"
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.require not (config "attention_bias" else false),
                "biases of attention are not mapped"
  delta.use @sparse_sizes
  delta.decoder config "num_hidden_layers"
  delta.use @qwen_vision

  delta.scope trainer "language_model." hf "" {
    delta.use @qwen_ends with text = "model.language_model."
  }
  delta.layers where true {
    delta.scope trainer "language_model.decoder.layers.{layer}."
        hf "model.language_model.layers.{layer}." {
      delta.use @llama_attention with qkv_bias = false, output_bias = false,
          head_norms = true
      delta.use @router with moe = "mlp"
      delta.scope trainer "mlp.experts." hf "mlp.experts." {
        delta.if listed "gate_up_proj" else true {
          delta.use @stacked_experts with transposed = true
        } else {
          delta.use @gated_experts
        }
      }
    }
  }
}
