# ===- options.py - Values of options, checked ----------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Types for argparse: what is not possible is refused before it is measured."""

import argparse
from collections.abc import Callable


def share(text: str) -> float:
    """Of the elements that change: 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(
            f"{text} is no share of the elements: 0 to 1 is required"
        )
    return value


def at_least(least: int) -> Callable[[str], int]:
    """A whole number, `least` or more."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(
                f"{text}: a number of {least} or more is required"
            )
        return value

    return parse
