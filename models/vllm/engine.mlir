// What is vLLM's alone: the blocks that texts of both engines use, as vLLM has
// them. See ../engine.mlir.

delta.import "engine.mlir"

// vLLM gives the layers that are left over to the stages before the last, one
// each, backwards (VLLM_PP_LAYER_PARTITION is `rollout.pp_layout`). Needs:
// layers
delta.block @pipeline {
  delta.symbol left_over = layers mod pp
  delta.decoder layers per_stage (layers - left_over) / pp
      + select(stage ge pp - 1 - left_over and stage lt pp - 1, 1, 0)
}

// How vLLM calls what SGLang calls otherwise: where the experts' parameters lie
// in their module, the attention of layers in models with two kinds of mixer,
// the Mamba mixer of Falcon-H1, the fused projection of the vision tower, the
// two down projections of latent attention.
delta.block @engine_names {
  delta.symbol routed = "routed_experts."
  delta.symbol beside = "self_attn."
  delta.symbol mixer = "mamba.mamba."
  delta.symbol tower_qkv = "attn.qkv"
  delta.symbol joint = "fused_qkv_a_proj"
}

// Experts may be dealt out unevenly. Round robin is taken for models with
// groups of experts alone; for others vLLM silently deals them out in order.
// Needs: expert_groups, has_shared
delta.block @expert_rules {
  delta.require expert_placement ne "round_robin" or expert_groups > 1,
                "vLLM deals out experts in their order if they have no groups"
}

// Data-parallel ranks with expert parallelism may hold shared experts whole,
// as the all-to-all backend says, of which model.json knows nothing.
delta.block @shared_expert_rules {
  delta.require ep == 1 or tp == 1 or dp == 1,
                "whether tp splits shared experts depends on the backend"
}

// Needs: held, tensor, size, centered (around zero: vLLM adds one as it
// computes)
delta.block @norm {
  delta.use @held_vector
}

// Embedding, last norm and head. A tied head is the embedding's storage; with
// pipeline stages the last one has the embedding too. Needs: the names on both
// sides, tied, rows, V, H, centered
delta.block @ends {
  delta.on first {
    %w = delta.param "{held_embed}" [rows, H] : storage
    %all = delta.unshard %w dim 0 over tp
    %table = delta.take %all dim 0 first V because "vocabulary padding"
    delta.tensor "{embed}" = %table as [V, H]
    delta.if tied and pp > 1 {
      delta.on last {
        delta.copy "{held_embed}" of %w
      }
    }
  }
  delta.on last {
    delta.use @norm with held = held_norm, tensor = last_norm, size = H
    delta.if not tied {
      delta.use @vocabulary with held = held_head, tensor = head
    }
  }
}

// A gated MLP. Needs: F, H
delta.block @dense_mlp {
  %w = delta.param "gate_up_proj.weight" [2 * F, H] : storage
  %all = delta.unshard %w dim 0 over tp sections [F, F]
  %gate_rows, %up_rows = delta.split %all dim 0 [F, F]
  delta.tensor "gate_proj.weight" = %gate_rows as [F, H]
  delta.tensor "up_proj.weight" = %up_rows as [F, H]
  delta.use @row with held = "down_proj.weight", tensor = "down_proj.weight",
      out = H, in = F
}

// Without a gate. Needs: F, H
delta.block @plain_mlp {
  delta.use @column with held = "up_proj.weight", tensor = "up_proj.weight",
      out = F, in = H
  delta.use @row with held = "down_proj.weight", tensor = "down_proj.weight",
      out = H, in = F
}

// What latent attention multiplies with are views of its parameters.
delta.block @absorbed_projections {
}

delta.block @unfilled_head_norms {
}

delta.block @vision_rules {
}

// Needs: positions, Hv
delta.block @vision_positions {
  delta.use @held_matrix with held = "pos_embed.weight",
      tensor = "pos_embed.weight", out = positions, in = Hv
}
