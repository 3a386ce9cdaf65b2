// DeepSeek-V3 and R1: latent attention, dense layers first, then experts, and
// multi-token prediction as further layers of the checkpoint.

delta.import "mla.mlir"
delta.import "mtp.mlir"

delta.family @deepseek_v3 model_types ["deepseek_v3"]
    architectures ["DeepseekV3ForCausalLM"] {
  delta.use @sizes
  delta.use @mla_sizes
  delta.use @deepseek_moe_sizes with dense_by_default = 0
  delta.symbol router_bias = (config "topk_method" else "noaux_tc") == "noaux_tc"
  delta.decoder L
  delta.use @mtp_depth with in_config = config "num_nextn_predict_layers" else 0,
      first_mtp = "model.layers.{L}.enorm.weight"
  delta.symbol mtp_copies = "model.layers.{L}."
  delta.use @deepseek_decoder
  delta.use @deepseek_mtp
}
