# ===- __init__.py - CUDA plans beside host plans -------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Holds what CUDA plans do to what host plans of the same models do."""
