// GLM-5, 5.1, 5.2: the layers of DeepSeek-V3 with sparse attention. An indexer
// chooses the tokens to attend to; some layers may share the choice of a layer
// before them and have no indexer.
//
// Megatron-Bridge trains without the prediction layer unless told otherwise;
// say `"mtp_layers": 0` for such a trainer. The checkpoint then keeps the layer
// of its base. Which types the indexer has is the published checkpoint's
// choice: frameworks keep parts of it in float32.

delta.import "mla.mlir"
delta.import "mtp.mlir"

delta.family @glm_moe_dsa model_types ["glm_moe_dsa"]
    architectures ["GlmMoeDsaForCausalLM"] {
  delta.use @sizes
  delta.use @mla_sizes
  delta.use @deepseek_moe_sizes with dense_by_default = 3
  delta.symbol router_bias = true
  delta.symbol kinds = config "indexer_types" else ""
  delta.symbol every = config "index_topk_freq" else 1
  delta.symbol offset = max(config "index_skip_topk_offset" else 2, 1)
  delta.require q_rank > 0, "the indexer reads compressed queries"
  delta.require (config "index_topk_pattern" else "") == "",
                "shared choices of tokens are listed in indexer_types"
  delta.require len(kinds) == 0 or len(kinds) == L,
                "indexer_types lists every layer"
  delta.require every ge 1, "index_topk_freq is at least 1"
  delta.decoder L
  delta.use @mtp_depth with in_config = config "num_nextn_predict_layers" else 0,
      first_mtp = "model.layers.{L}.enorm.weight"
  delta.symbol mtp_copies = "model.layers.{L}."
  delta.use @deepseek_decoder
  delta.layers where select(len(kinds) > 0, kinds[layer] == "full",
                            max(layer - offset + 1, 0) mod every == 0) {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @indexer
    }
  }
  delta.layers where len(kinds) > 0 and
                     not (kinds[layer] == "full" or kinds[layer] == "shared") {
    delta.require false, "the indexer of a layer is full or shared"
  }
  delta.use @deepseek_mtp
  delta.stack mtp on last {
    delta.require every == 1 and len(kinds) == 0,
                  "which indexer a prediction layer uses is not settled"
    delta.scope trainer "mtp.layers.{layer}." hf "model.layers.{layer+L}." {
      delta.scope trainer "mtp_model_layer." or "transformer_layer." hf "" {
        delta.use @indexer
      }
    }
  }
}

// Whole on every rank. Needs: q_rank
delta.block @indexer {
  delta.symbol heads = config "index_n_heads" else 32
  delta.symbol size = config "index_head_dim" else 128
  delta.scope trainer "self_attention.core_attention.indexer."
      hf "self_attn.indexer." {
    delta.use @matrix with trained = "linear_wq_b.weight",
        tensor = "wq_b.weight", out = heads * size, in = q_rank
    delta.use @matrix with trained = "linear_wk.weight", tensor = "wk.weight",
        out = size, in = H
    %scale = delta.param "k_norm.weight" [size] : storage
    delta.tensor "k_norm.weight" = %scale as [size] : storage | f32
    %shift = delta.param "k_norm.bias" [size] : storage
    delta.tensor "k_norm.bias" = %shift as [size] : storage | f32
    %heads = delta.param "linear_weights_proj.weight" [heads, H] : storage
    delta.tensor "weights_proj.weight" = %heads as [heads, H] : storage | f32
  }
}
