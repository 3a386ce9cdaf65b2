// Building blocks that families share. A block is instantiated by `delta.use`
// in the scope of its user: names are completed by the surrounding scopes,
// symbols are looked up there, `with` binds more of them.
//
// Symbols every family has: tp, cp, dp, ep, etp, edp, pp, vpp (sizes of the
// axes), vocab_multiple, mtp_layers (-1: as the config says). Symbols that a
// block needs stand above it.

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

// Hidden size and vocabulary. The trainer pads the vocabulary so that every
// rank of tp holds the same number of rows.
delta.block @sizes {
  delta.symbol H = config "hidden_size"
  delta.symbol V = config "vocab_size"
  delta.symbol rows = select(vocab_multiple == 0, V,
                             round_up(V, max(vocab_multiple, 1) * tp))
  delta.symbol tied = config "tie_word_embeddings" else false
}

// Heads, key/value groups and head size of the attention.
delta.block @attention_sizes {
  delta.symbol n = config "num_attention_heads"
  delta.symbol g = config "num_key_value_heads" else n
  delta.symbol d = config "head_dim" | "attention_head_dim" else H / n
  delta.require n mod tp == 0, "attention heads are split over tp"
  delta.require g mod tp == 0 or tp mod g == 0,
                "key/value heads and tp must divide one another"
  delta.require n mod g == 0, "every key/value head serves equally many heads"
}

//===----------------------------------------------------------------------===//
// Plain parameters. Needs: trained, tensor (the two names)
//===----------------------------------------------------------------------===//

// Whole on every rank. Needs: size
delta.block @vector {
  %w = delta.param "{trained}" [size] : storage
  delta.tensor "{tensor}" = %w as [size]
}

// Whole on every rank. Needs: out, in
delta.block @matrix {
  %w = delta.param "{trained}" [out, in] : storage
  delta.tensor "{tensor}" = %w as [out, in]
}

// A norm that the trainer fuses into the projection behind it; without fusion
// it has a name of its own. Needs: fused, alone (two names of one parameter)
delta.block @fused_norm {
  %w = delta.param "{fused}" | "{alone}" [H] : storage
  delta.tensor "{tensor}" = %w as [H]
}

// A vector split over tp. Needs: size
delta.block @split_vector {
  %w = delta.param "{trained}" [size] : storage
  %all = delta.unshard %w dim 0 over tp
  delta.tensor "{tensor}" = %all as [size]
}

// Output features split over tp. Needs: out, in
delta.block @column_parallel {
  %w = delta.param "{trained}" [out, in] : storage
  %all = delta.unshard %w dim 0 over tp
  delta.tensor "{tensor}" = %all as [out, in]
}

// Input features split over tp. Needs: out, in
delta.block @row_parallel {
  %w = delta.param "{trained}" [out, in] : storage
  %all = delta.unshard %w dim 1 over tp
  delta.tensor "{tensor}" = %all as [out, in]
}

//===----------------------------------------------------------------------===//
// Embedding and head. Needs: @sizes, mtp (multi-token-prediction layers),
// mtp_copies, embed, head (the two tensor names)
//===----------------------------------------------------------------------===//

delta.block @without_mtp {
  delta.symbol mtp = 0
  delta.symbol mtp_copies = ""
}

// A critic's value, or a reward model's scores: whole on every rank.
delta.block @score_head {
  delta.on last {
    delta.use @matrix with trained = "output_layer.weight",
        tensor = "score.weight", out = scores, in = H
  }
}

