// Multi-token prediction: layers beside the decoder's, on the last stage.

delta.import "blocks.mlir"

// How many there are: as the trainer says, else as the config says and the
// checkpoint has them. Needs: in_config (the config's number), first_mtp (name
// of a tensor of the first one)
delta.block @mtp_depth {
  delta.symbol mtp = select(mtp_layers ge 0, mtp_layers,
                            select(listed "{first_mtp}" else true,
                                   in_config, 0))
}

// The joint of a prediction layer: norms of the embedding and of the hidden
// state, and the projection of both. Needs: H, the four tensor names
delta.block @mtp_joint {
  delta.use @mtp_norms
  delta.use @column_parallel with trained = "eh_proj.weight", tensor = eh_proj,
      out = H, in = 2 * H
}

// The norms of a joint. Needs: H, enorm, hnorm, norm (tensor names)
delta.block @mtp_norms {
  delta.use @vector with trained = "enorm.weight", tensor = enorm, size = H
  delta.use @vector with trained = "hnorm.weight", tensor = hnorm, size = H
  delta.use @vector with trained = "final_layernorm.weight", tensor = norm,
      size = H
}

// A projection whose halves the checkpoint has the other way round, the hidden
// state before the embedding. Needs: H, eh_proj
delta.block @mtp_swapped_projection {
  %w = delta.param "eh_proj.weight" [H, 2 * H] : storage
  %all = delta.unshard %w dim 0 over tp
  %embedding, %hidden = delta.split %all dim 1 [H, H]
  %swapped = delta.concat %hidden, %embedding dim 1
  delta.tensor "{eh_proj}" = %swapped as [H, 2 * H]
}

//===----------------------------------------------------------------------===//
// The Qwen line: a joint at the top of the checkpoint, beside the layers
//===----------------------------------------------------------------------===//

// The config of Qwen3-Next does not tell: there the key list does.
delta.block @qwen_mtp_depth {
  delta.use @mtp_depth with first_mtp = "mtp.fc.weight",
      in_config = config "mtp_num_hidden_layers" | "num_nextn_predict_layers"
          else select(listed "mtp.fc.weight" else false, 1, 0)
  delta.symbol mtp_copies = ""
  delta.require mtp le 1, "the checkpoint has one joint for its MTP layers"
  delta.require mtp == 0 or
                not (config "mtp_use_dedicated_embeddings" else false),
                "embeddings of its own for the MTP layer are not mapped"
}

// Needs: mtp
delta.block @qwen_mtp_joint {
  delta.if mtp > 0 {
    delta.on last {
      delta.scope trainer "mtp.layers.0." hf "mtp." {
        delta.use @mtp_joint with enorm = "pre_fc_norm_embedding.weight",
            hnorm = "pre_fc_norm_hidden.weight", eh_proj = "fc.weight",
            norm = "norm.weight"
      }
    }
  } else {
    delta.passthrough all "mtp."
  }
}
