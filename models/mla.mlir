// Multi-head latent attention, and the layers of the DeepSeek line that use it.

delta.import "blocks.mlir"

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

// q_rank is 0 where queries are not compressed.
delta.block @mla_sizes {
  delta.symbol n = config "num_attention_heads"
  delta.symbol q_rank = config "q_lora_rank" else 0
  delta.symbol kv_rank = config "kv_lora_rank"
  delta.symbol rope = config "qk_rope_head_dim"
  delta.symbol qk = (config "qk_nope_head_dim") + rope
  delta.symbol nope_v = (config "qk_nope_head_dim") + (config "v_head_dim")
  delta.symbol v = config "v_head_dim"
  delta.require n mod tp == 0, "attention heads are split over tp"
  delta.require q_rank ge 0 and kv_rank > 0,
                "q_lora_rank is null or a size, kv_lora_rank is a size"
}

// Routed and shared experts. Which layers are dense follows a list, as what
// Transformers writes has it, else the number of dense layers. Needs:
// dense_by_default (their number if the config has neither)
delta.block @deepseek_moe_sizes {
  delta.symbol F = config "intermediate_size"
  delta.symbol E = config "n_routed_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.symbol shared = I * (config "n_shared_experts" else 0)
  delta.symbol first_moe = config "first_k_dense_replace" else dense_by_default
  delta.symbol mlps = config "mlp_layer_types" else ""
  delta.symbol L = config "num_hidden_layers"
  delta.require E > 0, "n_routed_experts is the number of experts"
  delta.require first_moe ge 0 and first_moe le L,
                "first_k_dense_replace is at most num_hidden_layers"
  delta.require len(mlps) == 0 or len(mlps) == L,
                "mlp_layer_types lists every layer"
  delta.require (config "moe_layer_freq" else 1) == 1,
                "every layer from first_k_dense_replace on has experts"
}

//===----------------------------------------------------------------------===//
// Attention. Needs: @mla_sizes
//===----------------------------------------------------------------------===//

// The down projections are whole on every rank; the up projections are split
// by heads, which are the outer order of their rows on both sides.
delta.block @mla {
  delta.require not (config "attention_bias" else false),
                "biases of latent attention are not mapped"
  delta.if q_rank > 0 {
    delta.use @matrix with trained = "linear_q_down_proj.weight",
        tensor = "q_a_proj.weight", out = q_rank, in = H
    %norm = delta.param "linear_q_up_proj.layer_norm_weight"
        | "q_layernorm.weight" [q_rank] : storage
    delta.tensor "q_a_layernorm.weight" = %norm as [q_rank]
    delta.use @column_parallel with trained = "linear_q_up_proj.weight",
        tensor = "q_b_proj.weight", out = n * qk, in = q_rank
  } else {
    delta.use @column_parallel with trained = "linear_q_proj.weight",
        tensor = "q_proj.weight", out = n * qk, in = H
  }
  delta.use @matrix with trained = "linear_kv_down_proj.weight",
      tensor = "kv_a_proj_with_mqa.weight", out = kv_rank + rope, in = H
  %norm = delta.param "linear_kv_up_proj.layer_norm_weight"
      | "kv_layernorm.weight" [kv_rank] : storage
  delta.tensor "kv_a_layernorm.weight" = %norm as [kv_rank]
  delta.use @column_parallel with trained = "linear_kv_up_proj.weight",
      tensor = "kv_b_proj.weight", out = n * nope_v, in = kv_rank
  delta.use @row_parallel with trained = "linear_proj.weight",
      tensor = "o_proj.weight", out = H, in = n * v
}

//===----------------------------------------------------------------------===//
// Layers. Need: @mla_sizes, @deepseek_moe_sizes, router_bias (whether the
// router has a bias, in float32)
//===----------------------------------------------------------------------===//

// Router, routed experts, shared expert.
delta.block @deepseek_moe {
  delta.scope trainer "mlp." hf "mlp." {
    delta.use @matrix with trained = "router.weight", tensor = "gate.weight",
        out = E, in = H
    delta.if router_bias {
      %bias = delta.param "router.expert_bias" [E] : f32
      delta.tensor "gate.e_score_correction_bias" = %bias as [E]
    }
    delta.scope trainer "experts." hf "experts." {
      delta.use @gated_experts
    }
    delta.if shared > 0 {
      delta.scope trainer "shared_experts." hf "shared_experts." {
        delta.use @gated_mlp with F = shared
      }
    }
  }
}

delta.block @deepseek_attention {
  delta.use @vector with trained = "input_layernorm.weight",
      tensor = "input_layernorm.weight", size = H
  delta.scope trainer "self_attention." hf "self_attn." {
    delta.use @mla
  }
}

delta.block @deepseek_moe_layer {
  delta.use @deepseek_attention
  delta.use @vector with trained = "pre_mlp_layernorm.weight",
      tensor = "post_attention_layernorm.weight", size = H
  delta.use @deepseek_moe
}

delta.block @deepseek_dense_layer {
  delta.use @deepseek_attention
  %norm = delta.param "mlp.linear_fc1.layer_norm_weight"
      | "pre_mlp_layernorm.weight" [H] : storage
  delta.tensor "post_attention_layernorm.weight" = %norm as [H]
  delta.scope trainer "mlp." hf "mlp." {
    delta.use @gated_mlp
  }
}

// The whole language model but for multi-token prediction. Needs also: mtp
delta.block @deepseek_decoder {
  delta.use @embedding_and_head with embed = "model.embed_tokens.weight",
      head = "lm_head.weight"
  delta.on last {
    delta.use @vector with trained = "decoder.final_layernorm.weight",
        tensor = "model.norm.weight", size = H
  }
  delta.layers where select(len(mlps) > 0, mlps[layer] == "dense",
                            layer < first_moe) {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @deepseek_dense_layer
    }
  }
  delta.layers where select(len(mlps) > 0, mlps[layer] == "sparse",
                            layer ge first_moe) {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @deepseek_moe_layer
    }
  }
  delta.layers where len(mlps) > 0 and
                     not (mlps[layer] == "dense" or mlps[layer] == "sparse") {
    delta.require false, "the MLP of a layer is dense or sparse"
  }
  delta.layers where len(mlps) > 0 and
                     (config "first_k_dense_replace" else -1) ge 0 and
                     (mlps[layer] == "dense") ne (layer < first_moe) {
    delta.require false,
                  "mlp_layer_types contradicts first_k_dense_replace"
  }
  delta.if listed "model.layers.0.self_attn.rotary_emb.inv_freq" else false {
    delta.layers where true {
      delta.passthrough "model.layers.{layer}.self_attn.rotary_emb.inv_freq"
          [H / n / 2] : storage
    }
  }
}

// Prediction layers: numbered on after the decoder's in the checkpoint. Needs
// also: mtp
delta.block @deepseek_mtp {
  delta.stack mtp on last {
    delta.scope trainer "mtp.layers.{layer}." hf "model.layers.{layer+L}." {
      delta.use @mtp_joint with enorm = "enorm.weight", hnorm = "hnorm.weight",
          eh_proj = "eh_proj.weight", norm = "shared_head.norm.weight"
      delta.scope trainer "mtp_model_layer." or "transformer_layer." hf "" {
        delta.use @deepseek_moe_layer
      }
    }
  }
  delta.if mtp == 0 {
    delta.passthrough all "model.layers.{L}."
  }
}
