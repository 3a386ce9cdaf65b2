// Nemotron-H: one mixer a layer, chosen by a pattern: M Mamba 2, * attention,
// - MLP, E mixture of experts. MLP and experts have no gate (squared ReLU).
// Every layer has one norm, fused into its first projection where there is
// one. With a latent size the experts work in a smaller space.
//
// A prediction block is a pattern of such layers, numbered on in the checkpoint
// from block to block. By default the trainer repeats one block however many
// predictions it makes, and the checkpoint has it once.

delta.import "blocks.mlir"
delta.import "mtp.mlir"

delta.family @nemotron_h model_types ["nemotron_h"]
    architectures ["NemotronHForCausalLM"] {
  delta.use @sizes
  delta.use @attention_sizes
  delta.symbol pattern = config "hybrid_override_pattern"
  delta.decoder config "num_hidden_layers" pattern pattern kinds "M*-E"
  delta.use @nemotron_prediction_sizes

  delta.use @embedding_and_head with embed = "backbone.embeddings.weight",
      head = "lm_head.weight"
  delta.on last {
    %norm = delta.param "decoder.final_norm.weight"
        | "decoder.final_layernorm.weight" [H] : storage
    delta.tensor "backbone.norm_f.weight" = %norm as [H]
  }

  delta.layers where pattern[layer] == "M" {
    delta.scope trainer "decoder.layers.{layer}." hf "backbone.layers.{layer}." {
      delta.use @fused_norm with fused = "mixer.in_proj.layer_norm_weight",
          alone = "norm.weight", tensor = "norm.weight"
      delta.scope trainer "mixer." hf "mixer." {
        delta.use @mamba2 with mixer_heads = config "mamba_num_heads",
            mixer_head_dim = config "mamba_head_dim",
            groups = config "n_groups", state = config "ssm_state_size",
            kernel = config "conv_kernel",
            conv_bias = config "use_conv_bias" else true, mixer_norm = true
      }
    }
  }
  delta.layers where pattern[layer] == "*" {
    delta.scope trainer "decoder.layers.{layer}." hf "backbone.layers.{layer}." {
      delta.use @nemotron_attention
    }
  }
  delta.layers where pattern[layer] == "-" {
    delta.scope trainer "decoder.layers.{layer}." hf "backbone.layers.{layer}." {
      delta.use @fused_norm with fused = "mlp.linear_fc1.layer_norm_weight",
          alone = "pre_mlp_layernorm.weight", tensor = "norm.weight"
      delta.use @nemotron_mlp
    }
  }
  delta.layers where pattern[layer] == "E" {
    delta.scope trainer "decoder.layers.{layer}." hf "backbone.layers.{layer}." {
      delta.use @nemotron_experts
    }
  }

  delta.if blocks > 0 {
    delta.use @nemotron_prediction with block = 0, first = 0,
        end = len(inner) - 1
  }
  delta.if blocks > 1 {
    delta.use @nemotron_prediction with block = 1, first = len(inner),
        end = 2 * len(inner) - 1
  }
  delta.if mtp == 0 {
    delta.passthrough all "mtp."
  }
}

//===----------------------------------------------------------------------===//
// Layers of one kind
//===----------------------------------------------------------------------===//

delta.block @nemotron_attention {
  delta.use @fused_norm with
      fused = "self_attention.linear_qkv.layer_norm_weight",
      alone = "input_layernorm.weight", tensor = "norm.weight"
  delta.scope trainer "self_attention." hf "mixer." {
    delta.use @gqa
    delta.use @row_parallel with trained = "linear_proj.weight",
        tensor = "o_proj.weight", out = H, in = n * d
  }
}

// Without its norm.
delta.block @nemotron_mlp {
  delta.scope trainer "mlp." hf "mixer." {
    delta.use @nemotron_projections with size = config "intermediate_size"
  }
}

