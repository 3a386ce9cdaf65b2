# ===- driver.py - Memory of a GPU, by the CUDA driver --------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Allocates, fills and reads memory without torch, whose start takes minutes
under a sanitizer."""

import ctypes as c
import os

_address = c.c_uint64
_size = c.c_size_t

# Name in the library, argument types.
FUNCTIONS = (
    ("cuInit", (c.c_uint,)),
    ("cuDeviceGet", (c.POINTER(c.c_int), c.c_int)),
    ("cuDevicePrimaryCtxRetain", (c.POINTER(c.c_void_p), c.c_int)),
    ("cuCtxSetCurrent", (c.c_void_p,)),
    ("cuMemAlloc_v2", (c.POINTER(_address), _size)),
    ("cuMemFree_v2", (_address,)),
    ("cuMemcpyHtoD_v2", (_address, c.c_void_p, _size)),
    ("cuMemcpyDtoH_v2", (c.c_void_p, _address, _size)),
    ("cuCtxSynchronize", ()),
    ("cuStreamCreate", (c.POINTER(c.c_void_p), c.c_uint)),
    ("cuGetErrorString", (c.c_int, c.POINTER(c.c_char_p))),
)

# A stream that does not wait for the default one.
NON_BLOCKING = 1


class CudaError(Exception):
    """A call of the driver that failed, and what it says of it."""


class Cuda:
    """Device 0, current in this thread from here on; OSError where there is no
    driver."""

    def __init__(self) -> None:
        try:
            self._library = c.CDLL(
                os.environ.get("DELTA_CUDA_DRIVER", "libcuda.so.1")
            )
        except OSError as error:
            raise OSError(f"no CUDA driver: {error}") from error
        for name, arguments in FUNCTIONS:
            function = getattr(self._library, name)
            function.argtypes, function.restype = list(arguments), c.c_int
        self._call("cuInit", 0)
        device, context = c.c_int(), c.c_void_p()
        self._call("cuDeviceGet", c.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", c.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        stream = c.c_void_p()
        self._call("cuStreamCreate", c.byref(stream), NON_BLOCKING)
        self.stream = stream.value or 0

    def allocate(self, num_bytes: int) -> int:
        address = _address()
        self._call("cuMemAlloc_v2", c.byref(address), num_bytes)
        return address.value

    def free(self, address: int) -> None:
        self._call("cuMemFree_v2", address)

    def write(self, address: int, data: bytes) -> None:
        """After all that is enqueued, before all that will be."""
        if data:
            self.wait()
            self._call("cuMemcpyHtoD_v2", address, data, len(data))
            self.wait()

    def read(self, address: int, num_bytes: int) -> bytes:
        """After all that is enqueued."""
        out = c.create_string_buffer(max(num_bytes, 1))
        if num_bytes:
            self.wait()
            self._call("cuMemcpyDtoH_v2", out, address, num_bytes)
        return out.raw[:num_bytes]

    def wait(self) -> None:
        self._call("cuCtxSynchronize")

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._library, name)(*arguments)
        if result:
            text = c.c_char_p()
            self._library.cuGetErrorString(result, c.byref(text))
            said = (text.value or b"unknown error").decode()
            raise CudaError(f"{name}: {said}")
