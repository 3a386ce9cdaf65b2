// What is vLLM's alone.

delta.import "engine.mlir"

// vLLM gives the layers that are left over to the stages before the last, one
// each, backwards (VLLM_PP_LAYER_PARTITION is `rollout.pp_layout`).
delta.block @vllm_pipeline {
  delta.symbol L = config "num_hidden_layers"
  delta.symbol over = L mod pp
  delta.decoder L per_stage (L - over) / pp
      + select(stage ge pp - 1 - over and stage lt pp - 1, 1, 0)
}

// Embedding, last norm and head. A tied head is the embedding's storage; with
// pipeline stages the last one has a copy of it. Needs: inner, outer (how the
// names begin on both sides)
delta.block @vllm_ends {
  delta.on first {
    %w = delta.param "{inner}embed_tokens.weight" [rows, H] : storage
    %all = delta.unshard %w dim 0 over tp
    %table = delta.take %all dim 0 first V because "vocabulary padding"
    delta.tensor "{inner}embed_tokens.weight" = %table as [V, H]
    delta.if tied and pp > 1 {
      delta.on last {
        delta.copy "{outer}lm_head.weight" of %w
      }
    }
  }
  delta.on last {
    delta.use @held_vector with held = "{inner}norm.weight",
        tensor = "{inner}norm.weight", size = H
    delta.if not tied {
      delta.use @vocabulary with held = "{outer}lm_head.weight",
          tensor = "lm_head.weight"
    }
  }
}
