// Gemma 3, text: Gemma 2 with a norm on every query and key head. Layers with
// a window and without one have the same parameters.

delta.import "gemma.mlir"

delta.family @gemma3_text model_types ["gemma3_text"]
    architectures ["Gemma3ForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.decoder config "num_hidden_layers"

  delta.use @gemma_ends with model = "model."
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @gemma_layer with F = config "intermediate_size",
          head_norms = true
    }
  }
}
