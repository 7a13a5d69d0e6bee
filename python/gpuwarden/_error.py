# SPDX-License-Identifier: Apache-2.0
"""The one exception that everything here raises."""
from __future__ import annotations


class Error(Exception):
    """What failed, on what, and what to do about it.

    Attributes:
        code: for programs: "invalid_argument", "not_found", "unsatisfied", "unavailable", "permission_denied",
            "timed_out", "interrupted", "corrupt" or "failed".
        message: a sentence for people.
        hint: what to do; may be empty.
    """

    code: str
    message: str
    hint: str

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


def invalid(message: str, hint: str = "") -> Error:
    """An Error with the code invalid_argument."""
    return Error("invalid_argument", message, hint)
