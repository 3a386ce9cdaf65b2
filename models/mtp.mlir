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
  delta.use @vector with trained = "enorm.weight", tensor = enorm, size = H
  delta.use @vector with trained = "hnorm.weight", tensor = hnorm, size = H
  delta.use @column_parallel with trained = "eh_proj.weight", tensor = eh_proj,
      out = H, in = 2 * H
  delta.use @vector with trained = "final_layernorm.weight", tensor = norm,
      size = H
}
