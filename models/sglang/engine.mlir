// What is SGLang's alone: the blocks that texts of both engines use, as SGLang
// has them. See ../engine.mlir. With attention DP the ranks of a stage form
// groups: tp is the size of one, and what does not belong to the attention is
// shared by all ranks of the stage.

delta.import "engine.mlir"

// The last stages have the layers that are left over, one each
// (SGLANG_PP_LAYER_PARTITION is `rollout.pp_layout`). Needs: layers
delta.block @pipeline {
  delta.symbol left_over = layers mod pp
  delta.decoder layers per_stage (layers - left_over) / pp
      + select(stage ge pp - left_over, 1, 0)
}

// How SGLang calls what vLLM calls otherwise.
delta.block @engine_names {
  delta.symbol routed = ""
  delta.symbol beside = ""
  delta.symbol mixer = "mamba."
  delta.symbol tower_qkv = "attn.qkv_proj"
  delta.symbol joint = "fused_qkv_a_proj_with_mqa"
}

// Needs: E, expert_groups, has_shared (that SGLang can fuse)
delta.block @expert_rules {
  delta.require (E + redundant_experts) mod ep == 0,
                "every rank of ep has equally many experts"
  delta.require has_shared or not fuse_shared_experts,
                "the model has no shared expert that SGLang fuses"
}

delta.block @shared_expert_rules {
}

// What keeps state beside its weights is not known to follow the groups of
// attention DP.
delta.block @one_attention_group {
  delta.require attention_dp == 1,
                "what attention DP does with these layers is not known"
}

// Needs: held, tensor, size, centered (around zero: SGLang keeps a copy with
// one added)
delta.block @norm {
  %w = delta.param "{held}" [size] : storage
  delta.tensor "{tensor}" = %w as [size]
  delta.if centered {
    delta.refresh "refresh_gemma_weight" of %w
  }
}

// Embedding, last norm and head, which all ranks of the stage share. A tied
// head is the embedding; with pipeline stages the last one has it once more, as
// a head or, in some models, as an embedding. Needs: the names on both sides,
// tied, rows, V, H, centered
delta.block @ends {
  delta.require not tied or attention_dp == 1,
                "how attention groups share a tied head is not known"
  delta.on first {
    %w = delta.param "{held_embed}" [rows, H] : storage
    %all = delta.unshard %w dim 0 over tp
    %table = delta.take %all dim 0 first V because "vocabulary padding"
    delta.tensor "{embed}" = %table as [V, H]
  }
  delta.on last {
    delta.if tied and pp > 1 {
      %w = delta.param "{held_head}" | "{held_embed}" [rows, H] : storage
      %all = delta.unshard %w dim 0 over tp
      %table = delta.take %all dim 0 first V because "vocabulary padding"
      delta.tensor "{embed}" = %table as [V, H] also
    }
    delta.use @norm with held = held_norm, tensor = last_norm, size = H
    delta.if not tied {
      %w = delta.param "{held_head}" [rows, H] : storage
      %all = delta.unshard %w dim 0 over stage
      %table = delta.take %all dim 0 first V because "vocabulary padding"
      delta.tensor "{head}" = %table as [V, H]
    }
  }
}

// Input features split over all ranks of a stage. Needs: held, tensor, out, in
delta.block @row_of_stage {
  %w = delta.param "{held}" [out, in] : storage
  %all = delta.unshard %w dim 1 over stage
  delta.tensor "{tensor}" = %all as [out, in]
}

// A gated MLP. Needs: F, H
delta.block @dense_mlp {
  %w = delta.param "gate_up_proj.weight" [2 * F, H] : storage
  %all = delta.unshard %w dim 0 over stage sections [F, F]
  %gate_rows, %up_rows = delta.split %all dim 0 [F, F]
  delta.tensor "gate_proj.weight" = %gate_rows as [F, H]
  delta.tensor "up_proj.weight" = %up_rows as [F, H]
  delta.use @row_of_stage with held = "down_proj.weight",
      tensor = "down_proj.weight", out = H, in = F
}

// Without a gate. Needs: F, H
delta.block @plain_mlp {
  %w = delta.param "up_proj.weight" [F, H] : storage
  %all = delta.unshard %w dim 0 over stage
  delta.tensor "up_proj.weight" = %all as [F, H]
  delta.use @row_of_stage with held = "down_proj.weight",
      tensor = "down_proj.weight", out = H, in = F
}

// SGLang multiplies queries and outputs with the two parts of kv_b_proj, in
// copies of its own. Needs: @mla_sizes
delta.block @absorbed_projections {
  delta.symbol nope = qk - rope
  %kc = delta.param "w_kc" [n, kv_rank, nope] : storage viewed [0, 2, 1]
  %kcs = delta.unshard %kc dim 0 over tp
  %keys = delta.transpose %kcs [0, 2, 1]
  %vc = delta.param "w_vc" [n, v, kv_rank] : storage viewed [0, 2, 1]
  %values = delta.unshard %vc dim 0 over tp
  %both = delta.concat %keys, %values dim 1
  delta.tensor "kv_b_proj.weight" = %both as [n * nope_v, kv_rank] also
}

// Norms that the engine has and no checkpoint fills. Needs: d
delta.block @unfilled_head_norms {
  %q = delta.param "q_norm.weight" [d] : storage
  delta.drop %q because "no checkpoint has it"
  %k = delta.param "k_norm.weight" [d] : storage
  delta.drop %k because "no checkpoint has it"
}

delta.block @vision_rules {
  delta.use @one_attention_group
}

// A table like that of the vocabulary. Needs: positions, Hv
delta.block @vision_positions {
  delta.symbol position_rows = round_up(positions, 64)
  %w = delta.param "pos_embed.weight" [position_rows, Hv] : storage
  %all = delta.unshard %w dim 0 over tp
  %table = delta.take %all dim 0 first positions because "padding of the table"
  delta.tensor "pos_embed.weight" = %table as [positions, Hv]
}

// Gemma 3: the embedding is whole on every rank, without padding, and is the
// head. Needs: held_embed, embed, held_norm, last_norm
delta.block @whole_embedding_ends {
  delta.require tied, "the head is the embedding"
  delta.require attention_dp == 1,
                "how attention groups share a tied head is not known"
  delta.require pp == 1, "stages of this model are not known"
  delta.on first {
    delta.use @held_matrix with held = held_embed, tensor = embed, out = V,
        in = H
  }
  delta.on last {
    delta.use @norm with held = held_norm, tensor = last_norm, size = H
  }
}
