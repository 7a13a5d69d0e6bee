# SPDX-License-Identifier: Apache-2.0
"""What optimize_model did, gained and refused."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass, field
from typing import Any

#: What became of a step.
KEPT, REFUSED, FAILED, LEFT_OUT = "kept", "refused", "failed", "not applicable"
OUTCOMES = (KEPT, REFUSED, FAILED, LEFT_OUT)


@dataclass(frozen=True)
class StepResult:
    """One step of the table. Figures are None where nothing was measured."""

    id: str
    summary: str
    outcome: str  #: "kept", "refused" (measured, and no help or too inexact), "failed", "not applicable"
    reason: str
    gain_percent: float | None = None  #: of the time of a call, beside what was kept before; negative: slower
    noise_percent: float | None = None  #: a gain of less may be chance
    relative_error: float | None = None  #: of the output, beside the original's
    tolerance: float | None = None  #: what that may be
    memory_before_bytes: int | None = None
    memory_after_bytes: int | None = None


@dataclass(frozen=True)
class OptimizationReport:
    """What was done to a model. Times are medians of a call with the example inputs."""

    name: str
    level: str
    precision: str
    device: str
    torch_version: str
    training: bool
    original_ms: float | None
    optimized_ms: float | None
    relative_error: float | None
    steps: tuple[StepResult, ...]
    from_cache: bool = False
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def kept(self) -> tuple[str, ...]:
        """The ids of the steps that the model now has, in their order."""
        return tuple(step.id for step in self.steps if step.outcome == KEPT)

    @property
    def speedup(self) -> float | None:
        """How many times as fast as the original; None where it was not measured."""
        if self.original_ms is None or not self.optimized_ms:
            return None
        return self.original_ms / self.optimized_ms

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with `kept` and `speedup`."""
        result = asdict(self)
        result["steps"] = [asdict(step) for step in self.steps]
        result["notes"] = list(self.notes)
        result["kept"] = list(self.kept)
        result["speedup"] = self.speedup
        return result

    def _headline(self) -> str:
        text = f"{self.name}: {self.level} {self.precision} on {self.device}, PyTorch {self.torch_version}"
        if self.speedup is not None:
            text += f": {self.original_ms:.4g} ms -> {self.optimized_ms:.4g} ms ({self.speedup:.2f} times as fast)"
        if self.relative_error is not None:
            text += f", relative error {self.relative_error:.1e}"
        return text + (", from the cache" if self.from_cache else "")

    def __repr__(self) -> str:
        width = max((len(step.id) for step in self.steps), default=0)
        lines = [self._headline()]
        lines += [f"  {step.id:<{width}}  {step.outcome:<14}  {step.reason}" for step in self.steps]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(step.id)}</td><td>{html.escape(step.outcome)}</td><td>{html.escape(step.reason)}</td></tr>"
            for step in self.steps
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        head = "<tr><th>step</th><th>outcome</th><th>why</th></tr>"
        return f"<p>{html.escape(self._headline())}</p><table>{head}{rows}</table>{notes}"
