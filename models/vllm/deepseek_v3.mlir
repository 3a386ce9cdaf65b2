// DeepSeek-V3 and R1 in vLLM.

delta.import "vllm/engine.mlir"
delta.import "engine_mla.mlir"

delta.family @vllm_deepseek_v3 engine "vllm" versions ["0.33"]
    model_types ["deepseek_v3"]
    architectures ["DeepseekV3ForCausalLM"] {
  delta.symbol router_bias =
      (config "topk_method" else "noaux_tc") == "noaux_tc"
  delta.use @deepseek_layout
  delta.use @mtp_depth with first_mtp = "model.layers.{L}.enorm.weight",
      in_config = config "num_nextn_predict_layers" else 0
  delta.use @without_deepseek_mtp
}
