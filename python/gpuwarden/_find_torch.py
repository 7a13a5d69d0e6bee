# SPDX-License-Identifier: Apache-2.0
"""The one place in which PyTorch is imported, whatever its import raises."""

from __future__ import annotations

import importlib
from typing import Any


def import_torch() -> tuple[Any, str]:
    """PyTorch and "", or None and why it cannot be used: not installed, broken (a shared library that is missing raises
    OSError, extensions of another version raise what they like), or a folder that happens to be called torch."""
    try:
        torch = importlib.import_module("torch")
    except Exception as problem:
        lines = str(problem).strip().splitlines()
        kind = "" if isinstance(problem, ImportError) and lines else type(problem).__name__
        return None, ": ".join(part for part in (kind, lines[0] if lines else "") if part)
    if not hasattr(torch, "Tensor") or not hasattr(torch, "cuda"):
        return None, "the module torch that was imported is not PyTorch"
    return torch, ""
