#!/usr/bin/env python3
# ===- adamw_deltas.py - The coder on a real optimizer's steps ------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Trains a small transformer and codes how its bf16 weights change.

    nvcc -x cu -std=c++17 -O2 -arch=sm_90 -I . -I test/unit/coder
         -o coder-pair test/gpu/CoderPair.cpp
    python3 test/gpu/adamw_deltas.py ./coder-pair

Needs torch. Without a GPU the model trains on the host, and coder-pair is made
by a C++ compiler (CoderPair.cpp says how). Weights are bf16 copies of fp32
masters, as in mixed-precision training. A first phase with a large rate makes
them weights of a model; then, for each rate of reinforcement learning, the
weights before and after single steps go to coder-pair, which codes them and
reads them back. One row of the table a captured step.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY = 512


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.Sequential(
            *[Block(width, width // 64) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def loss(self, tokens: Tensor) -> Tensor:
        logits = self.head(self.norm(self.blocks(self.embedding(tokens))))
        return functional.cross_entropy(
            logits[:, :-1].reshape(-1, VOCABULARY).float(),
            tokens[:, 1:].reshape(-1))


class Trainer:
    """bf16 weights, fp32 masters, AdamW on the masters."""

    def __init__(self, model: Model, rate: float) -> None:
        self.model = model.bfloat16()
        self.weights = list(self.model.parameters())
        self.masters = [weight.detach().float() for weight in self.weights]
        self.optimizer = torch.optim.AdamW(
            self.masters, lr=rate, betas=(0.9, 0.95), weight_decay=0.01)

    def set_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def step(self, tokens: Tensor) -> float:
        self.model.zero_grad(set_to_none=True)
        loss = self.model.loss(tokens)
        loss.backward()
        for master, weight in zip(self.masters, self.weights):
            master.grad = weight.grad.float()
        nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.optimizer.step()
        with torch.no_grad():
            for master, weight in zip(self.masters, self.weights):
                weight.copy_(master)
        return float(loss.detach())

    def bits(self) -> bytes:
        """All matrices, one behind the other."""
        flat = torch.cat([weight.detach().reshape(-1)
                          for weight in self.weights if weight.dim() == 2])
        return flat.cpu().view(torch.int16).numpy().tobytes()


def batches(device: str, size: int, length: int) -> Tensor:
    """Sequences of a fixed random chain of tokens: something to learn."""
    generator = torch.Generator().manual_seed(7)
    follows = torch.randint(VOCABULARY, (VOCABULARY, 4), generator=generator)
    tokens = torch.randint(VOCABULARY, (size, 1))
    columns = [tokens]
    for _ in range(length - 1):
        choice = torch.randint(4, (size, 1))
        columns.append(follows[columns[-1], choice].view(size, 1))
    return torch.cat(columns, dim=1).to(device)


def code(program: Path, before: bytes, after: bytes) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder, "old"), Path(folder, "new")
        old.write_bytes(before)
        new.write_bytes(after)
        run = subprocess.run([str(program), str(old), str(new)],
                             capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{program}: {run.stderr.strip()}")
    return json.loads(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--first", type=int, default=300, metavar="STEPS")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rates", type=float, nargs="+",
                        default=[1e-6, 3e-6, 1e-5])
    parser.add_argument("--capture", type=int, nargs="+", default=[1, 10, 30])
    options = parser.parse_args()
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    trainer = Trainer(Model(options.width, options.depth).to(device), 1e-3)
    loss = 0.0
    for _ in range(options.first):
        loss = trainer.step(batches(device, options.batch, 128))
    count = sum(weight.numel() for weight in trainer.weights)
    print(f"torch {torch.__version__} on {device}, {count / 1e6:.1f} million "
          f"parameters, loss {loss:.3f} after {options.first} steps at 1e-3")
    print("rate     step  changed %  one ulp %  sign %  bytes  raw    coder on")
    for rate in options.rates:
        trainer.set_rate(rate)
        for step in range(1, max(options.capture) + 1):
            before = trainer.bits() if step in options.capture else b""
            trainer.step(batches(device, options.batch, 128))
            if not before:
                continue
            row = code(options.program, before, trainer.bits())
            print(f"{rate:.0e}  {step:5d}  "
                  f"{100 * row['changed'] / row['elements']:9.3f}  "
                  f"{100 * row['unit_steps']:9.2f}  "
                  f"{100 * row['sign_flips']:6.3f}  "
                  f"{row['bytes']:5.3f}  {row['raw_bytes']:5.3f}  "
                  f"{row['device']}")


if __name__ == "__main__":
    main()
