// What an engine holds of forms.mlir: x + 1, -exp(x), other types.

delta.import "vllm/engine.mlir"
delta.import "engine_decoder.mlir"

// Needs: H, F
delta.block @held_forms {
  %a = delta.param "narrow_then_wide" [F, H] : f32
  %a_all = delta.unshard %a dim 0 over tp
  delta.tensor "narrow_then_wide" = %a_all as [F, H]
  %b = delta.param "wide_then_narrow" [F, H] : bf16
  %b_all = delta.unshard %b dim 0 over tp
  delta.tensor "wide_then_narrow" = %b_all as [F, H]
  %c = delta.param "decay" [F] : f32 holds neg_exp
  %c_all = delta.unshard %c dim 0 over tp
  delta.tensor "decay" = %c_all as [F]
  %d = delta.param "wide_decay" [F] : storage holds neg_exp
  %d_all = delta.unshard %d dim 0 over tp
  delta.tensor "wide_decay" = %d_all as [F]
  %e = delta.param "more" [F] : storage holds add_one
  %e_all = delta.unshard %e dim 0 over tp
  delta.tensor "more" = %e_all as [F]
  %f = delta.param "twice_more" [F] : f32 holds add_one
  %f_all = delta.unshard %f dim 0 over tp
  delta.tensor "twice_more" = %f_all as [F]
  %g = delta.param "narrow_more" [F] : f32 holds add_one
  %g_all = delta.unshard %g dim 0 over tp
  delta.tensor "narrow_more" = %g_all as [F]
}

delta.family @forms_engine engine "vllm" versions ["0.33"]
    model_types ["forms"] architectures [] {
  delta.use @sizes
  delta.symbol F = config "intermediate_size"
  delta.symbol layers = config "num_hidden_layers"
  delta.symbol centered = 0
  delta.use @pipeline
  delta.use @plain_names
  delta.use @plain_ends
  delta.layers where true {
    delta.scope engine "model.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @held_forms
    }
  }
}
