// gpt-oss: attention with biases and a sink per head; every layer has routed
// experts with biases. The checkpoint stacks the experts, stores input
// features before output features, and interleaves gate and up.

delta.import "blocks.mlir"

delta.family @gpt_oss model_types ["gpt_oss"]
    architectures ["GptOssForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.symbol E = config "num_local_experts" | "num_experts"
  delta.symbol I = config "intermediate_size"
  delta.require etp == 1, "experts with biases are not split over etp"
  delta.decoder config "num_hidden_layers"

  delta.use @embedding_and_head with embed = "model.embed_tokens.weight",
      head = "lm_head.weight"
  delta.on last {
    delta.use @vector with trained = "decoder.final_layernorm.weight",
        tensor = "model.norm.weight", size = H
  }

  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      %in = delta.param "self_attention.linear_qkv.layer_norm_weight"
          | "input_layernorm.weight" [H] : storage
      delta.tensor "input_layernorm.weight" = %in as [H]
      delta.scope trainer "self_attention." hf "self_attn." {
        delta.use @gqa
        delta.use @row_parallel with trained = "linear_proj.weight",
            tensor = "o_proj.weight", out = H, in = n * d
        delta.if config "attention_bias" else true {
          delta.use @gqa_bias
          delta.use @vector with trained = "linear_proj.bias",
              tensor = "o_proj.bias", size = H
        }
        delta.use @split_vector with
            trained = "core_attention.softmax_offset", tensor = "sinks",
            size = n
      }
      delta.use @vector with trained = "pre_mlp_layernorm.weight",
          tensor = "post_attention_layernorm.weight", size = H
      delta.use @matrix with trained = "mlp.router.weight",
          tensor = "mlp.router.weight", out = E, in = H
      delta.use @vector with trained = "mlp.router.bias",
          tensor = "mlp.router.bias", size = E
      delta.scope trainer "mlp.experts." hf "mlp.experts." {
        delta.use @interleaved_experts
      }
    }
  }
}

// The trainer's gate rows come before its up rows; the checkpoint's columns
// alternate. Needs: E, I
delta.block @interleaved_experts {
  delta.experts E {
    %fc1 = delta.param grouped "linear_fc1.weight{expert}"
        | sequential "local_experts.{expert}.linear_fc1.weight"
        [2 * I, H] : storage
    %fc1_all = delta.unshard %fc1 dim 0 over etp sections [I, I]
    %gate, %up = delta.split %fc1_all dim 0 [I, I]
    %gate_up = delta.interleave %gate, %up dim 0
    %columns = delta.transpose %gate_up [1, 0]
    delta.tensor "gate_up_proj" = %columns as [E, H, 2 * I] stacked

    %b1 = delta.param grouped "linear_fc1.bias{expert}"
        | sequential "local_experts.{expert}.linear_fc1.bias"
        [2 * I] : storage
    %b1_all = delta.unshard %b1 dim 0 over etp sections [I, I]
    %gate_bias, %up_bias = delta.split %b1_all dim 0 [I, I]
    %gate_up_bias = delta.interleave %gate_bias, %up_bias dim 0
    delta.tensor "gate_up_proj_bias" = %gate_up_bias as [E, 2 * I] stacked

    %fc2 = delta.param grouped "linear_fc2.weight{expert}"
        | sequential "local_experts.{expert}.linear_fc2.weight"
        [H, I] : storage
    %fc2_all = delta.unshard %fc2 dim 1 over etp
    %down = delta.transpose %fc2_all [1, 0]
    delta.tensor "down_proj" = %down as [E, I, H] stacked

    %b2 = delta.param grouped "linear_fc2.bias{expert}"
        | sequential "local_experts.{expert}.linear_fc2.bias"
        [H] : storage
    delta.tensor "down_proj_bias" = %b2 as [E, H] stacked
  }
}