// Without a gate. Needs: size
delta.block @nemotron_projections {
  delta.use @column_parallel with trained = "linear_fc1.weight",
      tensor = "up_proj.weight", out = size, in = H
  delta.use @row_parallel with trained = "linear_fc2.weight",
      tensor = "down_proj.weight", out = H, in = size
}

delta.block @nemotron_experts {
  delta.symbol E = config "n_routed_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.symbol X = config "moe_latent_size" else H
  delta.use @vector with trained = "pre_mlp_layernorm.weight",
      tensor = "norm.weight", size = H
  delta.scope trainer "mlp." hf "mixer." {
    delta.use @matrix with trained = "router.weight", tensor = "gate.weight",
        out = E, in = H
    %bias = delta.param "router.expert_bias" [E] : f32
    delta.tensor "gate.e_score_correction_bias" = %bias as [E]
    delta.if X ne H {
      delta.use @matrix with trained = "fc1_latent_proj.weight",
          tensor = "fc1_latent_proj.weight", out = X, in = H
      delta.use @matrix with trained = "fc2_latent_proj.weight",
          tensor = "fc2_latent_proj.weight", out = H, in = X
    }
    delta.scope trainer "experts." hf "experts." {
      delta.use @plain_experts
    }
    delta.if (config "n_shared_experts" else 1) > 0 {
      delta.scope trainer "shared_experts." hf "shared_experts." {
        delta.use @nemotron_projections with
            size = config "moe_shared_expert_intermediate_size"
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Prediction
//===----------------------------------------------------------------------===//

// mtp: predictions; blocks: those of them with weights of their own; inner: the
// layers of a block.
delta.block @nemotron_prediction_sizes {
  delta.use @mtp_depth with in_config = config "num_nextn_predict_layers" else 0,
      first_mtp = "mtp.layers.0.eh_proj.weight"
  delta.symbol mtp_copies = ""
  delta.symbol inner = config "mtp_hybrid_override_pattern" else ""
  delta.symbol blocks = select(config "mtp_use_repeated_layer" else true,
                               min(mtp, 1), mtp)
  delta.require mtp == 0 or len(inner) > 0,
                "mtp_hybrid_override_pattern gives the layers of a block"
  delta.require blocks le 2, "two prediction blocks of their own at most"
}

// One block. Needs: block (its number), first, end (numbers of its layers in
// the checkpoint)
delta.block @nemotron_prediction {
  delta.on last {
    delta.scope trainer "mtp.layers.{block}." hf "mtp." {
      delta.use @mtp_joint with enorm = "layers.{first}.enorm.weight",
          hnorm = "layers.{first}.hnorm.weight",
          eh_proj = "layers.{first}.eh_proj.weight",
          norm = "layers.{end}.final_layernorm.weight"
    }
  }
  delta.stack len(inner) on last where inner[layer] == "*" {
    delta.scope trainer "mtp.layers.{block}.mtp_model_layer.layers.{layer}."
        hf "mtp.layers.{layer+first}." {
      delta.use @nemotron_attention
    }
  }
  delta.stack len(inner) on last where inner[layer] == "-" {
    delta.scope trainer "mtp.layers.{block}.mtp_model_layer.layers.{layer}."
        hf "mtp.layers.{layer+first}." {
      delta.use @vector with trained = "mlp.linear_fc1.layer_norm_weight",
          tensor = "norm.weight", size = H
      delta.use @nemotron_mlp
    }
  }
  delta.stack len(inner) on last where inner[layer] == "E" {
    delta.scope trainer "mtp.layers.{block}.mtp_model_layer.layers.{layer}."
        hf "mtp.layers.{layer+first}." {
      delta.use @nemotron_experts
    }
  }
  delta.stack len(inner) on last where not (inner[layer] == "*" or
      inner[layer] == "-" or inner[layer] == "E") {
    delta.require false, "layers of a block are attention, MLP or experts"
  }
}
