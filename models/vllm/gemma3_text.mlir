// Gemma 3, text, in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @vllm_gemma3_text engine "vllm" versions ["0.33"]
    model_types ["gemma3_text"]
    architectures ["Gemma3ForCausalLM"] {
  delta.symbol H = config "hidden_size"
  delta.symbol V = config "vocab_size"
  delta.symbol rows = round_up(V, 64)
  delta.symbol tied = config "tie_word_embeddings" else true
  delta.use @engine_attention_sizes
  delta.use @no_expert_rules
  delta.use @plain_names
  delta.symbol centered = true
  delta.use @pipeline with layers = config "num_hidden_layers"
  delta.use @plain_ends
  delta.use @gemma_layers with F = config "intermediate_size"
}
