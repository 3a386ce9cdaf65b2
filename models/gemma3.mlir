// Gemma 3 with images: the text of gemma3_text.mlir, a SigLIP vision tower and
// a projector on the first stage. The published configs leave out what has its
// usual size. Checkpoints call the tower with or without the name of its
// wrapper; the key list tells.

delta.import "gemma.mlir"

delta.family @gemma3 model_types ["gemma3"]
    architectures ["Gemma3ForConditionalGeneration"] {
  delta.config_part "text_config"
  delta.use @without_mtp
  delta.symbol H = config "hidden_size" else 2304
  delta.symbol V = config "vocab_size" else 262208
  delta.use @padded_vocabulary
  delta.symbol n = config "num_attention_heads" else 8
  delta.symbol g = config "num_key_value_heads" else 4
  delta.symbol d = config "head_dim" else 256
  delta.use @heads_over_tp
  delta.decoder config "num_hidden_layers" else 26

  delta.scope trainer "language_model." hf "language_model." {
    delta.use @gemma_ends with model = "model."
    delta.layers where true {
      delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
        delta.use @gemma_layer with
            F = config "intermediate_size" else 9216, head_norms = true
      }
    }
  }
  delta.symbol wrapped =
      listed "vision_tower.vision_model.post_layernorm.weight" else false
  delta.scope trainer "vision_tower." hf "vision_tower." {
    delta.if wrapped {
      delta.scope trainer "" hf "vision_model." {
        delta.use @siglip
      }
    } else {
      delta.use @siglip
    }
  }
  delta.scope trainer "multi_modal_projector." hf "multi_modal_projector." {
    delta.use @gemma_projector with
        C = config "vision_config.hidden_size" else 1152
  }
}

// The trainer projects by rows, the checkpoint by columns. Needs: C (size of
// the tower's output)
delta.block @gemma_projector {
  delta.on first {
    delta.use @vector with trained = "mm_soft_embed_norm.weight",
        tensor = "mm_soft_emb_norm.weight", size = C
    %w = delta.param "proj.weight" [H, C] : storage
    %all = delta.unshard %w dim 0 over tp
    %columns = delta.transpose %all [1, 0]
    delta.tensor "mm_input_projection_weight" = %columns as [C, H]
  }
}

// The names are the same on both sides.
delta.block @siglip {
  delta.symbol C = config "vision_config.hidden_size" else 1152
  delta.symbol M = config "vision_config.intermediate_size" else 4304
  delta.symbol patch = config "vision_config.patch_size" else 14
  delta.symbol channels = config "vision_config.num_channels" else 3
  delta.symbol side = (config "vision_config.image_size" else 896) / patch
  delta.on first {
    %patches = delta.param "embeddings.patch_embedding.weight"
        [C, channels, patch, patch] : storage
    delta.tensor "embeddings.patch_embedding.weight" = %patches
        as [C, channels, patch, patch]
    delta.use @vector with trained = "embeddings.patch_embedding.bias",
        tensor = "embeddings.patch_embedding.bias", size = C
    delta.use @matrix with trained = "embeddings.position_embedding.weight",
        tensor = "embeddings.position_embedding.weight", out = side * side,
        in = C
    delta.use @siglip_norm with norm = "post_layernorm"
  }
  delta.stack config "vision_config.num_hidden_layers" else 27 on first {
    delta.scope trainer "encoder.layers.{layer}."
        hf "encoder.layers.{layer}." {
      delta.use @siglip_norm with norm = "layer_norm1"
      delta.use @siglip_norm with norm = "layer_norm2"
      delta.use @siglip_linear with linear = "self_attn.q_proj", out = C, in = C
      delta.use @siglip_linear with linear = "self_attn.k_proj", out = C, in = C
      delta.use @siglip_linear with linear = "self_attn.v_proj", out = C, in = C
      delta.use @siglip_linear with linear = "self_attn.out_proj", out = C,
          in = C
      delta.use @siglip_linear with linear = "mlp.fc1", out = M, in = C
      delta.use @siglip_linear with linear = "mlp.fc2", out = C, in = M
    }
  }
}

// Needs: norm, C
delta.block @siglip_norm {
  delta.use @vector with trained = "{norm}.weight", tensor = "{norm}.weight",
      size = C
  delta.use @vector with trained = "{norm}.bias", tensor = "{norm}.bias",
      size = C
}

// Needs: linear, out, in
delta.block @siglip_linear {
  delta.use @matrix with trained = "{linear}.weight",
      tensor = "{linear}.weight"
  delta.use @vector with trained = "{linear}.bias", tensor = "{linear}.bias",
      size = out
}
