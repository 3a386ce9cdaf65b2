// Falcon-H1: every layer has a Mamba 2 mixer and attention side by side behind
// one norm, then a gated MLP. The config's multipliers act on activations and
// leave the weights alone.
//
// One option of the trainer, `projectors_bias`, gives biases to attention and
// MLP together; the mixer's projections have none in the trainer. No published
// checkpoint has biases, and Megatron-Bridge maps none.

delta.import "decoder.mlir"

delta.family @falcon_h1 model_types ["falcon_h1"]
    architectures ["FalconH1ForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.symbol heads = config "mamba_n_heads"
  delta.symbol head_size = config "mamba_d_head"
  delta.require (config "mamba_d_ssm" else heads * head_size)
                == heads * head_size,
                "the mixer's size is that of its heads together"
  delta.require not (config "projectors_bias" else false) and
                not (config "attention_bias" else false) and
                not (config "mlp_bias" else false) and
                not (config "mamba_proj_bias" else false),
                "biases of projections are not mapped"
  delta.require config "mamba_use_mlp" else true, "every layer has an MLP"
  delta.require vpp == 1, "the trainer has no virtual stages of it"
  delta.decoder config "num_hidden_layers"

  delta.use @embedding_and_head with embed = "model.embed_tokens.weight",
      head = "lm_head.weight"
  delta.on last {
    delta.use @vector with trained = "decoder.final_norm.weight",
        tensor = "model.final_layernorm.weight", size = H
  }

  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @vector with trained = "norm.weight",
          tensor = "input_layernorm.weight", size = H
      delta.scope trainer "mamba_mixer." hf "mamba." {
        delta.use @mamba2 with mixer_heads = heads,
            mixer_head_dim = head_size, groups = config "mamba_n_groups",
            state = config "mamba_d_state", kernel = config "mamba_d_conv",
            conv_bias = config "mamba_conv_bias" else true,
            mixer_norm = config "mamba_rms_norm" else false
      }
      delta.scope trainer "self_attention." hf "self_attn." {
        delta.use @gqa
        delta.use @row_parallel with trained = "linear_proj.weight",
            tensor = "o_proj.weight", out = H, in = n * d
      }
      delta.use @fused_norm with fused = "mlp.linear_fc1.layer_norm_weight",
          alone = "pre_mlp_layernorm.weight",
          tensor = "pre_ff_layernorm.weight"
      delta.scope trainer "mlp." hf "feed_forward." {
        delta.use @gated_mlp with F = config "intermediate_size"
      }
    }
  }
}
