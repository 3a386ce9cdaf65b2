// Nemotron-H: one mixer a layer, chosen by a pattern: M Mamba 2, * attention,
// - MLP, E mixture of experts. MLP and experts have no gate (squared ReLU).
// Every layer has one norm, fused into its first projection where there is
// one. With a latent size the experts work in a smaller space.

delta.import "blocks.mlir"

delta.family @nemotron_h model_types ["nemotron_h"]
    architectures ["NemotronHForCausalLM"] {
  delta.use @sizes
  delta.use @attention_sizes
  delta.symbol pattern = config "hybrid_override_pattern"
  delta.symbol mtp = select(mtp_layers < 0,
                            config "num_nextn_predict_layers" else 0,
                            mtp_layers)
  delta.symbol mtp_copies = ""
  delta.require mtp == 0, "its MTP layers are not mapped"
  delta.decoder config "num_hidden_layers" pattern pattern kinds "M*-E"

  delta.use @embedding_and_head with embed = "backbone.embeddings.weight",
      head = "lm_head.weight"
  delta.on last {
    %norm = delta.param "decoder.final_norm.weight"
        | "decoder.final_layernorm.weight" [H] : storage
    delta.tensor "backbone.norm_f.weight" = %norm as [H]
  }

  delta.layers where pattern[layer] == "M" {
    delta.scope trainer "decoder.layers.{layer}." hf "backbone.layers.{layer}." {
      %norm = delta.param "mixer.in_proj.layer_norm_weight" | "norm.weight"
          [H] : storage
      delta.tensor "norm.weight" = %norm as [H]
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
      %norm = delta.param "self_attention.linear_qkv.layer_norm_weight"
          | "input_layernorm.weight" [H] : storage
      delta.tensor "norm.weight" = %norm as [H]
      delta.scope trainer "self_attention." hf "mixer." {
        delta.use @gqa
        delta.use @row_parallel with trained = "linear_proj.weight",
            tensor = "o_proj.weight", out = H, in = n * d
      }
    }
  }

  delta.layers where pattern[layer] == "-" {
    delta.symbol F = config "intermediate_size"
    delta.scope trainer "decoder.layers.{layer}." hf "backbone.layers.{layer}." {
      %norm = delta.param "mlp.linear_fc1.layer_norm_weight"
          | "pre_mlp_layernorm.weight" [H] : storage
      delta.tensor "norm.weight" = %norm as [H]
      delta.scope trainer "mlp." hf "mixer." {
        delta.use @column_parallel with trained = "linear_fc1.weight",
            tensor = "up_proj.weight", out = F, in = H
        delta.use @row_parallel with trained = "linear_fc2.weight",
            tensor = "down_proj.weight", out = H, in = F
      }
    }
  }

  delta.layers where pattern[layer] == "E" {
    delta.symbol E = config "n_routed_experts"
    delta.symbol I = config "moe_intermediate_size"
    delta.symbol X = config "moe_latent_size" else H
    delta.scope trainer "decoder.layers.{layer}." hf "backbone.layers.{layer}." {
      delta.use @vector with trained = "pre_mlp_layernorm.weight",
          tensor = "norm.weight", size = H
      delta.scope trainer "mlp." hf "mixer." {
        delta.use @matrix with trained = "router.weight",
            tensor = "gate.weight", out = E, in = H
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
          delta.symbol Is = config "moe_shared_expert_intermediate_size"
          delta.scope trainer "shared_experts." hf "shared_experts." {
            delta.use @column_parallel with trained = "linear_fc1.weight",
                tensor = "up_proj.weight", out = Is, in = H
            delta.use @row_parallel with trained = "linear_fc2.weight",
                tensor = "down_proj.weight", out = H, in = Is
          }
        }
      }
    }
  }
}
