// gpt-oss in bf16 in SGLang.

delta.import "sglang/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @sglang_gpt_oss engine "sglang" versions ["0.5.23"]
    model_types ["gpt_oss"]
    architectures ["GptOssForCausalLM"] {
  delta.require ep == 1, "SGLang does not load bf16 experts with ep"
  delta.use @gpt_oss_layout with attn = "self_attn.",
      held_embed = "model.embed_tokens.weight", w13_bias = "w13_weight_bias",
      w2_bias = "w2_weight_bias", bias_type = "f32"
}
