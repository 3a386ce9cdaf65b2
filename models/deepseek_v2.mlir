// DeepSeek-V2, V2.5 and V2-Lite: the layers of DeepSeek-V3 without a bias of
// the router and without prediction layers.
//
// V2-Lite does not compress queries: its q_lora_rank is null. Megatron-Core of
// 2026 then builds the query projection with a norm of its own,
// `self_attention.linear_q_proj.layer_norm_weight`, behind the norm of the
// layer. No tensor of the checkpoint can hold it and it cannot be folded into
// another one, so it is not mapped: a trainer that has it computes another
// model than the published one, and binding refuses it by name. Megatron-Bridge
// cannot export such a trainer either.

delta.import "mla.mlir"

delta.family @deepseek_v2 model_types ["deepseek_v2"]
    architectures ["DeepseekV2ForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @mla_sizes
  delta.use @deepseek_moe_sizes with dense_by_default = 0
  delta.symbol router_bias = false
  delta.require (config "topk_method" else "greedy") ne "noaux_tc",
                "the router has no bias"
  delta.decoder L
  delta.use @deepseek_decoder
}
