// Gemma 4 with images and sound: the text of gemma4_text.mlir under another
// prefix. Towers and projectors are left as they are: which of their parameters
// a trainer holds is not settled in public code, and binding refuses them by
// name.

delta.import "gemma4_text.mlir"

delta.family @gemma4 model_types ["gemma4"]
    architectures ["Gemma4ForConditionalGeneration"] {
  delta.config_part "text_config"
  delta.use @without_mtp
  delta.use @gemma4_sizes
  delta.decoder L
  delta.scope trainer "language_model." or "" hf "" {
    delta.use @gemma4_model with model = "model.language_model."
  }
  delta.passthrough all "model.vision_tower."
  delta.passthrough all "model.embed_vision."
  delta.passthrough all "model.audio_tower."
  delta.passthrough all "model.embed_audio."
}
