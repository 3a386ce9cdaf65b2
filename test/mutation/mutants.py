# ===- mutants.py - Every small mistake that a family text allows ---------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Operators, each applied at every place of a text where it applies.

An operator yields edits: lists of (from, to, text). Nothing is chosen by hand
and nothing by chance. Two operators that give the same text count once, for
the one that comes first."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from text import FamilyText, Statement

Edit = tuple[int, int, str]

AXES = ("tp", "etp", "ep", "cp", "dp", "pp")
GEOMETRY = {
    "tp", "cp", "dp", "ep", "etp", "edp", "pp", "vpp", "vocab_multiple",
    "mtp_layers", "layer",
}
# Ops that stand for no place of their own.
OUTER = ("delta.family", "delta.block")
COMPARISONS = ("==", "ne", "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*", "/", "mod")


@dataclass(frozen=True)
class Mutant:
    operator: str
    file: str
    top: str  # the block or family that it is in
    line: int
    text: str  # of that line
    before: str
    after: str
    # Where it is bound: the first statements of these regions.
    regions: tuple[int, ...]
    source: str  # the whole changed text


def swap(text: FamilyText, a: tuple[int, int],
         b: tuple[int, int]) -> list[Edit]:
    return [(*a, text.source[slice(*b)]), (*b, text.source[slice(*a)])]


def place(text: FamilyText, index: int) -> tuple[int, int]:
    return text.tokens[index].start, text.tokens[index].end


def replace(text: FamilyText, index: int, new: str) -> list[Edit]:
    return [(*place(text, index), new)]


def words(text: FamilyText, statement: Statement, word: str) -> list[int]:
    return [
        index
        for index in text.header(statement)
        if text.tokens[index].text == word
    ]


# --- order ------------------------------------------------------------------ #


