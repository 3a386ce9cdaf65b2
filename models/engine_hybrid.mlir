// Layouts of models with linear attention or Mamba 2, for both engines: see
// engine.mlir.

delta.import "engine_decoder.mlir"
delta.import "qwen.mlir"
delta.import "mtp.mlir"

//===----------------------------------------------------------------------===//
// Gated delta net, and the Qwen line that has it
//===----------------------------------------------------------------------===//

// Where the checkpoint joins q, k, v, z by key heads, so does the engine; else
// the engine joins sections. The decay is float32. Needs: joined, H
delta.block @held_gdn {
  delta.symbol nk = config "linear_num_key_heads"
  delta.symbol nv = config "linear_num_value_heads"
  delta.symbol dv = config "linear_value_head_dim"
  delta.symbol kernel = config "linear_conv_kernel_dim" else 4
  delta.symbol K = nk * (config "linear_key_head_dim")
  delta.symbol W = nv * dv
  delta.require nk > 0, "linear attention has key heads"
  delta.require nk mod tp == 0, "linear key heads are split over the ranks"
  delta.require nv mod nk == 0,
                "every linear key head serves equally many value heads"

  delta.if joined {
    delta.use @column with held = "in_proj_qkvz.weight",
        tensor = "in_proj_qkvz.weight", out = 2 * K + 2 * W, in = H
    delta.use @column with held = "in_proj_ba.weight",
        tensor = "in_proj_ba.weight", out = 2 * nv, in = H
  } else {
    %qkvz = delta.param "in_proj_qkvz.weight" [2 * K + 2 * W, H] : storage
    %all = delta.unshard %qkvz dim 0 over tp sections [K, K, W, W]
    %qkv, %z = delta.split %all dim 0 [2 * K + W, W]
    delta.tensor "in_proj_qkv.weight" = %qkv as [2 * K + W, H]
    delta.tensor "in_proj_z.weight" = %z as [W, H]
    %ba = delta.param "in_proj_ba.weight" [2 * nv, H] : storage
    %both = delta.unshard %ba dim 0 over tp sections [nv, nv]
    %b, %a = delta.split %both dim 0 [nv, nv]
    delta.tensor "in_proj_b.weight" = %b as [nv, H]
    delta.tensor "in_proj_a.weight" = %a as [nv, H]
  }
  %conv = delta.param "conv1d.weight" [2 * K + W, 1, kernel] : storage
  %channels = delta.unshard %conv dim 0 over tp sections [K, K, W]
  delta.tensor "conv1d.weight" = %channels as [2 * K + W, 1, kernel]
  %decay = delta.param "A_log" [nv] : f32
  %decays = delta.unshard %decay dim 0 over tp
  delta.tensor "A_log" = %decays as [nv]
  delta.use @sharded_vector with held = "dt_bias", tensor = "dt_bias",
      size = nv
  delta.use @held_vector with held = "norm.weight", tensor = "norm.weight",
      size = dv
  delta.use @row with held = "out_proj.weight", tensor = "out_proj.weight",
      out = H, in = W
}

// Router, routed experts, a shared expert with a gate of its own. Needs: E, I
delta.block @held_shared_moe {
  delta.symbol shared = config "shared_expert_intermediate_size"
  delta.use @norm_at with at = "post_attention_layernorm", size = H
  delta.use @shared_expert_rules
  delta.scope engine "mlp." hf "mlp." {
    delta.use @held_matrix with held = "gate.weight", tensor = "gate.weight",
        out = E, in = H
    delta.scope engine "experts.{routed}" hf "experts." {
      delta.use @gated_slots with gate = "gate_proj", up = "up_proj",
          down = "down_proj", fused = listed "gate_up_proj" else false,
          transposed = false, spare = 0
    }
    delta.scope engine "shared_expert." hf "shared_expert." {
      delta.use @dense_mlp with F = shared
    }
    delta.use @held_matrix with held = "shared_expert_gate.weight",
        tensor = "shared_expert_gate.weight", out = 1, in = H
  }
}

// Needs: @hybrid_sizes, inner, outer, text, mtp, joined, sparse (experts in
// every layer; else F). The MTP layer belongs to a model of its own.
delta.block @hybrid_layout {
  delta.use @plain_ends
  delta.layers where select(len(kinds) > 0, kinds[layer] == "linear_attention",
                            (layer + 1) mod interval ne 0) {
    delta.scope engine "{inner}layers.{layer}." hf "{text}layers.{layer}." {
      delta.use @norm_at with at = "input_layernorm", size = H
      delta.scope engine "linear_attn." hf "linear_attn." {
        delta.use @held_gdn
      }
    }
  }
  delta.layers where select(len(kinds) > 0, kinds[layer] == "full_attention",
                            (layer + 1) mod interval == 0) {
    delta.scope engine "{inner}layers.{layer}." hf "{text}layers.{layer}." {
      // Each query head has a gate, side by side with it on both sides.
      delta.use @held_attention with attn = beside, q = 2 * n * d,
          qkv_biased = false, head_norms = true
    }
  }
  delta.layers where true {
    delta.scope engine "{inner}layers.{layer}." hf "{text}layers.{layer}." {
      delta.if sparse {
        delta.use @held_shared_moe
      } else {
        delta.use @held_mlp
      }
    }
  }
  delta.passthrough all "mtp."
  delta.stack mtp on last {
  }
}

