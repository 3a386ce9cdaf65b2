// gpt-oss in bf16 in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_decoder.mlir"

delta.family @vllm_gpt_oss engine "vllm" versions ["0.33"]
    model_types ["gpt_oss"]
    architectures ["GptOssForCausalLM"] {
  delta.use @gpt_oss_layout with attn = "attn.",
      held_embed = "model.embedding.weight", w13_bias = "w13_bias",
      w2_bias = "w2_bias", bias_type = "storage"
}
