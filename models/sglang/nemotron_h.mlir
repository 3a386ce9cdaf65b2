// Nemotron-H in SGLang.

delta.import "sglang/engine.mlir"
delta.import "engine_hybrid.mlir"

delta.family @sglang_nemotron_h engine "sglang" versions ["0.5.23"]
    model_types ["nemotron_h"]
    architectures ["NemotronHForCausalLM"] {
  delta.require (config "mamba_n_groups" else 8) == config "n_groups",
                "SGLang takes mamba_n_groups, or 8, for the number of groups"
  delta.use @one_attention_group
  delta.use @nemotron_layout
}
