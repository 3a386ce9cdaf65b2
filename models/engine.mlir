// Building blocks of the layouts of vLLM and SGLang, whose layers have one
// ancestry. A layout says how the parameters of an engine's ranks make up the
// tensors of the checkpoint. Names are completed by the scopes around a use; of
// two names `held` is the engine's and `tensor` the checkpoint's.
//
// Symbols every layout has, beside those of families: w13_order ("gate_up" or
// "up_gate"), moe_pad (rows of an expert on a rank are a multiple of it; 0: as
// they come), fuse_shared_experts, attention_dp, redundant_experts,
// expert_placement ("linear", "round_robin", "table"). tp is the size of the
// group that shares an attention layer, `stage` all ranks of a pipeline stage,
// etp and ep those of the experts.
//
// The two engines have a text each, <engine>/engine.mlir, with blocks of the
// same names: @pipeline, @ends, @norm, @dense_mlp ... Texts that both use,
// engine_*.mlir, are written in terms of these.

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

// Hidden size and vocabulary, which both engines pad to 64.
delta.block @engine_sizes {
  delta.symbol H = config "hidden_size"
  delta.symbol V = config "vocab_size"
  delta.symbol rows = round_up(V, 64)
  delta.symbol tied = config "tie_word_embeddings" else false
}

// Heads, key/value heads and head size of the attention.
delta.block @engine_attention_sizes {
  delta.symbol n = config "num_attention_heads"
  delta.symbol g = config "num_key_value_heads" else n
  delta.symbol d = config "head_dim" | "attention_head_dim" else H / n
  delta.use @engine_head_rules
}

// Needs: n, g
delta.block @engine_head_rules {
  delta.require n mod tp == 0, "attention heads are split over the ranks"
  delta.require g mod tp == 0 or tp mod g == 0,
                "key/value heads and ranks must divide one another"
}

// Keys of rollout that are about experts, for a model that has none.
delta.block @no_expert_rules {
  delta.require w13_order == "gate_up" and moe_pad == 0 and
                redundant_experts == 0 and expert_placement == "linear" and
                not fuse_shared_experts,
                "the model has no experts"
}

//===----------------------------------------------------------------------===//
// Layer classes
//===----------------------------------------------------------------------===//

// Whole on every rank. Needs: held, tensor, size
delta.block @held_vector {
  %w = delta.param "{held}" [size] : storage
  delta.tensor "{tensor}" = %w as [size]
}

// Whole on every rank. Needs: held, tensor, out, in
delta.block @held_matrix {
  %w = delta.param "{held}" [out, in] : storage
  delta.tensor "{tensor}" = %w as [out, in]
}

// What balances the experts is float32 in both engines. Needs: E
delta.block @held_expert_bias {
  %bias = delta.param "gate.e_score_correction_bias" [E] : f32
  delta.tensor "gate.e_score_correction_bias" = %bias as [E]
}

// A vector split over the ranks. Needs: held, tensor, size
delta.block @sharded_vector {
  %w = delta.param "{held}" [size] : storage
  %all = delta.unshard %w dim 0 over tp
  delta.tensor "{tensor}" = %all as [size]
}

// ColumnParallelLinear: output features split. Needs: held, tensor, out, in
delta.block @column {
  %w = delta.param "{held}" [out, in] : storage
  %all = delta.unshard %w dim 0 over tp
  delta.tensor "{tensor}" = %all as [out, in]
}

// RowParallelLinear: input features split. Needs: held, tensor, out, in
delta.block @row {
  %w = delta.param "{held}" [out, in] : storage
  %all = delta.unshard %w dim 1 over tp
  delta.tensor "{tensor}" = %all as [out, in]
}

// VocabParallelEmbedding: rows beyond the vocabulary are zero. Needs: held,
// tensor, rows, V, H
delta.block @vocabulary {
  %w = delta.param "{held}" [rows, H] : storage
  %all = delta.unshard %w dim 0 over tp
  %table = delta.take %all dim 0 first V because "vocabulary padding"
  delta.tensor "{tensor}" = %table as [V, H]
}

