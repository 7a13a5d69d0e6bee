# SPDX-License-Identifier: Apache-2.0
"""The module that optimize_model gives back. Imports torch at once."""

from __future__ import annotations

from typing import Any

import torch

from ._common import error
from ._variant import Variant, move
from .report import OptimizationReport

_AGAIN = "undo(model) gives the original back; change that, then call optimize_model again"


class OptimizedModel(torch.nn.Module):
    """The optimised form of a model, called as the original is. `state_dict()` and `load_state_dict()` are the
    original's; attributes that it lacks are looked up in the optimised module."""

    def __init__(self, original: torch.nn.Module, variant: Variant, report: OptimizationReport, training: bool) -> None:
        super().__init__()
        # Set past torch.nn.Module, which would take the original for a submodule with parameters of its own.
        object.__setattr__(self, "original", original)
        object.__setattr__(self, "report", report)
        object.__setattr__(self, "_variant", variant)
        object.__setattr__(self, "_trains", training)
        self.module = variant.module
        self.training = training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._variant(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            module = self.__dict__.get("_modules", {}).get("module")
            if module is None:
                raise
            return getattr(module, name)

    def train(self, mode: bool = True) -> OptimizedModel:
        """Raises Error (invalid_argument) for a model that was optimised for inference."""
        if mode and not self._trains:
            kept = ", ".join(self.report.kept) or "evaluation mode"
            raise error(
                "invalid_argument",
                f"the model was optimised for inference ({kept}) and cannot be trained",
                "train the original, which undo(model) gives back; or optimize_model(..., training=True)",
            )
        super().train(mode)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.original.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Raises Error (invalid_argument): the optimised weights would stay what they were."""
        raise error("invalid_argument", "weights cannot be loaded into an optimised model", _AGAIN)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> OptimizedModel:
        """Moves the original along. Raises Error (invalid_argument) for a conversion to other types."""
        moves = False
        for tensor in [*self.original.parameters(), *self.module.parameters(), *self.module.buffers()]:
            # An empty one tells as much, and takes no memory.
            empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            changed = fn(empty)
            if changed.dtype != tensor.dtype:
                raise error(
                    "invalid_argument",
                    f"an optimised model cannot be converted to {changed.dtype}: it was measured as it is",
                    _AGAIN,
                )
            moves = moves or changed.device != tensor.device
        if moves:
            move(self.original, self.module, fn)
        return self

    def extra_repr(self) -> str:
        return "kept: " + (", ".join(self.report.kept) or "nothing")
