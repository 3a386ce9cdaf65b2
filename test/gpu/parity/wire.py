# ===- wire.py - Damaged messages -----------------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Messages that a receiver has to refuse: torn, and forged ones whose checksums
are right. Their layout is that of codegen/device/WireFormat.h."""

import random
import struct
from collections.abc import Iterator

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
# Of the header that its checksum covers; name, place, size.
FIELDS = (
    ("magic", 0, 4), ("wireVersion", 4, 4), ("run", 8, 8), ("plan", 16, 8),
    ("plan", 24, 8), ("base", 32, 8), ("version", 40, 8), ("source", 48, 4),
    ("destination", 52, 4), ("numSections", 56, 4), ("flags", 60, 4),
    ("payloadBytes", 64, 8), ("round", 72, 4), ("numRounds", 76, 4),
    ("placement", 80, 8), ("previous", 88, 8), ("reserved", 96, 8),
)  # fmt: skip
COVERED, HEADER, SECTION = 104, 112, 32
COUNT_AT = 56
PLAN = slice(16, 32)


def mix(value: int) -> int:
    value ^= value >> 30
    value = value * 0xBF58476D1CE4E5B9 & MASK
    value ^= value >> 27
    value = value * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def checksum(data: bytes) -> int:
    total = len(data)
    for index, (word,) in enumerate(struct.iter_unpack("<Q", data), 1):
        total += mix((word + index * GOLDEN) & MASK)
    return mix(total & MASK)


def sections(message: bytes) -> list[tuple[int, int]]:
    """Begin and end of the sections that are whole."""
    (count,) = struct.unpack_from("<I", message, COUNT_AT)
    found, at = [], HEADER
    while len(found) < count and at + SECTION <= len(message):
        (size,) = struct.unpack_from("<Q", message, at + 8)
        if size < SECTION or size % 8 or at + size > len(message):
            break
        found.append((at, at + size))
        at += size
    return found


def sealed(message: bytearray) -> bytes:
    """With the checksums of what it holds now."""
    seals = bytearray()
    for begin, end in sections(message):
        seal = struct.pack("<Q", checksum(message[begin + 8 : end]))
        message[begin : begin + 8] = seal
        seals += seal
    seal = checksum(message[:COVERED] + seals)
    struct.pack_into("<Q", message, COVERED, seal)
    return bytes(message)


def header_seal(message: bytes) -> int:
    """The checksum of a header and of the checksums of its sections."""
    seals = b"".join(message[begin : begin + 8] for begin, _ in sections(message))
    return checksum(message[:COVERED] + seals)


def of_plan(message: bytes, old: bytes, new: bytes) -> bytes:
    """The message as another plan says it: plans of other snapshots have other
    fingerprints, `old` and `new`. A wrong checksum of the header stays wrong."""
    if old == new or len(message) < HEADER or message[PLAN] != old:
        return message
    made = bytearray(message)
    made[PLAN] = new
    if message[COVERED:HEADER] == struct.pack("<Q", header_seal(message)):
        struct.pack_into("<Q", made, COVERED, header_seal(made))
    return bytes(made)


def torn(
    message: bytes, rng: random.Random, count: int
) -> Iterator[tuple[str, bytes]]:
    """What a bad line makes: bits that flipped, ends that are missing."""
    sizes = {0, 1, 8, COVERED, HEADER - 1, HEADER, HEADER + 16,
             len(message) // 2, len(message) - 16, len(message) - 1}
    for size in sorted(size for size in sizes if 0 <= size < len(message)):
        yield f"cut to {size} bytes", message[:size]
    yield "16 bytes more", message + bytes(16)
    places = [*range(0, HEADER, 7), *(
        rng.randrange(len(message)) for _ in range(count)
    )]  # fmt: skip
    for place in places:
        data = bytearray(message)
        data[place] ^= 1 << rng.randrange(8)
        yield f"a bit of byte {place}", bytes(data)


def forged(
    message: bytes, rng: random.Random, count: int
) -> Iterator[tuple[str, bytes]]:
    """What an enemy makes: every number of the headers, and the first bytes of
    the sections, where the codes and offsets are."""
    for name, at, size in FIELDS:
        (old,) = struct.unpack_from("<I" if size == 4 else "<Q", message, at)
        top = (1 << 8 * size) - 1
        for new in (0, old + 1, old - 1, top, top >> 1, 1 << 20):
            if 0 <= new <= top and new != old:
                yield f"{name} {new} for {old}", changed(message, at, size, new)
    for begin, end in sections(message)[:3]:
        for at, size in ((8, 8), (16, 4), (20, 4), (24, 8)):
            kind = "<I" if size == 4 else "<Q"
            (old,) = struct.unpack_from(kind, message, begin + at)
            top = (1 << 8 * size) - 1
            for new in (0, old + 1, old + 16, old - 16, old + 1024, top, 32):
                if 0 <= new <= top and new != old:
                    yield (
                        f"section at {begin}: {at}: {new} for {old}",
                        changed(message, begin + at, size, new),
                    )
        body = begin + SECTION
        for _ in range(count if body < end else 0):
            last = min(end, body + rng.choice((16, 48, 128, 1 << 20)))
            at = rng.randrange(body, last) & ~1
            new = rng.choice((0, 1, 0x7FFF, 0x8000, 0xFFFF,
                              rng.getrandbits(16)))  # fmt: skip
            yield f"{new} at byte {at}", changed(message, at, 2, new)


def changed(message: bytes, at: int, size: int, value: int) -> bytes:
    data = bytearray(message)
    data[at : at + size] = value.to_bytes(size, "little")
    return sealed(data)
