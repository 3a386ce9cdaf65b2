# ===- error.py - Statuses as exceptions ----------------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""What a plan refuses, and how its functions are called."""

import ctypes
from typing import Any

from . import _abi
from ._abi import Status

# Bytes of the longest text that a call writes.
TEXT_BYTES = 2048


class DeltaError(Exception):
    """A status that is not OK, and what was wrong."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Caller:
    """Calls functions of a plan's table that end with a `delta_error_t`. For
    one thread at a time: the text of a failure has one place."""

    def __init__(self, api: _abi.delta_plan_api_t) -> None:
        self.api = api
        self._text = ctypes.create_string_buffer(TEXT_BYTES)
        self._error = _abi.delta_error_t(
            ctypes.cast(self._text, ctypes.c_void_p), TEXT_BYTES
        )

    @property
    def text(self) -> str:
        """What the last call wrote; it may say something where it is OK."""
        return self._text.value.decode(errors="replace")

    def __call__(self, name: str, *arguments: Any) -> None:
        """Raises the status of a call that is not OK."""
        function = self._function(name)
        self._text[0] = b"\0"
        status = function(*arguments, self._error)
        if status != Status.OK:
            raise DeltaError(Status(status), self.text or name)

    def offers(self, name: str) -> bool:
        """Whether the plan has the function: one of an earlier compiler may
        have a shorter table."""
        return _abi.has_field(self.api, name) and bool(getattr(self.api, name))

    def _function(self, name: str) -> Any:
        if not self.offers(name):
            raise DeltaError(
                Status.INVALID_ARGUMENT,
                f"{name}: the plan does not offer it: compile it again",
            )
        return getattr(self.api, name)
