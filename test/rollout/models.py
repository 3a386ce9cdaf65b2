# ===- models.py - Modules of a model on one rank -------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Parameters that a model class of vLLM 0.33 or SGLang 0.5.23 creates, by the
keys of a config.json, on one rank."""

from __future__ import annotations

from collections.abc import Callable

from .experts import SHARED, Experts
from .geometry import WHOLE, Group, Rank
from .parameters import Layers, Section, negated_exponential


class Model(Layers):
    """One rank's modules of one model."""

    def __init__(self, config: dict, rank: Rank, dtype: str, tagged: bool):
        super().__init__(dtype, tagged)
        self.config = config.get("text_config", config)
        self.nested = "text_config" in config
        self.vision = config.get("vision_config")
        self.kind = self.config["model_type"].removesuffix("_text")
        self.rank = rank
        self.engine = rank.geometry.engine
        self.heads = rank.attention
        quantized = config.get("quantization_config") or {}
        self.block = (quantized.get("weight_block_size") or [0])[0]
        self.tied = bool(
            config.get("tie_word_embeddings")
            or self.config.get("tie_word_embeddings"))
        self.hidden = self.config["hidden_size"]
        self.prefix, self.head = "model.", "lm_head."
        if self.nested and self.engine == "vllm":
            self.prefix, self.head = (
                "language_model.model.", "language_model.lm_head.")

    def key(self, *names: str, default: object = None):
        """The first of the keys that the config has, and is not null."""
        for name in names:
            if self.config.get(name) is not None:
                return self.config[name]
        return default

    # ===--- linear layers --------------------------------------------------===

    def linear(
        self, name: str, sections: list[Section], inputs: int,
        bias: bool = False, quantized: bool = True,
    ) -> None:
        self.rows(f"{name}.weight", sections, (inputs,))
        if bias:
            self.rows(f"{name}.bias", sections)
        if quantized and self.block:
            blocks = [
                Section(s.shard, -(-s.rows // self.block), s.group)
                for s in sections
            ]
            self.rows(f"{name}.weight_scale_inv", blocks,
                      (-(-inputs // self.block),), "fp32")

    def column(
        self, name: str, rows: int, inputs: int, group: Group, **options
    ) -> None:
        self.linear(name, [Section(None, rows, group)], inputs, **options)

    def output(
        self, name: str, rows: int, inputs: int, group: Group,
        bias: bool = False,
    ) -> None:
        """Row parallel; the bias is whole on every rank."""
        self.columns(f"{name}.weight", rows, inputs, group)
        if bias:
            self.add(f"{name}.bias", (rows,))
        if self.block:
            self.columns(f"{name}.weight_scale_inv", -(-rows // self.block),
                         -(-inputs // self.block), group, "fp32")

    def norm(self, name: str, size: int | None = None) -> None:
        self.add(f"{name}.weight", (size or self.hidden,))

    def swiglu(self, name: str, size: int, group: Group) -> None:
        self.linear(
            f"{name}.gate_up_proj",
            [Section(0, size, group), Section(1, size, group)], self.hidden)
        self.output(f"{name}.down_proj", self.hidden, size, group)

    # ===--- attention ------------------------------------------------------===

    def head_size(self) -> int:
        return self.key(
            "head_dim",
            default=self.hidden // self.config["num_attention_heads"])

    def query_key_value(
        self, name: str, bias: bool = False, gate: bool = False,
        shape: tuple[int, int, int] | None = None, quantized: bool = True,
    ) -> None:
        """With more ranks than key heads, consecutive ranks hold the same."""
        queries, keys, size = shape or (
            self.config["num_attention_heads"],
            self.key("num_key_value_heads",
                     default=self.config["num_attention_heads"]),
            self.head_size())
        group = self.heads
        share = group
        if group.size >= keys:
            assert group.size % keys == 0
            share = Group(keys, group.rank // (group.size // keys))
        self.linear(
            name,
            [Section("q", queries * size * (2 if gate else 1), group),
             Section("k", keys * size, share),
             Section("v", keys * size, share)],
            self.hidden, bias=bias, quantized=quantized)

    def attention(
        self, at: str, bias: bool = False, output_bias: bool = False,
        norms: bool = False, gate: bool = False, fp8_scales: bool = False,
    ) -> None:
        self.query_key_value(f"{at}.qkv_proj", bias, gate)
        size = self.config["num_attention_heads"] * self.head_size()
        self.output(
            f"{at}.o_proj", self.hidden, size, self.heads, output_bias)
        if norms:
            self.norm(f"{at}.q_norm", self.head_size())
            self.norm(f"{at}.k_norm", self.head_size())
        if fp8_scales and self.block and self.engine == "vllm":
            for scale in ("q", "k", "v", "prob"):
                self.add(f"{at}.attn.{scale}_scale", (), "fp32")

    def latent(self, at: str) -> None:
        """Multi-head latent attention; `fused` is whole on every rank."""
        c = self.config
        heads = c["num_attention_heads"]
        rope, nope = c["qk_rope_head_dim"], c["qk_nope_head_dim"]
        keys, low = c["kv_lora_rank"], self.key("q_lora_rank")
        if low:
            with_mqa = "_with_mqa" if self.engine == "sglang" else ""
            self.linear(
                f"{at}.fused_qkv_a_proj{with_mqa}",
                [Section(0, low, WHOLE), Section(1, keys + rope, WHOLE)],
                self.hidden)
            self.norm(f"{at}.q_a_layernorm", low)
            self.column(
                f"{at}.q_b_proj", heads * (nope + rope), low, self.heads)
        else:
            self.column(f"{at}.q_proj", heads * (nope + rope), self.hidden,
                        self.heads)
            self.column(f"{at}.kv_a_proj_with_mqa", keys + rope, self.hidden,
                        WHOLE)
        self.norm(f"{at}.kv_a_layernorm", keys)
        self.column(f"{at}.kv_b_proj", heads * (nope + c["v_head_dim"]), keys,
                    self.heads)
        self.output(
            f"{at}.o_proj", self.hidden, heads * c["v_head_dim"], self.heads)

    # ===--- state space ----------------------------------------------------===

    def mamba(
        self, at: str, heads: int, size: int, groups: int, state: int,
        kernel: int, conv_bias: bool, bias: bool, norm: bool,
    ) -> None:
        group = self.heads
        inner, shared = heads * size, groups * state
        assert groups % group.size == 0 or groups == 1
        share = group if groups % group.size == 0 else WHOLE
        mixed = [Section("x", inner, group), Section("b", shared, share),
                 Section("c", shared, share)]
        self.rows(f"{at}.conv1d.weight", mixed, (1, kernel))
        if conv_bias:
            self.rows(f"{at}.conv1d.bias", mixed)
        self.linear(
            f"{at}.in_proj",
            [Section("z", inner, group), *mixed, Section("dt", heads, group)],
            self.hidden, bias=bias)
        self.output(f"{at}.out_proj", self.hidden, inner, group, bias)
        self.vector(f"{at}.A", heads, group, "fp32", negated_exponential)
        self.vector(f"{at}.D", heads, group)
        self.vector(f"{at}.dt_bias", heads, group)
        if norm:
            self.vector(f"{at}.norm.weight", inner, group)

    def delta_net(self, at: str, interleaved: bool) -> None:
        """Gated delta net; `interleaved`: by key head, on disk and here."""
        c, group = self.config, self.heads
        keys = c["linear_num_key_heads"] * c["linear_key_head_dim"]
        heads = c["linear_num_value_heads"]
        values = heads * c["linear_value_head_dim"]
        mixed = [Section(0, keys, group), Section(1, keys, group),
                 Section(2, values, group)]
        self.rows(f"{at}.conv1d.weight", mixed,
                  (1, c["linear_conv_kernel_dim"]))
        if interleaved:
            self.column(f"{at}.in_proj_qkvz", 2 * keys + 2 * values,
                        self.hidden, group)
            self.column(f"{at}.in_proj_ba", 2 * heads, self.hidden, group)
        else:
            self.linear(f"{at}.in_proj_qkvz",
                        [*mixed, Section(3, values, group)], self.hidden)
            self.linear(
                f"{at}.in_proj_ba",
                [Section(0, heads, group), Section(1, heads, group)],
                self.hidden)
        self.vector(f"{at}.A_log", heads, group, "fp32")
        self.vector(f"{at}.dt_bias", heads, group)
        self.norm(f"{at}.norm", c["linear_value_head_dim"])
        self.output(f"{at}.out_proj", self.hidden, values, group)

    # ===--- experts --------------------------------------------------------===

    def stacked(
        self, at: str, layer: int, count: int, size: int, shared: int = 0,
        hidden: int | None = None, **options,
    ) -> Experts:
        """Sizes of the routed experts, shared ones behind them; `hidden` where
        they work in a space of their own."""
        g = self.rank.geometry
        routed = ".routed_experts" if self.engine == "vllm" else ""
        return Experts(
            f"{at}.experts{routed}",
            self.rank.experts(count, layer) + [SHARED] * shared,
            self.rank.moe, size, hidden or self.hidden,
            up_first=g.w13_order == "up_gate", pad=g.moe_pad, **options)

    def experts(self, *arguments, **options) -> None:
        made = self.stacked(*arguments, **options)
        made.add(self, "weight")
        if self.block:
            made.add(self, "weight_scale_inv", self.block)

    # ===--- the whole ------------------------------------------------------===

    def frame(
        self, layer: Callable[[str, int], None], count: int,
        embedding: str = "embed_tokens", norm: str = "norm",
        padded: bool = True,
    ) -> None:
        """Embedding, this stage's layers, norm and head."""
        rows = self.config["vocab_size"]
        rank = self.rank
        # Of a tied table, the last of several stages has a copy: vLLM a second
        # embedding, SGLang a head.
        vllm = self.engine == "vllm"
        if rank.first or (self.tied and rank.last and vllm):
            name = f"{self.prefix}{embedding}.weight"
            if padded:
                self.vocabulary(name, rows, self.hidden, self.heads)
            else:
                self.add(name, (rows, self.hidden))
        for number in rank.layers:
            layer(f"{self.prefix}layers.{number}", number)
        if rank.last:
            self.norm(f"{self.prefix}{norm}")
            if not self.tied or not (rank.first or vllm):
                self.vocabulary(
                    f"{self.head}weight", rows, self.hidden, rank.tp)
