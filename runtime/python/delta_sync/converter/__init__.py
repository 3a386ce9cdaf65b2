# ===- __init__.py - The published converter, on a CPU --------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Builds a trainer's model with the published packages and runs their export.

`standins.install()` first; the other modules import the packages.
"""
