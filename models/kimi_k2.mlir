// Kimi-K2: the layers of DeepSeek-V3 without prediction layers. The published
// checkpoint lists a table of rotary frequencies a layer, half of hidden size
// over heads of them although the rotary part of a head is smaller. Nobody
// trains it, so it stays as it is; Megatron-Bridge writes another one.

delta.import "mla.mlir"

delta.family @kimi_k2 model_types ["kimi_k2"]
    architectures ["KimiK2ForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @mla_sizes
  delta.use @deepseek_moe_sizes with dense_by_default = 0
  delta.symbol router_bias = (config "topk_method" else "noaux_tc") == "noaux_tc"
  delta.require (config "num_nextn_predict_layers" else 0) == 0,
                "prediction layers are not mapped"
  delta.decoder L
  delta.use @deepseek_decoder
}
