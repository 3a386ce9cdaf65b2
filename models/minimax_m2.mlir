// MiniMax-M2, M2.1 and M2.5: every layer has routed experts with a bias of the
// router; one norm goes over all query heads and one over all key heads, each
// cut over tp with them. Its MTP modules are in no published checkpoint, and
// no trainer has them.
//
// The published checkpoint is in FP8 with scales; the names here are those of
// its bf16 form. The prefix is `block_sparse_moe`, whatever the model in
// memory calls it.

delta.import "decoder.mlir"

delta.family @minimax_m2 model_types ["minimax_m2"]
    architectures ["MiniMaxM2ForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.symbol E = config "num_local_experts"
  delta.require config "use_qk_norm" else true,
                "the trainer always has norms of queries and keys"
  delta.require (config "qk_norm_type" else "per_layer") == "per_layer",
                "norms of single heads are not mapped"
  delta.decoder config "num_hidden_layers"

  delta.use @llama_ends
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @llama_attention with qkv_bias = false, output_bias = false,
          head_norms = false
      delta.scope trainer "self_attention." hf "self_attn." {
        delta.use @split_vector with trained = "q_layernorm.weight",
            tensor = "q_norm.weight", size = n * d
        // With fewer key heads than ranks, neighboring ranks hold one head.
        %k = delta.param "k_layernorm.weight" [g * d] : storage
        %all = delta.unshard %k dim 0 over tp ways min(tp, g)
        delta.tensor "k_norm.weight" = %all as [g * d]
      }
      delta.use @router with moe = "block_sparse_moe"
      delta.use @expert_bias with
          tensor = "block_sparse_moe.e_score_correction_bias"
      delta.scope trainer "mlp.experts." hf "block_sparse_moe.experts." {
        delta.use @named_gated_experts with gate = "w1", up = "w3",
            down = "w2", I = config "intermediate_size"
      }
    }
  }
}
