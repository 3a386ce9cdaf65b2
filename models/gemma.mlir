// What the Gemma families share: one table for embedding and head, and four
// norms a layer. Norms are centered at zero on both sides.

delta.import "decoder.mlir"

// Rows of the table, padded as in @sizes. Needs: V
delta.block @padded_vocabulary {
  delta.symbol rows = select(vocab_multiple == 0, V,
                             round_up(V, max(vocab_multiple, 1) * tp))
}

// Needs: n, g
delta.block @heads_over_tp {
  delta.require n mod tp == 0, "attention heads are split over tp"
  delta.require g mod tp == 0 or tp mod g == 0,
                "key/value heads and tp must divide one another"
  delta.require n mod g == 0, "every key/value head serves equally many heads"
}

// The checkpoint has the table once, whatever a converter would accept. Needs:
// H, V, rows, model (the checkpoint's prefix of the language model)
delta.block @gemma_ends {
  delta.require config "tie_word_embeddings" else true,
                "the trainer has no head of its own"
  delta.on first {
    %w = delta.param "embedding.word_embeddings.weight" [rows, H] : storage
    %all = delta.unshard %w dim 0 over tp
    %table = delta.take %all dim 0 first V because "vocabulary padding"
    delta.tensor "{model}embed_tokens.weight" = %table as [V, H]
    delta.if pp > 1 and scores == 0 {
      delta.on last {
        delta.copy "output_layer.weight" of %w
      }
    }
  }
  delta.if scores > 0 {
    delta.use @score_head
  }
  delta.on last {
    delta.use @vector with trained = "decoder.final_layernorm.weight",
        tensor = "{model}norm.weight", size = H
  }
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
