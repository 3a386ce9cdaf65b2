// A family for tests: every cast, over shards, experts, stages and a stack.
// Values of the trainer's type (`storage`) are cast or not as that type is; of
// alternatives the checkpoint's counts.

delta.import "decoder.mlir"

// A norm that the trainer centers at zero. Needs: H, trained, tensor
delta.block @casts_norm {
  %w = delta.param "{trained}" [H] : storage
  %scale = delta.add_scalar %w 1
  delta.tensor "{tensor}" = %scale as [H] : storage | f32 | bf16
}

// The same, in fp32 or bf16 whatever the checkpoint has. Needs: H
delta.block @casts_fixed_norms {
  %w = delta.param "wide_norm.weight" [H] : storage
  %wide = delta.add_scalar %w 1
  delta.tensor "wide_norm.weight" = %wide as [H] : f32
  %v = delta.param "narrow_norm.weight" [H] : f32
  %sum = delta.add_scalar %v 1
  %narrow = delta.cast %sum : storage
  delta.tensor "narrow_norm.weight" = %narrow as [H]
}

// Rows cut over tp, and two tensors that take turns. Needs: H, F
delta.block @casts_matrices {
  %w = delta.param "wide.weight" [F, H] : storage
  %all = delta.unshard %w dim 0 over tp
  delta.tensor "wide.weight" = %all as [F, H] : f32
  %v = delta.param "narrow.weight" [F, 2, H] : f32
  %rows = delta.unshard %v dim 0 over tp
  %even, %odd = delta.split %rows dim 1 [1, 1]
  %half = delta.cast %odd : storage
  delta.tensor "even.weight" = %even as [F, H]
  delta.tensor "odd.weight" = %half as [F, H]
}

// Needs: E, I, H
delta.block @casts_experts {
  delta.experts E {
    %w = delta.param "experts.weight{expert}" [2 * I, H] : storage
    %all = delta.unshard %w dim 0 over etp sections [I, I]
    %columns = delta.transpose %all [1, 0]
    delta.tensor "experts.gate_up" = %columns as [E, H, 2 * I] stacked : f32
    %s = delta.param "experts.scale{expert}" [I] : f32
    %scale = delta.unshard %s dim 0 over etp
    delta.tensor "experts.{expert}.scale" = %scale as [I] : storage
  }
}

delta.family @casts model_types ["casts"] architectures [] {
  delta.use @sizes
  delta.symbol F = config "intermediate_size"
  delta.symbol E = config "num_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.symbol L = config "num_hidden_layers"
  delta.symbol mtp = config "num_nextn_predict_layers" else 0
  delta.symbol mtp_copies = ""
  delta.decoder L

  delta.use @llama_ends
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @casts_norm with trained = "norm.weight", tensor = "norm.weight"
      delta.use @casts_fixed_norms
      delta.use @casts_matrices
      delta.passthrough "inv_freq" [4] : f32 if_listed
    }
  }
  delta.layers where layer mod 2 == 1 {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @casts_experts
    }
  }
  delta.stack mtp on last {
    delta.scope trainer "mtp.layers.{layer}." hf "mtp.layers.{layer}." {
      delta.use @casts_norm with trained = "norm.weight", tensor = "norm.weight"
      delta.use @casts_matrices
      delta.use @casts_experts
    }
  }
  delta.passthrough all "rotary."
}
