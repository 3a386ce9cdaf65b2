// Qwen3-VL, dense: Qwen3 with a vision tower around it.

delta.import "qwen.mlir"
delta.import "vision.mlir"

delta.family @qwen3_vl model_types ["qwen3_vl"]
    architectures ["Qwen3VLForConditionalGeneration"] {
  delta.config_part "text_config"
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.require not (config "attention_bias" else false),
                "biases of attention are not mapped"
  delta.symbol F = config "intermediate_size"
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
      delta.use @llama_mlp with mlp_bias = false
    }
  }
}
