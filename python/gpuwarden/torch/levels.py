# SPDX-License-Identifier: Apache-2.0
"""How far an optimisation goes, and in which numbers the model computes afterwards."""

from __future__ import annotations

import enum
from typing import Any, TypeVar

from ._common import error


class OptimizationLevel(str, enum.Enum):
    """Which steps are tried; each level includes those before it."""

    NONE = "none"
    BASIC = "basic"  #: evaluation and inference mode, memory layout, cuDNN's choice of kernels, and the precision asked for
    AGGRESSIVE = "aggressive"  #: compilation, fusion of operations, TF32
    EXPERIMENTAL = "experimental"  #: parts of PyTorch that are costly to compile, or may still change


class ModelPrecision(str, enum.Enum):
    """The numbers that a model computes with."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"
    MIXED = "mixed"  #: autocast: bf16 where the device computes in it, else fp16


Choice = TypeVar("Choice", bound=enum.Enum)


def choice_of(kind: type[Choice], value: Any, what: str) -> Choice:
    """A member of `kind` from itself, from its name or value in any case, or from another enum's member of the same
    name (the one of gpuwarden.gpu). Raises Error (invalid_argument)."""
    if isinstance(value, kind):
        return value
    text = value.name if isinstance(value, enum.Enum) else value
    if isinstance(text, str):
        for member in kind:
            if text.strip().lower() in (member.name.lower(), str(member.value).lower()):
                return member
    known = ", ".join(str(member.value) for member in kind)
    raise error("invalid_argument", f"unknown {what} {value!r}", known)


#: In rising order.
LEVELS = tuple(OptimizationLevel)


def reaches(level: OptimizationLevel, least: OptimizationLevel) -> bool:
    """Whether `level` includes the steps of `least`."""
    return LEVELS.index(level) >= LEVELS.index(least)
