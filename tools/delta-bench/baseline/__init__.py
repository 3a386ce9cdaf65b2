# ===- __init__.py - The published peer on a shard of ours ----------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""verl's delta export and Megatron-Bridge's converter, run on one rank's shard.

`Peer.open` of `peer` first; README.md says what is real.
"""
