# ===- lit.cfg.py - How the text tests run --------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tests are shell lines in .mlir and .test files (RUN:), run by bash. Features:
# cuda (nvcc is there), nccl (its header is there), shared (the data folder
# beside the repository is there), sanitized (a build under sanitizers).
#
# ===----------------------------------------------------------------------=== #

import os

import lit.formats

config.name = "delta"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.delta_test_dir

# The tools of this build, then those of the LLVM that it links: plain names in
# /usr/bin may be of an older one.
config.environment["PATH"] = os.pathsep.join(
    [config.delta_bin_dir, config.llvm_tools_dir, os.environ.get("PATH", "")]
)
for name in ("DELTA_SHARED", "NCCL_SOCKET_IFNAME", "CCACHE_DIR"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

if os.path.exists(config.delta_nvcc):
    config.available_features.add("cuda")
    config.substitutions.append(("%nvcc", config.delta_nvcc))
if os.path.isdir(config.delta_nccl_include):
    config.available_features.add("nccl")
if config.delta_sanitize:
    config.available_features.add("sanitized")
if "DELTA_SHARED" in os.environ:
    config.available_features.add("shared")

config.substitutions.append(("%models", config.delta_share_dir + "/models"))
config.substitutions.append(
    ("%examples", os.path.join(config.delta_source_dir, "models", "examples"))
)
config.substitutions.append(("%include", config.delta_share_dir + "/include"))
config.substitutions.append(("%lib", config.delta_lib_dir))
config.substitutions.append(("%python", config.delta_python))
