# ===- text.py - The ops of a family text ---------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Tokens and statements of a family text, without understanding it: enough to
find every place where an operator of mutants.py applies."""

import re
from dataclasses import dataclass, field
from pathlib import Path

TOKEN = re.compile(
    r'(?P<skip>//[^\n]*|\s+)|(?P<string>"[^"\n]*")|(?P<op>delta\.\w+)'
    r"|(?P<value>%\w+)|(?P<block>@\w+)|(?P<number>\d+)|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<sign>==|<=|>=|!=|.)"
)


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass
class Statement:
    """An op: its tokens from `first` up to `last`, and those of its region
    from the brace at `opens` to the one at `closes`."""

    op: str
    at: int
    first: int
    last: int
    parent: "Statement | None"
    opens: int | None = None
    closes: int | None = None
    children: list["Statement"] = field(default_factory=list)

    @property
    def top(self) -> "Statement":
        return self if self.parent is None else self.parent.top

    @property
    def siblings(self) -> list["Statement"]:
        return self.parent.children if self.parent else [self]


class FamilyText:
    """A text and its statements, outer ones first."""

    def __init__(self, path: Path, source: str | None = None):
        self.path = path
        self.source = path.read_text() if source is None else source
        self.tokens = [
            Token(match.lastgroup, match.group(), match.start(), match.end())
            for match in TOKEN.finditer(self.source)
            if match.lastgroup != "skip"
        ]
        self.statements: list[Statement] = []
        self._parse()

    def _parse(self) -> None:
        regions: list[Statement] = []
        current: Statement | None = None
        closed: Statement | None = None
        for index, token in enumerate(self.tokens):
            if token.kind == "op":
                first = self._first_result(index)
                if current:
                    current.last = first
                parent = regions[-1] if regions else None
                current = Statement(token.text, index, first, index, parent)
                self.statements.append(current)
                if parent:
                    parent.children.append(current)
            elif token.text == "{" and current:
                current.last = current.opens = index
                regions.append(current)
                current = None
            elif token.text == "{" and closed:
                # An `else`: the region of the same `if` goes on.
                regions.append(closed)
            elif token.text == "}":
                if current:
                    current.last = index
                    current = None
                closed = regions.pop()
                closed.closes = index
        if current:
            current.last = len(self.tokens)

    def _first_result(self, index: int) -> int:
        first = index
        if index and self.tokens[index - 1].text == "=":
            first -= 1
            while first and (
                self.tokens[first - 1].kind == "value"
                or self.tokens[first - 1].text == ","
            ):
                first -= 1
        return first

    # --- places ----------------------------------------------------------- #

    def around(self, at: int) -> Statement | None:
        """The innermost statement at a character."""
        found = None
        for statement in self.statements:
            start, end = self.span(statement)
            if start <= at <= end:
                found = statement
        return found

    def first_of_region(self, statement: Statement) -> Statement:
        """The first statement that is bound whenever this one is: of its
        region, or of its branch of an `if`. Of a block or family itself."""
        first = None
        for sibling in statement.siblings:
            if first is None or any(
                token.text == "}"
                for token in self.tokens[after : sibling.first]
            ):
                first = sibling
            if sibling is statement:
                break
            after = sibling.last
            if sibling.closes is not None:
                after = sibling.closes + 1
        return first

    def header(self, statement: Statement) -> list[int]:
        """Indices of the tokens of a statement without its region."""
        return list(range(statement.first, statement.last))

    def span(self, statement: Statement) -> tuple[int, int]:
        """Characters from the first result to the end of the region."""
        last = statement.last - 1
        if statement.closes is not None:
            last = statement.closes
        return self.tokens[statement.first].start, self.tokens[last].end

    def results(self, statement: Statement) -> list[int]:
        return [
            index
            for index in range(statement.first, statement.at)
            if self.tokens[index].kind == "value"
        ]

    def operands(self, statement: Statement) -> list[int]:
        return [
            index
            for index in range(statement.at, statement.last)
            if self.tokens[index].kind == "value"
        ]

    def lists(self, statement: Statement) -> list[list[tuple[int, int]]]:
        """Bracketed lists of a header; items as characters from and to."""
        found, items, depth, start = [], [], 0, 0
        for index in range(statement.at, statement.last):
            token = self.tokens[index]
            if token.text == "[" and self._is_list(index):
                depth, items, start = 1, [], token.end
            elif depth and token.text in "([":
                depth += 1
            elif depth == 1 and token.text in (",", "]"):
                before = self.tokens[index - 1].end
                items.append((self.tokens_start(start), before))
                start = token.end
                if token.text == "]":
                    depth = 0
                    found.append([i for i in items if i[0] < i[1]])
            elif depth and token.text in ")]":
                depth -= 1
        return found

    def _is_list(self, index: int) -> bool:
        """Not the index of a list: no word touches the bracket."""
        return self.tokens[index - 1].end != self.tokens[index].start

    def tokens_start(self, place: int) -> int:
        """First character at or after a place that is not blank."""
        while self.source[place].isspace():
            place += 1
        return place

    def line(self, place: int) -> int:
        return self.source.count("\n", 0, place) + 1

    # --- names ------------------------------------------------------------ #

    def name(self, statement: Statement) -> str:
        """`@sizes` of a block or family, else the op."""
        after = self.tokens[statement.at + 1]
        return after.text if after.kind == "block" else statement.op

    def uses(self, top: Statement) -> set[str]:
        """Blocks that a block or family names."""
        return {
            self.name(statement)
            for statement in self.statements
            if statement.op == "delta.use" and statement.top is top
        }

    def imports(self) -> list[str]:
        return [
            self.tokens[statement.at + 1].text.strip('"')
            for statement in self.statements
            if statement.op == "delta.import"
        ]