// A tied model has one table. The trainer keeps a copy of it on the last stage
// for the output, or for multi-token prediction; the checkpoint may list the
// head as a second name of it. A score or value head takes the LM head's place.
// mtp_copies: where the checkpoint repeats both for its prediction layer, or "".
delta.block @embedding_and_head {
  delta.on first {
    %w = delta.param "embedding.word_embeddings.weight" [rows, H] : storage
    %all = delta.unshard %w dim 0 over tp
    %table = delta.take %all dim 0 first V because "vocabulary padding"
    delta.tensor "{embed}" = %table as [V, H]
    delta.if mtp > 0 and mtp_copies ne "" {
      delta.if listed "{mtp_copies}embed_tokens.weight" else true {
        delta.tensor "{mtp_copies}embed_tokens.weight" = %table as [V, H]
      }
    }
    delta.if tied and scores == 0 {
      delta.tensor "{head}" = %table as [V, H] if_listed
      delta.if pp > 1 and mtp == 0 {
        delta.on last {
          delta.copy "output_layer.weight" of %w
        }
      }
    }
    delta.if pp > 1 and mtp > 0 {
      delta.on last {
        delta.copy "embedding.word_embeddings.weight" of %w
      }
    }
  }
  delta.if scores > 0 {
    delta.use @score_head
    delta.passthrough "{head}" [V, H] : storage if_listed
  } else {
    delta.if not tied {
      delta.on last {
        %w = delta.param "output_layer.weight" [rows, H] : storage
        %all = delta.unshard %w dim 0 over tp
        %head = delta.take %all dim 0 first V because "vocabulary padding"
        delta.tensor "{head}" = %head as [V, H]
        delta.if mtp > 0 and mtp_copies ne "" {
          delta.if listed "{mtp_copies}shared_head.head.weight" else true {
            delta.tensor "{mtp_copies}shared_head.head.weight" = %head as [V, H]
          }
        }
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Grouped-query attention. Needs: @attention_sizes
//===----------------------------------------------------------------------===//

// The trainer stores, for each key/value head, its n/g query heads, the key
// and the value one after the other, and cuts the rows evenly over tp, where
// need be in the middle of a head.
delta.block @gqa {
  delta.require not (config "attn_output_gate" else false),
                "gates beside the queries are not mapped by this block"
  %w = delta.param "linear_qkv.weight" [(n + 2 * g) * d, H] : storage
  %all = delta.unshard %w dim 0 over tp
  %groups = delta.reshape %all [g, n / g + 2, d, H]
  %q, %k, %v = delta.split %groups dim 1 [n / g, 1, 1]
  delta.tensor "q_proj.weight" = %q as [n * d, H]
  delta.tensor "k_proj.weight" = %k as [g * d, H]
  delta.tensor "v_proj.weight" = %v as [g * d, H]
}

// As above, with a gate for each query head, which the trainer stores after the
// query heads of the group and the checkpoint after each of them.
delta.block @gated_gqa {
  %w = delta.param "linear_qkv.weight" [(2 * n + 2 * g) * d, H] : storage
  %all = delta.unshard %w dim 0 over tp
  %groups = delta.reshape %all [g, 2 * (n / g) + 2, d, H]
  %q, %gate, %k, %v = delta.split %groups dim 1 [n / g, n / g, 1, 1]
  %heads = delta.concat %q, %gate dim 2
  delta.tensor "q_proj.weight" = %heads as [2 * n * d, H]
  delta.tensor "k_proj.weight" = %k as [g * d, H]
  delta.tensor "v_proj.weight" = %v as [g * d, H]
}

delta.block @gqa_bias {
  %w = delta.param "linear_qkv.bias" [(n + 2 * g) * d] : storage
  %all = delta.unshard %w dim 0 over tp
  %groups = delta.reshape %all [g, n / g + 2, d]
  %q, %k, %v = delta.split %groups dim 1 [n / g, 1, 1]
  delta.tensor "q_proj.bias" = %q as [n * d]
  delta.tensor "k_proj.bias" = %k as [g * d]
  delta.tensor "v_proj.bias" = %v as [g * d]
}

//===----------------------------------------------------------------------===//
// Gated MLP and experts
//===----------------------------------------------------------------------===//

// A rank of tp holds its rows of the gate, then its rows of the up projection.
// Needs: F (rows of each)
delta.block @gated_mlp {
  %w = delta.param "linear_fc1.weight" [2 * F, H] : storage
  %all = delta.unshard %w dim 0 over tp sections [F, F]
  %gate, %up = delta.split %all dim 0 [F, F]
  delta.tensor "gate_proj.weight" = %gate as [F, H]
  delta.tensor "up_proj.weight" = %up as [F, H]
  delta.use @row_parallel with trained = "linear_fc2.weight",
      tensor = "down_proj.weight", out = H, in = F
}

delta.block @gated_mlp_bias {
  %w = delta.param "linear_fc1.bias" [2 * F] : storage
  %all = delta.unshard %w dim 0 over tp sections [F, F]
  %gate, %up = delta.split %all dim 0 [F, F]
  delta.tensor "gate_proj.bias" = %gate as [F]
  delta.tensor "up_proj.bias" = %up as [F]
  delta.use @vector with trained = "linear_fc2.bias",
      tensor = "down_proj.bias", size = H
}

// Experts with a gate, one tensor an expert. The trainer keeps them one by one
// or in a grouped GEMM (`trainer.experts`). Needs: E, I
delta.block @gated_experts {
  delta.use @named_gated_experts with gate = "gate_proj", up = "up_proj",
      down = "down_proj"
}

// The same under other names in the checkpoint. Needs: gate, up, down, E, I
delta.block @named_gated_experts {
  delta.experts E {
    %fc1 = delta.param grouped "linear_fc1.weight{expert}"
        | sequential "local_experts.{expert}.linear_fc1.weight"
        [2 * I, H] : storage
    %all = delta.unshard %fc1 dim 0 over etp sections [I, I]
    %gate, %up = delta.split %all dim 0 [I, I]
    delta.tensor "{expert}.{gate}.weight" = %gate as [I, H]
    delta.tensor "{expert}.{up}.weight" = %up as [I, H]

    %fc2 = delta.param grouped "linear_fc2.weight{expert}"
        | sequential "local_experts.{expert}.linear_fc2.weight"
        [H, I] : storage
    %down = delta.unshard %fc2 dim 1 over etp
    delta.tensor "{expert}.{down}.weight" = %down as [H, I]
  }
}

// Experts with a gate, all in one tensor, the gates before the up projections.
// Needs: E, I, transposed (input features before output features)
delta.block @stacked_experts {
  delta.experts E {
    %fc1 = delta.param grouped "linear_fc1.weight{expert}"
        | sequential "local_experts.{expert}.linear_fc1.weight"
        [2 * I, H] : storage
    %gate_up = delta.unshard %fc1 dim 0 over etp sections [I, I]
    %fc2 = delta.param grouped "linear_fc2.weight{expert}"
        | sequential "local_experts.{expert}.linear_fc2.weight"
        [H, I] : storage
    %down = delta.unshard %fc2 dim 1 over etp
    delta.if transposed {
      %in_out = delta.transpose %gate_up [1, 0]
      delta.tensor "gate_up_proj" = %in_out as [E, H, 2 * I] stacked
      %out_in = delta.transpose %down [1, 0]
      delta.tensor "down_proj" = %out_in as [E, I, H] stacked
    } else {
      delta.tensor "gate_up_proj" = %gate_up as [E, 2 * I, H] stacked
      delta.tensor "down_proj" = %down as [E, H, I] stacked
    }
  }
}

// Experts without a gate, one tensor an expert. Needs: E, I, X (input size)
delta.block @plain_experts {
  delta.experts E {
    %fc1 = delta.param grouped "linear_fc1.weight{expert}"
        | sequential "local_experts.{expert}.linear_fc1.weight"
        [I, X] : storage
    %up = delta.unshard %fc1 dim 0 over etp
    delta.tensor "{expert}.up_proj.weight" = %up as [I, X]

    %fc2 = delta.param grouped "linear_fc2.weight{expert}"
        | sequential "local_experts.{expert}.linear_fc2.weight"
        [X, I] : storage
    %down = delta.unshard %fc2 dim 1 over etp
    delta.tensor "{expert}.down_proj.weight" = %down as [X, I]
  }
}

//===----------------------------------------------------------------------===//
// Mamba 2 mixer. Needs: mixer_heads, mixer_head_dim, groups, state, kernel,
// conv_bias, mixer_norm (whether there is a norm before the output)
//===----------------------------------------------------------------------===//

// The input projection stacks z, x, B, C and dt; the convolution x, B and C. A
// rank of tp holds its part of each section. Groups are never replicated.
delta.block @mamba2 {
  delta.symbol D = mixer_heads * mixer_head_dim
  delta.symbol S = groups * state
  delta.require mixer_heads mod tp == 0, "Mamba heads are split over tp"
  delta.require groups mod tp == 0, "Mamba groups are never replicated over tp"

  %in = delta.param "in_proj.weight" [2 * D + 2 * S + mixer_heads, H] : storage
  %zxbcdt = delta.unshard %in dim 0 over tp sections [D, D, S, S, mixer_heads]
  delta.tensor "in_proj.weight" = %zxbcdt as [2 * D + 2 * S + mixer_heads, H]

  %conv = delta.param "conv1d_weight" | "conv1d.weight"
      [D + 2 * S, 1, kernel] : storage
  %xbc = delta.unshard %conv dim 0 over tp sections [D, S, S]
  delta.tensor "conv1d.weight" = %xbc as [D + 2 * S, 1, kernel]
  delta.if conv_bias {
    %bias = delta.param "conv1d_bias" | "conv1d.bias" [D + 2 * S] : storage
    %b = delta.unshard %bias dim 0 over tp sections [D, S, S]
    delta.tensor "conv1d.bias" = %b as [D + 2 * S]
  }

  delta.use @split_vector with trained = "A_log", tensor = "A_log",
      size = mixer_heads
  delta.use @split_vector with trained = "D", tensor = "D", size = mixer_heads
  delta.use @split_vector with trained = "dt_bias", tensor = "dt_bias",
      size = mixer_heads
  delta.if mixer_norm {
    delta.use @split_vector with trained = "norm.weight",
        tensor = "norm.weight", size = D
  }
  delta.use @row_parallel with trained = "out_proj.weight",
      tensor = "out_proj.weight", out = H, in = D
}
