# ===- bits.py - Bit patterns of parameters -------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Random bits, with many of the values that a conversion treats on its own:
zeros, denormals, infinities, NaN with payloads, ties of a rounding."""

import random
from array import array
from collections.abc import Iterable

CODES = {2: "H", 4: "I", 8: "Q"}
# One element in so many is one of these, and so many at most.
EVERY, MOST = 16, 20000

SPECIAL = {
    "bfloat16": (
        0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x7F80, 0xFF80, 0x7FC0,
        0xFFC0, 0x7F81, 0xFFBF, 0x7FFF, 0x7F7F, 0x3F80, 0xBF80, 0x3B80, 0x4380,
        0xC2B0, 0x42B2,
    ),
    "float16": (
        0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7C00, 0xFC00, 0x7E00,
        0xFE00, 0x7C01, 0xFDFF, 0x7FFF, 0x7BFF, 0x3C00, 0xBC00, 0x1000, 0x6800,
        0x4940, 0xC97F,
    ),
    "float32": (
        0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F800000,
        0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0xFFBFFFFF, 0x7FFFFFFF,
        0x7F7FFFFF, 0xFF7F8000, 0x3F800000, 0xBF800000,
        # Ties of bf16 and one above and below, ties of fp16, its largest.
        0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x3F801000, 0x3F803000,
        0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001, 0x387FF000,
        # Where exp(x) overflows and where it is lost.
        0x42B17218, 0x42B17217, 0xC2CFF1B5, 0xC2AEAC50, 0x33800000,
    ),
    "int64": (0, 1, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000),
}  # fmt: skip


def filled(rng: random.Random, dtype: str, width: int, count: int) -> bytes:
    """Bits of `count` elements."""
    values = array(CODES[width], rng.randbytes(count * width))
    for _ in range(min(-(-count // EVERY), MOST) if count else 0):
        values[rng.randrange(count)] = rng.choice(SPECIAL[dtype])
    return values.tobytes()


def changed(
    rng: random.Random, dtype: str, data: bytes, places: Iterable[int],
    width: int,
) -> bytes:
    """Other bits at some elements, each different from what was there: a low
    bit, a sign, a special value, or all anew."""
    values = array(CODES[width], data)
    top = 1 << (8 * width - 1)
    special = SPECIAL[dtype]
    for place in places:
        old = values[place]
        kind = rng.randrange(4)
        if kind == 0:
            new = old ^ (1 << rng.randrange(3))
        elif kind == 1:
            new = old ^ top
        elif kind == 2:
            new = rng.choice(special)
        else:
            new = rng.getrandbits(8 * width)
        values[place] = new if new != old else old ^ 1
    return values.tobytes()


def inverted(data: bytes) -> bytes:
    """Other bits at every element."""
    size = len(data)
    ones = int.from_bytes(b"\xff" * size, "little")
    return (int.from_bytes(data, "little") ^ ones).to_bytes(size, "little")


# --- what a cast is ----------------------------------------------------------


def rounded(bits: int) -> int:
    """Of the two bf16 around an fp32 the nearer, of a tie the even one; a NaN
    is quiet."""
    down = bits >> 16
    if bits & 0x7FFFFFFF > 0x7F800000:
        return down | 0x40
    rest = bits & 0xFFFF
    return down + (rest > 0x8000 or (rest == 0x8000 and down % 2 == 1))


def widened(dtype: str, bits: int) -> int:
    """The fp32 of the same value, a NaN with the same payload."""
    if dtype == "bfloat16":
        return bits << 16
    sign, exponent, rest = bits >> 15 << 31, bits >> 10 & 31, bits & 0x3FF
    if exponent == 31:
        return sign | 0x7F800000 | rest << 13
    if exponent:
        return sign | (exponent + 112) << 23 | rest << 13
    if not rest:
        return sign
    shift = 11 - rest.bit_length()
    return sign | (113 - shift) << 23 | (rest << shift & 0x3FF) << 13


def quiet(dtype: str, bits: int) -> int:
    """As a cast of the widened value leaves it."""
    infinity, bit = (0x7F80, 0x40) if dtype == "bfloat16" else (0x7C00, 0x200)
    return bits | bit if bits & 0x7FFF > infinity else bits
