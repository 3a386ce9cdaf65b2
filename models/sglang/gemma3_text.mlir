// Gemma 3, text, in SGLang: its embedding is whole on every rank.

delta.import "sglang/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @sglang_gemma3_text engine "sglang" versions ["0.5.23"]
    model_types ["gemma3_text"]
    architectures ["Gemma3ForCausalLM"] {
  delta.symbol H = config "hidden_size"
  delta.symbol V = config "vocab_size"
  delta.symbol rows = round_up(V, 64)
  delta.symbol tied = config "tie_word_embeddings" else true
  delta.use @engine_attention_sizes
  delta.use @no_expert_rules
  delta.use @plain_names
  // Around zero; unlike others, this model's norms keep no copy with one added.
  delta.symbol centered = false
  delta.use @pipeline with layers = config "num_hidden_layers"
  delta.use @whole_embedding_ends with held_embed = "model.embed_tokens.weight",
      embed = "model.embed_tokens.weight", held_norm = "model.norm.weight",
      last_norm = "model.norm.weight"
  delta.use @gemma_layers with F = config "intermediate_size"
}
