// Building blocks of the layouts of vLLM and SGLang, whose layers have one
// ancestry. A layout says how the parameters of an engine's ranks make up the
// tensors of the checkpoint. Names are completed by the scopes around a use; of
// two names `held` is the engine's and `tensor` the checkpoint's.
//
// Symbols every layout has, beside those of families: w13_order ("gate_up" or
// "up_gate"), moe_pad (rows of an expert on a rank are a multiple of it; 0: as
// they come), fuse_shared_experts, attention_dp. tp is the size of the group
// that shares an attention layer, `stage` all ranks of a pipeline stage, etp and
// ep those of the experts.

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
  delta.require n mod tp == 0, "attention heads are split over the ranks"
  delta.require g mod tp == 0 or tp mod g == 0,
                "key/value heads and ranks must divide one another"
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

// QKVParallelLinear: with more ranks than key/value heads, neighbors hold the
// same head. Needs: @engine_attention_sizes
delta.block @qkv {
  delta.symbol kv_ways = min(g, tp)
  %w = delta.param "qkv_proj.weight" [(n + 2 * g) * d, H] : storage
  %all = delta.unshard %w dim 0 over tp
      sections [n * d, g * d ways kv_ways, g * d ways kv_ways]
  %q, %k, %v = delta.split %all dim 0 [n * d, g * d, g * d]
  delta.tensor "q_proj.weight" = %q as [n * d, H]
  delta.tensor "k_proj.weight" = %k as [g * d, H]
  delta.tensor "v_proj.weight" = %v as [g * d, H]
}

//===----------------------------------------------------------------------===//
// Embedding and head. Needs: @engine_sizes, embed, head, norm (the names of the
// checkpoint, from which the engine's differ by `model` only)
//===----------------------------------------------------------------------===//

// VocabParallelEmbedding: rows beyond the vocabulary are zero. Needs: held,
// tensor
delta.block @vocabulary {
  %w = delta.param "{held}" [rows, H] : storage
  %all = delta.unshard %w dim 0 over tp
  %table = delta.take %all dim 0 first V because "vocabulary padding"
  delta.tensor "{tensor}" = %table as [V, H]
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

// Stacked experts: w13 is [gate; up] of the rank's rows, w2 the rank's columns.
// Needs: E, I, gate, up, down (names inside an expert of the checkpoint)
delta.block @stacked_gated_experts {
  delta.symbol It = I / etp
  delta.symbol padded = select(moe_pad == 0, It, round_up(It, max(moe_pad, 1)))
  delta.experts E {
    %w13 = delta.param "w13_weight" [2 * etp * padded, H] : storage stacked
    %ranks = delta.unshard %w13 dim 0 over etp
    %halves = delta.reshape %ranks [etp, 2, padded, H]
    %rows = delta.take %halves dim 2 first It because "padding of the kernel"
    %first, %second = delta.split %rows dim 1 [1, 1]
    delta.if w13_order == "gate_up" {
      delta.tensor "{expert}.{gate}.weight" = %first as [I, H]
      delta.tensor "{expert}.{up}.weight" = %second as [I, H]
    } else {
      delta.tensor "{expert}.{gate}.weight" = %second as [I, H]
      delta.tensor "{expert}.{up}.weight" = %first as [I, H]
    }
    %w2 = delta.param "w2_weight" [H, etp * padded] : storage stacked
    %columns = delta.unshard %w2 dim 1 over etp
    %parts = delta.reshape %columns [H, etp, padded]
    %own = delta.take %parts dim 2 first It because "padding of the kernel"
    delta.tensor "{expert}.{down}.weight" = %own as [H, I]
  }
}
