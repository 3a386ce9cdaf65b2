// A family for tests: values that are cast twice on their way to an engine, and
// that it keeps in another form. See forms_engine.mlir.

delta.import "decoder.mlir"

// Needs: H, F
delta.block @forms_layer {
  %a = delta.param "narrow_then_wide" [F, H] : f32
  %a_all = delta.unshard %a dim 0 over tp
  delta.tensor "narrow_then_wide" = %a_all as [F, H] : bf16
  %b = delta.param "wide_then_narrow" [F, H] : storage
  %b_all = delta.unshard %b dim 0 over tp
  delta.tensor "wide_then_narrow" = %b_all as [F, H] : f32
  %c = delta.param "decay" [F] : f32
  %c_all = delta.unshard %c dim 0 over tp
  delta.tensor "decay" = %c_all as [F] : bf16
  %d = delta.param "wide_decay" [F] : storage
  %d_all = delta.unshard %d dim 0 over tp
  delta.tensor "wide_decay" = %d_all as [F] : f32
  %e = delta.param "more" [F] : storage
  %e_all = delta.unshard %e dim 0 over tp
  delta.tensor "more" = %e_all as [F]
  %f = delta.param "twice_more" [F] : storage
  %f_all = delta.unshard %f dim 0 over tp
  %f_more = delta.add_scalar %f_all 1
  delta.tensor "twice_more" = %f_more as [F] : f32
  %g = delta.param "narrow_more" [F] : f32
  %g_all = delta.unshard %g dim 0 over tp
  %g_more = delta.add_scalar %g_all 1
  delta.tensor "narrow_more" = %g_more as [F] : bf16
}

delta.family @forms model_types ["forms"] architectures [] {
  delta.use @sizes
  delta.symbol F = config "intermediate_size"
  delta.symbol L = config "num_hidden_layers"
  delta.symbol mtp = 0
  delta.symbol mtp_copies = ""
  delta.decoder L
  delta.use @llama_ends
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @forms_layer
    }
  }
}