// QKVParallelLinear: with more ranks than key/value heads, neighbors hold the
// same head. Needs: g, d, H, q (rows of all queries)
delta.block @qkv {
  delta.symbol kv_ways = min(g, tp)
  %w = delta.param "qkv_proj.weight" [q + 2 * g * d, H] : storage
  %all = delta.unshard %w dim 0 over tp
      sections [q, g * d ways kv_ways, g * d ways kv_ways]
  %qs, %ks, %vs = delta.split %all dim 0 [q, g * d, g * d]
  delta.tensor "q_proj.weight" = %qs as [q, H]
  delta.tensor "k_proj.weight" = %ks as [g * d, H]
  delta.tensor "v_proj.weight" = %vs as [g * d, H]
}

// Its bias. Needs: g, d, q
delta.block @qkv_bias {
  delta.symbol bias_ways = min(g, tp)
  %w = delta.param "qkv_proj.bias" [q + 2 * g * d] : storage
  %all = delta.unshard %w dim 0 over tp
      sections [q, g * d ways bias_ways, g * d ways bias_ways]
  %qs, %ks, %vs = delta.split %all dim 0 [q, g * d, g * d]
  delta.tensor "q_proj.bias" = %qs as [q]
  delta.tensor "k_proj.bias" = %ks as [g * d]
  delta.tensor "v_proj.bias" = %vs as [g * d]
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

// Stacked experts: w13 is [gate; up] of the rank's rows, w2 the rank's columns.
// fused: the checkpoint has them in one tensor, `transposed`: input features
// before output features; else one tensor an expert. Needs: E, I, H, gate, up,
// down (names inside an expert of the checkpoint), fused, transposed, spare
// (slots of shared experts behind those of a rank)
delta.block @gated_slots {
  delta.symbol It = I / etp
  delta.symbol padded = select(moe_pad == 0, It, round_up(It, max(moe_pad, 1)))
  delta.symbol first_half = select(w13_order == "gate_up", gate, up)
  delta.symbol second_half = select(w13_order == "gate_up", up, gate)
  delta.experts E {
    %w13 = delta.param "w13_weight" [2 * etp * padded, H] : storage
        stacked extra spare
    %ranks = delta.unshard %w13 dim 0 over etp
    %halves = delta.reshape %ranks [etp, 2, padded, H]
    %rows = delta.take %halves dim 2 first It because "padding of the kernel"
    %a, %b = delta.split %rows dim 1 [1, 1]
    %w2 = delta.param "w2_weight" [H, etp * padded] : storage
        stacked extra spare
    %columns = delta.unshard %w2 dim 1 over etp
    %parts = delta.reshape %columns [H, etp, padded]
    %own = delta.take %parts dim 2 first It because "padding of the kernel"
    delta.if fused {
      %as = delta.reshape %a [I, H]
      %bs = delta.reshape %b [I, H]
      %down = delta.reshape %own [H, I]
      delta.if transposed {
        %at = delta.transpose %as [1, 0]
        %bt = delta.transpose %bs [1, 0]
        %dt = delta.transpose %down [1, 0]
        delta.if w13_order == "gate_up" {
          %both = delta.concat %at, %bt dim 1
          delta.tensor "gate_up_proj" = %both as [E, H, 2 * I] stacked
        } else {
          %both = delta.concat %bt, %at dim 1
          delta.tensor "gate_up_proj" = %both as [E, H, 2 * I] stacked
        }
        delta.tensor "down_proj" = %dt as [E, I, H] stacked
      } else {
        delta.if w13_order == "gate_up" {
          %both = delta.concat %as, %bs dim 0
          delta.tensor "gate_up_proj" = %both as [E, 2 * I, H] stacked
        } else {
          %both = delta.concat %bs, %as dim 0
          delta.tensor "gate_up_proj" = %both as [E, 2 * I, H] stacked
        }
        delta.tensor "down_proj" = %down as [E, H, I] stacked
      }
    } else {
      delta.tensor "{expert}.{first_half}.weight" = %a as [I, H]
      delta.tensor "{expert}.{second_half}.weight" = %b as [I, H]
      delta.tensor "{expert}.{down}.weight" = %own as [H, I]
    }
  }
}

// A shared expert in the extra slot of the stack. Needs: as @gated_slots
delta.block @shared_slot {
  delta.symbol slot_It = I / etp
  delta.symbol slot_padded =
      select(moe_pad == 0, slot_It, round_up(slot_It, max(moe_pad, 1)))
  delta.symbol slot_first = select(w13_order == "gate_up", gate, up)
  delta.symbol slot_second = select(w13_order == "gate_up", up, gate)
  %w13 = delta.param "w13_weight" [2 * etp * slot_padded, H] : storage
      stacked slot 0
  %ranks = delta.unshard %w13 dim 0 over etp
  %halves = delta.reshape %ranks [etp, 2, slot_padded, H]
  %rows = delta.take %halves dim 2 first slot_It because "padding of the kernel"
  %a, %b = delta.split %rows dim 1 [1, 1]
  delta.tensor "{slot_first}.weight" = %a as [I, H]
  delta.tensor "{slot_second}.weight" = %b as [I, H]
  %w2 = delta.param "w2_weight" [H, etp * slot_padded] : storage stacked slot 0
  %columns = delta.unshard %w2 dim 1 over etp
  %parts = delta.reshape %columns [H, etp, slot_padded]
  %own = delta.take %parts dim 2 first slot_It because "padding of the kernel"
  delta.tensor "{down}.weight" = %own as [H, I]
}

// Experts without a gate. Needs: E, I, X (size of what they read)
delta.block @plain_slots {
  delta.symbol It = I / etp
  delta.symbol padded = select(moe_pad == 0, It, round_up(It, max(moe_pad, 1)))
  delta.require w13_order == "gate_up", "experts without a gate have one half"
  delta.experts E {
    %w13 = delta.param "w13_weight" [etp * padded, X] : storage stacked
    %ranks = delta.unshard %w13 dim 0 over etp
    %blocks = delta.reshape %ranks [etp, padded, X]
    %rows = delta.take %blocks dim 1 first It because "padding of the kernel"
    delta.tensor "{expert}.up_proj.weight" = %rows as [I, X]
    %w2 = delta.param "w2_weight" [X, etp * padded] : storage stacked
    %columns = delta.unshard %w2 dim 1 over etp
    %parts = delta.reshape %columns [X, etp, padded]
    %own = delta.take %parts dim 2 first It because "padding of the kernel"
    delta.tensor "{expert}.down_proj.weight" = %own as [X, I]
  }
}

// gpt-oss: gate and up rows alternate on both sides, and stay so; input
// features come first in the checkpoint. The first rank of those that share an
// expert adds the bias of w2, the others hold zeros. Needs: E, I, H, w13_bias,
// w2_bias (their names), bias_type ("f32" or not)
delta.block @interleaved_slots {
  delta.require w13_order == "gate_up" and moe_pad == 0,
                "alternating rows are neither swapped nor padded"
  delta.experts E {
    %w13 = delta.param "w13_weight" [2 * I, H] : storage stacked
    %rows = delta.unshard %w13 dim 0 over etp
    %columns = delta.transpose %rows [1, 0]
    delta.tensor "gate_up_proj" = %columns as [E, H, 2 * I] stacked
    %w2 = delta.param "w2_weight" [H, I] : storage stacked
    %whole = delta.unshard %w2 dim 1 over etp
    %down = delta.transpose %whole [1, 0]
    delta.tensor "down_proj" = %down as [E, I, H] stacked
    delta.if bias_type == "f32" {
      %b13 = delta.param "{w13_bias}" [2 * I] : f32 stacked
      %b13_all = delta.unshard %b13 dim 0 over etp
      delta.tensor "gate_up_proj_bias" = %b13_all as [E, 2 * I] stacked
      %b2 = delta.param "{w2_bias}" [etp * H] : f32 stacked
      %b2_all = delta.unshard %b2 dim 0 over etp
      %b2_ranks = delta.reshape %b2_all [etp, H]
      %b2_own = delta.take %b2_ranks dim 0 first 1
          because "added by the first rank alone"
      delta.tensor "down_proj_bias" = %b2_own as [E, H] stacked
    } else {
      %b13 = delta.param "{w13_bias}" [2 * I] : storage stacked
      %b13_all = delta.unshard %b13 dim 0 over etp
      delta.tensor "gate_up_proj_bias" = %b13_all as [E, 2 * I] stacked
      %b2 = delta.param "{w2_bias}" [etp * H] : storage stacked
      %b2_all = delta.unshard %b2 dim 0 over etp
      %b2_ranks = delta.reshape %b2_all [etp, H]
      %b2_own = delta.take %b2_ranks dim 0 first 1
          because "added by the first rank alone"
      delta.tensor "down_proj_bias" = %b2_own as [E, H] stacked
    }
  }
}
