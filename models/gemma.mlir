// What the Gemma families share: one table for embedding and head, and four
// norms a layer. Norms are centered at zero on both sides.

delta.import "decoder.mlir"

// The checkpoint has the table once, whatever a converter would accept. Needs:
// @sizes
delta.block @gemma_ends {
  delta.require config "tie_word_embeddings" else true,
                "the trainer has no head of its own"
  delta.on first {
    %w = delta.param "embedding.word_embeddings.weight" [rows, H] : storage
    %all = delta.unshard %w dim 0 over tp
    %table = delta.take %all dim 0 first V because "vocabulary padding"
    delta.tensor "model.embed_tokens.weight" = %table as [V, H]
    delta.if pp > 1 {
      delta.on last {
        delta.copy "output_layer.weight" of %w
      }
    }
  }
  delta.use @llama_final_norm
}

// The norms behind the projections belong to them in the trainer. Needs: F,
// head_norms
delta.block @gemma_layer {
  delta.require not (config "attention_bias" else false),
                "biases of the attention are not mapped"
  delta.use @llama_attention with qkv_bias = false, output_bias = false
  delta.use @vector with
      trained = "self_attention.linear_proj.post_layernorm.weight",
      tensor = "post_attention_layernorm.weight", size = H
  delta.use @fused_norm with fused = "mlp.linear_fc1.layer_norm_weight",
      alone = "pre_mlp_layernorm.weight",
      tensor = "pre_feedforward_layernorm.weight"
  delta.scope trainer "mlp." hf "mlp." {
    delta.use @gated_mlp
  }
  delta.use @vector with trained = "mlp.linear_fc2.post_layernorm.weight",
      tensor = "post_feedforward_layernorm.weight", size = H
}