// Alone, or as the language model of one with a vision tower. Needs as
// @hybrid_layout, and tower_inner, tower_outer (how the engine's names begin
// then)
delta.block @qwen3_5_layout {
  delta.if (config "text_config.hidden_size" else 0) > 0 {
    delta.use @held_vision
    delta.use @hybrid_layout with inner = tower_inner, outer = tower_outer,
        text = "model.language_model.", joined = false
  } else {
    delta.use @hybrid_layout with inner = "model.", outer = "",
        text = "model.", joined = false
  }
}

//===----------------------------------------------------------------------===//
// Mamba 2, and what has it
//===----------------------------------------------------------------------===//

// One group is whole on every rank, more are split. -exp(A_log) is what the
// engine holds, in float32. Needs: mixer_heads, mixer_head_dim, groups, state,
// kernel, conv_bias, mixer_norm, H
delta.block @held_mamba2 {
  delta.symbol D = mixer_heads * mixer_head_dim
  delta.symbol S = groups * state
  delta.symbol group_ways = select(groups mod tp == 0, tp, 1)
  delta.require mixer_heads mod tp == 0, "Mamba heads are split over the ranks"
  delta.require groups mod tp == 0 or groups == 1,
                "Mamba groups are split over the ranks, or there is one"

  %in = delta.param "in_proj.weight" [2 * D + 2 * S + mixer_heads, H] : storage
  %zxbcdt = delta.unshard %in dim 0 over tp
      sections [D, D, S ways group_ways, S ways group_ways, mixer_heads]
  delta.tensor "in_proj.weight" = %zxbcdt as [2 * D + 2 * S + mixer_heads, H]
  %conv = delta.param "conv1d.weight" [D + 2 * S, 1, kernel] : storage
  %xbc = delta.unshard %conv dim 0 over tp
      sections [D, S ways group_ways, S ways group_ways]
  delta.tensor "conv1d.weight" = %xbc as [D + 2 * S, 1, kernel]
  delta.if conv_bias {
    %bias = delta.param "conv1d.bias" [D + 2 * S] : storage
    %b = delta.unshard %bias dim 0 over tp
        sections [D, S ways group_ways, S ways group_ways]
    delta.tensor "conv1d.bias" = %b as [D + 2 * S]
  }
  %decay = delta.param "A" [mixer_heads] : f32 holds neg_exp
  %decays = delta.unshard %decay dim 0 over tp
  delta.tensor "A_log" = %decays as [mixer_heads]
  delta.use @sharded_vector with held = "D", tensor = "D", size = mixer_heads
  delta.use @sharded_vector with held = "dt_bias", tensor = "dt_bias",
      size = mixer_heads
  delta.if mixer_norm {
    delta.use @sharded_vector with held = "norm.weight",
        tensor = "norm.weight", size = D
  }
  delta.use @row with held = "out_proj.weight", tensor = "out_proj.weight",
      out = H, in = D
}

// Needs: mixer (the scope of the mixer)
delta.block @falcon_h1_layout {
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.use @no_expert_rules
  delta.use @engine_names
  delta.symbol centered = false
  delta.use @pipeline with layers = config "num_hidden_layers"
  delta.use @ends with held_embed = "model.embed_tokens.weight",
      embed = "model.embed_tokens.weight",
      held_norm = "model.final_layernorm.weight",
      last_norm = "model.final_layernorm.weight", held_head = "lm_head.weight",
      head = "lm_head.weight"
  delta.layers where true {
    delta.scope engine "model.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @held_attention with attn = beside, q = n * d,
          qkv_biased = false, head_norms = false
      delta.use @unfilled_head_norms
      delta.scope engine "{mixer}" hf "mamba." {
        delta.use @held_mamba2 with mixer_heads = config "mamba_n_heads",
            mixer_head_dim = config "mamba_d_head",
            groups = config "mamba_n_groups", state = config "mamba_d_state",
            kernel = config "mamba_d_conv",
            conv_bias = config "mamba_conv_bias" else true,
            mixer_norm = config "mamba_rms_norm" else false
      }
      delta.use @norm_at with at = "pre_ff_layernorm", size = H
      delta.scope engine "feed_forward." hf "feed_forward." {
        delta.use @dense_mlp with F = config "intermediate_size"
      }
    }
  }
}

