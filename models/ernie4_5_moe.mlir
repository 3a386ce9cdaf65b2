// ERNIE 4.5, text, with experts: dense layers and layers with routed and
// shared experts. The checkpoint keeps the bias of the router as a row. Its
// config promises MTP layers that the checkpoint for Transformers lacks.
//
// Which layers have experts follows the checkpoint (first, last and every
// how many); Megatron-Bridge reads the first only.

delta.import "decoder.mlir"

delta.family @ernie4_5_moe model_types ["ernie4_5_moe"]
    architectures ["Ernie4_5_MoeForCausalLM"] {
  delta.use @sizes
  delta.use @without_mtp
  delta.use @attention_sizes
  delta.symbol layers = config "num_hidden_layers"
  delta.symbol E = config "moe_num_experts"
  delta.symbol I = config "moe_intermediate_size"
  delta.symbol shared = config "moe_num_shared_experts" else 2
  delta.symbol first_sparse = config "moe_layer_start_index" else 1
  delta.symbol end = config "moe_layer_end_index" else -1
  delta.symbol last_sparse = select(end < 0, layers - 1, end)
  delta.symbol every = config "moe_layer_interval" else 1
  delta.require not (config "use_bias" else false), "biases are not mapped"
  delta.require (config "moe_use_aux_free" else true),
                "the trainer always has a bias of the router"
  delta.require first_sparse ge 0 and first_sparse le last_sparse and
                last_sparse < layers and every ge 1,
                "layers with experts are some of all layers"
  delta.decoder layers

  delta.use @llama_ends with tied = config "tie_word_embeddings" else true
  delta.layers where true {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @llama_attention with qkv_bias = false, output_bias = false,
          head_norms = false
    }
  }
  delta.layers where not (layer ge first_sparse and layer le last_sparse and
                          (layer + 1) mod every == 0) {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @llama_mlp with F = config "intermediate_size",
          mlp_bias = false
    }
  }
  delta.layers where layer ge first_sparse and layer le last_sparse and
                     (layer + 1) mod every == 0 {
    delta.scope trainer "decoder.layers.{layer}." hf "model.layers.{layer}." {
      delta.use @router with moe = "mlp"
      %bias = delta.param "mlp.router.expert_bias" [E] : f32
      %row = delta.reshape %bias [1, E]
      delta.tensor "mlp.moe_statics.e_score_correction_bias" = %row as [1, E]
      delta.scope trainer "mlp.experts." hf "mlp.experts." {
        delta.use @gated_experts
      }
      delta.if shared > 0 {
        delta.scope trainer "mlp.shared_experts." hf "mlp.shared_experts." {
          delta.use @gated_mlp with F = I * shared
        }
      }
    }
  }
}
