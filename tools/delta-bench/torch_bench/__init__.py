# ===- __init__.py - A plan on tensors of torch, measured -----------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Syncs of compiled plans over torch tensors, timed and compared bit for bit
with the published converter's export. README.md says how to run it."""
