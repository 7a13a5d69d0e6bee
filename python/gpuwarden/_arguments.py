# SPDX-License-Identifier: Apache-2.0
"""Arguments of the public functions, checked before the extension sees them: a slip raises Error, which names it."""
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

from gpuwarden._error import Error, invalid

F = TypeVar("F", bound=Callable[..., Any])


def _not_a(name: str, value: Any, wanted: str) -> Error:
    shown = repr(value)
    return invalid(f"{name} must be {wanted}, not {shown if len(shown) <= 60 else shown[:57] + '...'}")


def text(name: str, value: Any) -> str:
    """A str; raises Error (invalid_argument) for everything else."""
    if not isinstance(value, str):
        raise _not_a(name, value, "a text")
    return value


def number(name: str, value: Any) -> float:
    """An int, a float, or what float() takes, but no text."""
    try:
        if isinstance(value, (str, bytes, bool)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise _not_a(name, value, "a number") from None


def whole(name: str, value: Any, least: int = 0, most: int = 2**64 - 1) -> int:
    """An int from `least` to `most`; what stands for one (numpy's) does, too."""
    try:
        found = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        raise _not_a(name, value, "a whole number") from None
    if isinstance(value, bool) or not least <= found <= most:
        raise _not_a(name, value, f"a whole number of at least {least}" if found < least else f"at most {most}")
    return found


def gpu_index(name: str, value: Any) -> int:
    """The number of a GPU."""
    return whole(name, value, most=2**32 - 1)


def maybe_gpu_index(name: str, value: Any) -> int | None:
    """The number of a GPU, or None."""
    return None if value is None else gpu_index(name, value)


def function(name: str, value: F) -> F:
    """Something that can be called."""
    if not callable(value):
        raise _not_a(name, value, "a function")
    return value
