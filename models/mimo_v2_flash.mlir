// MiMo-V2-Flash: layers with a window have more key/value heads than layers
// with full attention, and a sink per head; value heads are smaller than the
// others. Layers are dense or have routed experts, as the config lists them.
//
// The published config lists the layers by number; what Transformers writes
// lists them by name and leaves out what differs in layers with a window. The
// tensor is `attention_sink_bias`, whatever the model in memory calls it.
// Routers are published in float32, and trained in the storage type.
//
// How many prediction layers there are only the checkpoint's key list tells, up
// to the three of the published one. They are dense and have the attention of
// layers with a window.

delta.import "decoder.mlir"
delta.import "mtp.mlir"

delta.family @mimo_v2_flash model_types ["mimo_v2_flash"]
    architectures ["MiMoV2FlashForCausalLM"] {
  delta.use @sizes
  delta.use @attention_sizes
  delta.symbol dv = config "v_head_dim"
  delta.symbol windowed_g = config "swa_num_key_value_heads" else 2 * g
  delta.symbol layers = config "num_hidden_layers"
  delta.symbol windows = config "hybrid_layer_pattern" else ""
  delta.symbol attentions = config "layer_types" else ""
  delta.symbol experts = config "moe_layer_freq" else ""
  delta.symbol mlps = config "mlp_layer_types" else ""
  delta.symbol E = config "n_routed_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.symbol listed_mtp = select(
      listed "model.mtp.layers.2.enorm.weight" else false, 3,
      select(listed "model.mtp.layers.1.enorm.weight" else false, 2,
             select(listed "model.mtp.layers.0.enorm.weight" else false, 1, 0)))
  delta.symbol mtp = select(mtp_layers ge 0, mtp_layers, listed_mtp)
  delta.symbol mtp_copies = ""
  delta.require tp le min(g, windowed_g),
                "the trainer keeps whole key/value heads on a rank"
  delta.require (config "swa_num_attention_heads" else n) == n and
                (config "swa_head_dim" else d) == d and
                (config "swa_v_head_dim" else dv) == dv,
                "kinds of attention differ in key/value heads alone"
  delta.require (config "add_swa_attention_sink_bias" else true) and
                not (config "add_full_attention_sink_bias" else false),
                "layers with a window have sinks, the others none"
  delta.require not (config "attention_bias" else false),
                "biases of the attention are not mapped"
  delta.require (config "n_shared_experts" else 0) == 0,
                "shared experts are not mapped"
  delta.require select(len(windows) > 0, len(windows), len(attentions))
                == layers,
                "the attention of every layer is listed"
  delta.require select(len(experts) > 0, len(experts), len(mlps)) == layers,
                "the MLP of every layer is listed"
  delta.decoder layers

  delta.use @llama_ends
  delta.layers where select(len(windows) > 0, windows[layer] == 0,
                            attentions[layer] == "full_attention") {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @asymmetric_attention
    }
  }
  delta.layers where select(len(windows) > 0, windows[layer] ne 0,
                            attentions[layer] ne "full_attention") {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @windowed_attention
    }
  }
  delta.layers where select(len(experts) > 0, experts[layer] == 0,
                            mlps[layer] == "dense") {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @llama_mlp with F = config "intermediate_size",
          mlp_bias = false
    }
  }
  delta.layers where select(len(experts) > 0, experts[layer] ne 0,
                            mlps[layer] ne "dense") {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @router with moe = "mlp"
      delta.use @expert_bias with
          tensor = "mlp.gate.e_score_correction_bias"
      delta.scope trainer "mlp.experts." hf "mlp.experts." {
        delta.use @gated_experts
      }
    }
  }
  delta.stack mtp on last {
    delta.scope trainer "mtp.layers.{layer}." hf "model.mtp.layers.{layer}." {
      delta.use @mtp_joint with enorm = "enorm.weight", hnorm = "hnorm.weight",
          eh_proj = "eh_proj.weight", norm = "final_layernorm.weight"
      delta.scope trainer "mtp_model_layer." or "transformer_layer." hf "" {
        delta.use @windowed_attention
        delta.use @fused_norm with fused = "mlp.linear_fc1.layer_norm_weight",
            alone = "pre_mlp_layernorm.weight",
            tensor = "pre_mlp_layernorm.weight"
        delta.scope trainer "mlp." hf "mlp." {
          delta.use @gated_mlp with F = config "intermediate_size"
        }
      }
    }
  }
  delta.if mtp == 0 {
    delta.passthrough all "model.mtp."
  }
}

// Needs: windowed_g, n, dv
delta.block @windowed_attention {
  delta.use @asymmetric_attention with g = windowed_g
  delta.use @split_vector with
      trained = "self_attention.core_attention.softmax_offset",
      tensor = "self_attn.attention_sink_bias", size = n
}

// A key/value head's queries and key have d rows a head, its value dv. Needs:
// g, dv
delta.block @asymmetric_attention {
  delta.require n mod g == 0, "every key/value head serves equally many heads"
  delta.require g mod tp == 0, "key/value heads are split over tp"
  delta.use @fused_norm with
      fused = "self_attention.linear_qkv.layer_norm_weight",
      alone = "input_layernorm.weight", tensor = "input_layernorm.weight"
  delta.scope trainer "self_attention." hf "self_attn." {
    %w = delta.param "linear_qkv.weight" [(n + g) * d + g * dv, H] : storage
    %all = delta.unshard %w dim 0 over tp
    %groups = delta.reshape %all [g, (n / g + 1) * d + dv, H]
    %q, %k, %v = delta.split %groups dim 1 [n / g * d, d, dv]
    delta.tensor "q_proj.weight" = %q as [n * d, H]
    delta.tensor "k_proj.weight" = %k as [g * d, H]
    delta.tensor "v_proj.weight" = %v as [g * dv, H]
    delta.use @row_parallel with trained = "linear_proj.weight",
        tensor = "o_proj.weight", out = H, in = n * dv
  }
}
