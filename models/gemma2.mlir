// Gemma 2: four norms a layer, none on the heads.

delta.import "gemma.mlir"

delta.family @gemma2 model_types ["gemma2"]
    architectures ["Gemma2ForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.decoder config "num_hidden_layers"

  delta.use @gemma_ends with model = "model."
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @gemma_layer with F = config "intermediate_size",
          head_norms = false
    }
  }
}
