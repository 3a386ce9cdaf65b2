// Parts of a decoder that most families share, with the checkpoint's names of
// Llama. See blocks.mlir for what a block is.

delta.import "blocks.mlir"

//===----------------------------------------------------------------------===//
// Embedding, final norm and head. Needs: @sizes
//===----------------------------------------------------------------------===//

delta.block @llama_ends {
  delta.use @embedding_and_head with embed = "model.embed_tokens.weight",
      head = "lm_head.weight"
  delta.use @llama_final_norm
}

delta.block @llama_final_norm {
  delta.on last {
    delta.use @vector with trained = "decoder.final_layernorm.weight",
        tensor = "model.norm.weight", size = H
  }
}

//===----------------------------------------------------------------------===//
// Parts of a layer, inside its scope. Need: @sizes, @attention_sizes
//===----------------------------------------------------------------------===//

// The norm before the attention, and the attention. Needs: qkv_bias,
// output_bias, head_norms (whether queries and keys have a norm a head)
delta.block @llama_attention {
  delta.use @fused_norm with
      fused = "self_attention.linear_qkv.layer_norm_weight",
      alone = "input_layernorm.weight", tensor = "input_layernorm.weight"
  delta.scope trainer "self_attention." hf "self_attn." {
    delta.use @gqa
    delta.if qkv_bias {
      delta.use @gqa_bias
    }
    delta.if head_norms {
      delta.use @vector with trained = "q_layernorm.weight",
          tensor = "q_norm.weight", size = d
      delta.use @vector with trained = "k_layernorm.weight",
          tensor = "k_norm.weight", size = d
    }
    delta.use @row_parallel with trained = "linear_proj.weight",
        tensor = "o_proj.weight", out = H, in = n * d
    delta.if output_bias {
      delta.use @vector with trained = "linear_proj.bias",
          tensor = "o_proj.bias", size = H
    }
  }
}

// The norm before the MLP, and the MLP. Needs: F, mlp_bias
delta.block @llama_mlp {
  delta.use @fused_norm with fused = "mlp.linear_fc1.layer_norm_weight",
      alone = "pre_mlp_layernorm.weight",
      tensor = "post_attention_layernorm.weight"
  delta.scope trainer "mlp." hf "mlp." {
    delta.use @gated_mlp
    delta.if mlp_bias {
      delta.use @gated_mlp_bias
    }
  }
}

// The norm before the experts, which no trainer fuses, and the router. Needs:
// E, moe (the checkpoint's name of the part)
delta.block @router {
  delta.require E > 0, "a router has experts to choose from"
  delta.use @vector with trained = "pre_mlp_layernorm.weight",
      tensor = "post_attention_layernorm.weight", size = H
  delta.use @matrix with trained = "mlp.router.weight",
      tensor = "{moe}.gate.weight", out = E, in = H
}

// What balances the experts: no gradient, and float32 in every trainer. Needs:
// E, tensor
delta.block @expert_bias {
  %bias = delta.param "mlp.router.expert_bias" [E] : f32
  delta.tensor "{tensor}" = %bias as [E]
}