def swap_results(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Swap two results of an op"""
    for a, b in combinations(text.results(op), 2):
        yield swap(text, place(text, a), place(text, b))


def swap_operands(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Swap two operands of an op"""
    for a, b in combinations(text.operands(op), 2):
        yield swap(text, place(text, a), place(text, b))


def swap_sizes(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Swap two items of a list: sections, parts, shape, permutation"""
    for items in text.lists(op):
        for a, b in combinations(items, 2):
            yield swap(text, a, b)


def swap_names(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Swap the names of two tensors, or of two parameters, of one region"""
    mine = names_of(text, op)
    others = op.siblings[op.siblings.index(op) + 1 :]
    for kind, index in mine:
        for other in others:
            for theirs, at in names_of(text, other):
                if theirs == kind:
                    yield swap(text, place(text, index), place(text, at))


def names_of(text: FamilyText, op: Statement) -> list[tuple[str, int]]:
    """Names that an op gives: kind and token."""
    if op.op in ("delta.tensor", "delta.param"):
        kind = "tensor" if op.op == "delta.tensor" else "trained"
        return [(kind, index) for index in text.header(op)
                if text.tokens[index].kind == "string"]
    found = []
    if op.op == "delta.use":
        for index in range(op.at, op.last - 2):
            if (text.tokens[index + 1].text == "="
                    and text.tokens[index + 2].kind == "string"):
                found.append((text.tokens[index].text, index + 2))
    return found


def swap_alternatives(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Swap two alternative names, config keys or types"""
    for index in words(text, op, "|"):
        # Between two names a scheme may stand before the second one.
        after = next(
            (at for at in range(index, op.last)
             if text.tokens[at].kind == "string"), index + 1
        )
        yield swap(text, place(text, index - 1), place(text, after))


def swap_schemes(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Take grouped for sequential"""
    for a in words(text, op, "grouped"):
        for b in words(text, op, "sequential"):
            yield swap(text, place(text, a), place(text, b))


# --- ops -------------------------------------------------------------------- #


def drop_op(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Drop an op with its region"""
    if op.op not in OUTER:
        yield [(*text.span(op), "")]


def duplicate_op(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Duplicate an op with its region"""
    start, end = text.span(op)
    yield [(end, end, "\n" + text.source[start:end])]


def bypass_op(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Leave an op out: its result stands for its operand"""
    results, operands = text.results(op), text.operands(op)
    for operand in sorted({text.tokens[i].text for i in operands}):
        for result in results:
            yield [(*text.span(op), "")] + [
                (*place(text, index), operand)
                for later in op.siblings[op.siblings.index(op) + 1 :]
                for index in subtree(text, later)
                if text.tokens[index].text == text.tokens[result].text
            ]


def subtree(text: FamilyText, op: Statement) -> range:
    return range(op.first, op.closes or op.last)


def unwrap_region(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Bind the ops of a region without the op around them"""
    if op.opens is not None and op.op not in OUTER:
        yield [
            (text.tokens[op.first].start, text.tokens[op.opens].end, ""),
            (*place(text, op.closes), ""),
        ]


def other_value(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Read another value"""
    known = [
        text.tokens[index].text
        for before in op.siblings[: op.siblings.index(op)]
        for index in text.results(before)
    ]
    for index in text.operands(op):
        for value in known:
            if value != text.tokens[index].text:
                yield replace(text, index, value)


def other_block(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Use another block"""
    if op.op == "delta.use":
        for block in text.blocks:
            if block != text.name(op):
                yield replace(text, op.at + 1, block)


def drop_clause(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Drop a clause: sections, stacked, if_listed, an alternative, a default,
    a binding"""
    for word in ("stacked", "if_listed"):
        for index in words(text, op, word):
            yield replace(text, index, "")
    for index in words(text, op, "sections"):
        yield [(text.tokens[index].start, text.tokens[op.last - 1].end, "")]
    for index in words(text, op, "|"):
        after = index + 1
        if text.tokens[after].kind == "word":
            after += 1
        yield [(text.tokens[index].start, text.tokens[after].end, "")]
        yield [(text.tokens[index - 1].start, text.tokens[after].start, "")]
    for index in words(text, op, "else"):
        yield [(text.tokens[index].start, text.tokens[index + 1].end, "")]


# --- axes, stages, conditions ----------------------------------------------- #


def other_axis(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Shard over another axis"""
    for index in words(text, op, "over"):
        for axis in AXES:
            if axis != text.tokens[index + 1].text:
                yield replace(text, index + 1, axis)


def other_dim(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Take another dimension"""
    for index in words(text, op, "dim"):
        for dim in "0123":
            if dim != text.tokens[index + 1].text:
                yield replace(text, index + 1, dim)


def other_stage(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Take the first stage for the last, or the last for the first"""
    if op.op == "delta.on":
        stage = text.tokens[op.at + 1].text
        yield replace(text, op.at + 1, {"first": "last"}.get(stage, "first"))


def negate(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Negate a condition"""
    first = op.at + 1
    last = op.last - 1
    if op.op == "delta.layers":
        first += 1
    elif op.op == "delta.require":
        last = next(i for i in range(first, op.last)
                    if text.tokens[i].text == "," ) - 1
    elif op.op != "delta.if":
        return
    start, end = text.tokens[first].start, text.tokens[last].end
    yield [(start, end, f"not ({text.source[start:end]})")]


def other_dtype(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Take storage for f32, or f32 for storage"""
    if op.op == "delta.param":
        old = text.tokens[op.last - 1].text
        new = "f32" if old == "storage" else "storage"
        yield replace(text, op.last - 1, new)


# --- numbers and expressions ------------------------------------------------ #


def other_number(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Change a number by one, up or down"""
    for index in text.header(op):
        if text.tokens[index].kind == "number":
            value = int(text.tokens[index].text)
            yield replace(text, index, str(value + 1))
            yield replace(text, index, str(value - 1))


def other_sign(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Take another arithmetic, comparing or joining operation"""
    for index in text.header(op):
        token = text.tokens[index]
        for group in (ARITHMETIC, COMPARISONS, ("and", "or"), ("max", "min"),
                      ("true", "false")):
            if token.text in group and token.kind != "string":
                for other in group:
                    if other != token.text:
                        yield replace(text, index, other)


def other_symbol(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Take another symbol that the block or family knows"""
    for index in text.header(op):
        if text.is_symbol(index):
            for other in sorted(text.scope[text.name(op.top)]):
                if other != text.tokens[index].text:
                    yield replace(text, index, other)


def add_one(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Add one to a symbol in a size or condition"""
    for index in text.header(op):
        if text.is_symbol(index):
            yield replace(text, index, f"({text.tokens[index].text} + 1)")


# --- texts ------------------------------------------------------------------ #


def strings(text: FamilyText, op: Statement) -> list[int]:
    """Strings that are not reasons."""
    if op.op == "delta.import":
        return []
    return [
        index
        for index in text.header(op)
        if text.tokens[index].kind == "string"
        and text.tokens[index - 1].text != "because"
        and not (op.op == "delta.require" and index == op.last - 1)
    ]


def other_hole(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Change a hole of a name: off by one, another, none, an offset dropped"""
    for index in strings(text, op):
        start = text.tokens[index].start
        for hole in re.finditer(r"\{([^}]*)\}", text.tokens[index].text):
            name = re.match(r"\w*", hole[1])[0]
            new = ["", "{layer}", "{expert}", f"{{{name}}}"]
            if name in ("layer", "expert"):
                new += [f"{{{name}+1}}", f"{{{name}+2}}"]
            for other in new:
                if other != hole[0]:
                    yield [(start + hole.start(), start + hole.end(), other)]


def other_text(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Change the last letter of a name, prefix, key or kind; empty it"""
    for index in strings(text, op):
        old = text.tokens[index].text[1:-1]
        if old:
            dots = len(old) - len(old.rstrip("."))
            at = len(old) - dots - 1
            letter = "y" if old[at] == "x" else "x"
            yield replace(
                text, index, f'"{old[:at]}{letter}{old[at + 1:]}"')
        yield replace(text, index, '""' if old else '"x"')


def other_key(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Read another key of the config"""
    for index in strings(text, op):
        if text.is_key(index):
            for key in text.keys:
                if key != text.tokens[index].text:
                    yield replace(text, index, key)


def other_kind(text: FamilyText, op: Statement) -> Iterator[list[Edit]]:
    """Compare with another text"""
    compared = [
        index for index in strings(text, op)
        if text.tokens[index - 1].text in COMPARISONS
    ]
    for index in compared:
        for other in text.compared:
            if other != text.tokens[index].text:
                yield replace(text, index, other)


OPERATORS = (
    swap_results, swap_operands, swap_sizes, swap_names, swap_alternatives,
    swap_schemes, drop_op, duplicate_op, bypass_op, unwrap_region, other_value,
    other_block, drop_clause, other_axis, other_dim, other_stage, negate,
    other_dtype, other_number, other_sign, other_symbol, add_one, other_hole,
    other_text, other_key, other_kind,
)


class MutableText(FamilyText):
    """A text with what its operators choose from."""

    def __init__(self, text: FamilyText, blocks: list[str]):
        self.__dict__.update(text.__dict__)
        self.blocks = blocks
        self.defined = GEOMETRY | {
            self.tokens[index].text
            for index in range(len(self.tokens) - 1)
            if self.tokens[index].kind == "word"
            and self.tokens[index + 1].text == "="
        }
        self.scope: dict[str, set[str]] = {}
        for statement in self.statements:
            known = self.scope.setdefault(self.name(statement.top), set())
            known |= {
                self.tokens[index].text
                for index in self.header(statement)
                if self.is_symbol(index)
                or self.tokens[index - 1].text == "delta.symbol"
            }
        indices = range(len(self.tokens))
        self.keys = sorted(
            {self.tokens[i].text for i in indices if self.is_key(i)})
        self.compared = sorted(
            {self.tokens[i].text for i in indices
             if self.tokens[i].kind == "string"
             and self.tokens[i - 1].text in COMPARISONS})

    def is_symbol(self, index: int) -> bool:
        """The token is a symbol that an expression reads."""
        token = self.tokens[index]
        after = self.tokens[min(index + 1, len(self.tokens) - 1)].text
        return (
            token.kind == "word"
            and token.text in self.defined
            and after != "="
            and self.tokens[index - 1].text not in ("over", "delta.symbol")
        )

    def is_key(self, index: int) -> bool:
        """The token is a key of `config "a" | "b"`."""
        if self.tokens[index].kind != "string":
            return False
        while self.tokens[index - 1].text == "|":
            index -= 2
        return self.tokens[index - 1].text == "config"


def apply(source: str, edits: list[Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        source = source[:start] + new + source[end:]
    return source


def mutants_of(text: FamilyText, blocks: list[str]) -> Iterator[Mutant]:
    """All mutants of a text; `blocks` are those of it and its imports."""
    text = MutableText(text, blocks)
    lines = text.source.splitlines()
    seen = {text.source}
    number = {id(op): at for at, op in enumerate(text.statements)}
    for operator in OPERATORS:
        for statement in text.statements:
            for edits in operator(text, statement):
                source = apply(text.source, edits)
                if source in seen:
                    continue
                seen.add(source)
                first = min(edits)
                line = text.line(first[0])
                yield Mutant(
                    operator=operator.__name__,
                    file=text.path.name,
                    top=text.name(statement.top),
                    line=line,
                    text=lines[line - 1].strip(),
                    before=" ".join(text.source[first[0]:first[1]].split()),
                    after=" ".join(first[2].split()),
                    regions=tuple(sorted({
                        number[id(text.first_of_region(text.around(start)))]
                        for start, _, _ in edits
                    })),
                    source=source,
                )
