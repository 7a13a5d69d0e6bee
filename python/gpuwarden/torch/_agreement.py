# SPDX-License-Identifier: Apache-2.0
"""How far a changed model's output is from the original's, and how far it may be."""

from __future__ import annotations

import math
from typing import Any

from ._common import tensors_of

#: Largest relative error of a step by the numbers it computes with: the length of the difference over the length of
#: the original's output. fp16 and bf16 keep 11 and 8 bits; over the layers of a network errors grow to some units of
#: the last place. int8 keeps 8 bits of weights and activations.
TOLERANCES = {"fp32": 1e-4, "tf32": 5e-3, "fp16": 1e-2, "bf16": 4e-2, "int8": 1e-1}


def difference(torch: Any, original: Any, changed: Any) -> tuple[float, str]:
    """Relative error over all tensors of two outputs, and "" or why they cannot be compared (error is then inf).
    Whole numbers and booleans count by the share of elements that differ."""
    expected = list(tensors_of(torch, original))
    found = list(tensors_of(torch, changed))
    if len(expected) != len(found):
        return math.inf, f"{len(found)} output tensors instead of {len(expected)}"
    if not expected:
        return math.inf, "the output holds no tensor"
    worst = 0.0
    for a, b in zip(expected, found):
        if a.shape != b.shape:
            return math.inf, f"an output of shape {tuple(b.shape)} instead of {tuple(a.shape)}"
        if a.numel() == 0:
            continue
        apart, why = _apart(torch, a, b)
        if why:
            return math.inf, why
        worst = max(worst, apart)
    return worst, ""


def _apart(torch: Any, a: Any, b: Any) -> tuple[float, str]:
    if not a.is_floating_point() and not a.is_complex():
        return float((a != b.to(a.dtype)).double().mean()), ""
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.detach().to("cpu").to(wide), b.detach().to("cpu").to(wide)
    finite = torch.isfinite(a.abs())
    if not bool((torch.isfinite(b.abs()) == finite).all()):
        return math.inf, "the output is no longer finite where the original's is"
    odd = ~finite
    if bool(odd.any()) and not bool(((a[odd] == b[odd]) | (a[odd].isnan() & b[odd].isnan())).all()):
        return math.inf, "the output's infinities are others than the original's"
    length = float(a[finite].abs().square().sum().sqrt())
    apart = float((a[finite] - b[finite]).abs().square().sum().sqrt())
    if length == 0:
        return (0.0, "") if apart == 0 else (math.inf, "the original's output is all zeros, and this one is not")
    return apart / length, ""
