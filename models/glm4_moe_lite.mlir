// GLM-4.7-Flash: the layers of DeepSeek-V3, under its names, with prediction
// layers. The checkpoint repeats embedding and head for them.

delta.import "mla.mlir"
delta.import "mtp.mlir"

delta.family @glm4_moe_lite model_types ["glm4_moe_lite"]
    architectures ["Glm4MoeLiteForCausalLM"] {
  delta.use @sizes
  delta.use @mla_sizes
  delta.use @deepseek_moe_sizes with dense_by_default = 1
  delta.symbol router_bias = true
  delta.require (config "head_dim" else rope) == rope,
                "Transformers takes head_dim for the rotary part of a head"
  delta.decoder L
  delta.use @mtp_depth with in_config = config "num_nextn_predict_layers" else 0,
      first_mtp = "model.layers.{L}.enorm.weight"
  delta.symbol mtp_copies = "model.layers.{L}."
  delta.use @deepseek_decoder
  delta.use @deepseek_mtp
}