// One mixer a layer, by a pattern. Prediction blocks belong to a model of their
// own. Needs: E (1 where the pattern has no experts)
delta.block @nemotron_layout {
  delta.use @engine_sizes
  delta.use @engine_attention_sizes
  delta.symbol pattern = config "hybrid_override_pattern"
  delta.use @engine_names
  delta.symbol centered = false
  delta.use @pipeline with layers = config "num_hidden_layers"
  delta.use @ends with held_embed = "model.embed_tokens.weight",
      embed = "backbone.embeddings.weight", held_norm = "model.norm_f.weight",
      last_norm = "backbone.norm_f.weight", held_head = "lm_head.weight",
      head = "lm_head.weight"
  delta.layers where pattern[layer] == "M" {
    delta.scope engine "model.layers.{layer}." hf "backbone.layers.{layer}." {
      delta.use @norm_at with at = "norm", size = H
      delta.scope engine "mixer." hf "mixer." {
        delta.use @held_mamba2 with mixer_heads = config "mamba_num_heads",
            mixer_head_dim = config "mamba_head_dim",
            groups = config "n_groups", state = config "ssm_state_size",
            kernel = config "conv_kernel",
            conv_bias = config "use_conv_bias" else true, mixer_norm = true
      }
    }
  }
  delta.layers where pattern[layer] == "*" {
    delta.scope engine "model.layers.{layer}." hf "backbone.layers.{layer}." {
      delta.use @norm_at with at = "norm", size = H
      delta.scope engine "mixer." hf "mixer." {
        delta.use @qkv with q = n * d
        delta.use @row with held = "o_proj.weight", tensor = "o_proj.weight",
            out = H, in = n * d
      }
    }
  }
  delta.layers where pattern[layer] == "-" {
    delta.scope engine "model.layers.{layer}." hf "backbone.layers.{layer}." {
      delta.use @norm_at with at = "norm", size = H
      delta.scope engine "mixer." hf "mixer." {
        delta.use @plain_mlp with F = config "intermediate_size"
      }
    }
  }
  delta.layers where pattern[layer] == "E" {
    delta.scope engine "model.layers.{layer}." hf "backbone.layers.{layer}." {
      delta.use @norm_at with at = "norm", size = H
      delta.scope engine "mixer." hf "mixer." {
        delta.use @held_nemotron_experts
      }
    }
  }
  delta.use @without_nemotron_prediction
}

// Router, projections to and from a latent space where there is one, whole on
// every rank, experts, a shared expert.
delta.block @held_nemotron_experts {
  delta.symbol E = config "n_routed_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.symbol X = config "moe_latent_size" else H
  delta.require (config "n_shared_experts" else 1) le 1,
                "shared experts are not joined by the trainer"
  delta.use @expert_rules with has_shared = false,
      expert_groups = config "n_group" else 1
  delta.use @held_matrix with held = "gate.weight", tensor = "gate.weight",
      out = E, in = H
  delta.use @held_expert_bias
  delta.if X ne H {
    delta.use @held_matrix with held = "fc1_latent_proj.weight",
        tensor = "fc1_latent_proj.weight", out = X, in = H
    delta.use @held_matrix with held = "fc2_latent_proj.weight",
        tensor = "fc2_latent_proj.weight", out = H, in = X
  }
  delta.scope engine "experts.{routed}" hf "experts." {
    delta.use @plain_slots
  }
  delta.if (config "n_shared_experts" else 1) > 0 {
    delta.use @shared_expert_rules
    delta.scope engine "shared_experts." hf "shared_experts." {
      delta.use @plain_mlp with
          F = config "moe_shared_expert_intermediate_size"
    }
  }
}

// The layers of each prediction block, four times: once for each kind, as the
// trainer's family has them.
delta.block @without_nemotron_prediction {
  delta.use @mtp_depth with first_mtp = "mtp.layers.0.eh_proj.weight",
      in_config = config "num_nextn_predict_layers" else 0
  delta.symbol in_block = len(config "mtp_hybrid_override_pattern" else "")
  delta.symbol blocks = select(config "mtp_use_repeated_layer" else true,
                               min(mtp, 1), mtp)
  delta.passthrough all "mtp."
  delta.if blocks > 0 {
    delta.use @four_stacks
  }
  delta.if blocks > 1 {
    delta.use @four_stacks
  }
}

// Needs: in_block
delta.block @four_stacks {
  delta.stack in_block on last {
  }
  delta.stack in_block on last {
  }
  delta.stack in_block on last {
  }
  delta.stack in_block on last {
  }
}
