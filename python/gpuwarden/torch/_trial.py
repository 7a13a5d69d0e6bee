# SPDX-License-Identifier: Apache-2.0
"""Tries the steps one after another on example inputs, and keeps those that are measured to help.

Imports torch at once."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import torch

from . import _agreement, _measure
from ._common import first_line, synchronize, tensors_of
from ._inputs import Call
from ._measure import Comparison, Measurement
from ._steps import Situation, Step
from ._variant import Variant, memory_bytes
from .report import FAILED, KEPT, LEFT_OUT, REFUSED, StepResult

_SEED = 20_011
#: Less memory counts from this share on, where the time is known this well.
_LEAST_SAVING = 0.01
_KNOWN_WELL = 0.10


@contextlib.contextmanager
def undisturbed(model: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """Puts random numbers and the model's buffers back as they were."""
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in buffers:
                    buffer.copy_(value)


@dataclass
class _Tried:
    """A variant that computes the same, beside what was kept before it."""

    variant: Variant
    comparison: Comparison
    error: float
    memory: int | None


class Trial:
    """One model's trials. `limit` overrides the tolerances of the table."""

    def __init__(self, situation: Situation, calls: list[Call], measurement: Measurement, limit: float | None) -> None:
        self.situation = situation
        self.calls = calls
        self.measurement = measurement
        self.limit = limit
        self.expected: list[Any] = []

    def look_at_original(self, original: Variant) -> str:
        """Notes the original's outputs; returns "" or why nothing can be compared with them. What the model raises is
        raised."""
        self.expected = [self._output(original, call) for call in self.calls]
        again = [self._output(original, call) for call in self.calls]
        apart, why = self._error_beside(again)
        if why:
            return why
        if apart > _agreement.TOLERANCES["fp32"]:
            return f"the model's output is random: two calls with the same seed are {apart:.1e} apart"
        return ""

    def tolerance_of(self, step: Step) -> float:
        return _agreement.TOLERANCES[step.tolerance] if self.limit is None else self.limit

    def error_of(self, variant: Variant) -> tuple[float, str]:
        return self._error_beside([self._output(variant, call) for call in self.calls])

    def run(
        self, current: Variant, steps: list[Step], reasons: dict[str, str], tolerance: float
    ) -> tuple[Variant, list[StepResult], float]:
        """Tries the steps of a group (or the one) beside `current`; the fastest that helps is kept. `tolerance` is what
        the steps kept so far may differ; returned widened where the kept one needs that."""
        results: list[StepResult] = []
        best: tuple[int, Step, _Tried] | None = None
        memory = self._memory(current)
        for step in steps:
            base = StepResult(step.id, step.summary, LEFT_OUT, reasons.get(step.id, ""))
            if base.reason:
                results.append(base)
                continue
            allowed = max(tolerance, self.tolerance_of(step))
            result, tried = self._try(current, step, base, allowed, memory)
            results.append(result)
            if tried is None:
                continue
            if best is not None and tried.comparison.gain <= best[2].comparison.gain:
                results[-1] = dataclasses.replace(result, outcome=REFUSED, reason=f"{result.reason}; {best[1].id} gains more")
                continue
            if best is not None:
                loser = results[best[0]]
                results[best[0]] = dataclasses.replace(loser, outcome=REFUSED, reason=f"{loser.reason}; {step.id} gains more")
            best = (len(results) - 1, step, tried)
        if best is None:
            return current, results, tolerance
        return best[2].variant, results, max(tolerance, self.tolerance_of(best[1]))

    def _try(
        self, current: Variant, step: Step, base: StepResult, allowed: float, memory: int | None
    ) -> tuple[StepResult, _Tried | None]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tried = self._measure_step(current, step, allowed)
        except Exception as problem:
            return dataclasses.replace(base, outcome=FAILED, reason=first_line(problem)), None
        if isinstance(tried, str):
            return dataclasses.replace(base, outcome=REFUSED, reason=tried, tolerance=allowed), None
        outcome, reason = judge(tried.comparison, memory, tried.memory)
        result = dataclasses.replace(
            base,
            outcome=outcome,
            reason=reason,
            gain_percent=round(100 * tried.comparison.gain, 2),
            noise_percent=round(100 * tried.comparison.noise, 2),
            relative_error=tried.error,
            tolerance=allowed,
            memory_before_bytes=memory,
            memory_after_bytes=tried.memory,
        )
        return result, tried if outcome == KEPT else None

    def _measure_step(self, current: Variant, step: Step, allowed: float) -> _Tried | str:
        variant = step.apply(self.situation, current)
        error, why = self.error_of(variant)
        if why:
            return why
        if not error <= allowed:
            return f"the output's relative error is {error:.1e}, more than {allowed:.0e}"
        return _Tried(variant, self.compare(current, variant), error, self._memory(variant))

    def compare(self, before: Variant, after: Variant) -> Comparison:
        device = self.situation.device
        return _measure.compare(self._work(before), self._work(after), lambda: synchronize(torch, device), self.measurement)

    def _work(self, variant: Variant) -> Callable[[], object]:
        call = self.calls[0]
        if not self.situation.training:
            return lambda: call.of(variant)
        weights = [p for p in self.situation.model.parameters() if p.requires_grad]

        def step() -> object:
            outputs = [t for t in tensors_of(torch, call.of(variant)) if t.requires_grad]
            total = torch.stack([output.float().sum() for output in outputs]).sum()
            # Gradients beside the parameters' own, which belong to the user's training.
            return torch.autograd.grad(total, weights, allow_unused=True)

        return step

    def _memory(self, variant: Variant) -> int | None:
        if self.situation.training:
            return None
        try:
            return memory_bytes(variant, self.calls[0], self.situation.device)
        except RuntimeError:
            return None

    def _output(self, variant: Variant, call: Call) -> Any:
        torch.manual_seed(_SEED)
        output = call.of(variant)
        synchronize(torch, self.situation.device)
        # Graphs and in-place layers use memory of outputs again.
        return [tensor.detach().clone() for tensor in tensors_of(torch, output)]

    def _error_beside(self, outputs: list[Any]) -> tuple[float, str]:
        worst = 0.0
        for expected, found in zip(self.expected, outputs):
            apart, why = _agreement.difference(torch, expected, found)
            if why:
                return apart, why
            worst = max(worst, apart)
        return worst, ""


def judge(comparison: Comparison, before: int | None, after: int | None) -> tuple[str, str]:
    """Whether a step helps: a call is faster by more than the noise, or it needs measurably less memory and is not
    slower."""
    gain, noise = 100 * comparison.gain, 100 * comparison.noise
    if comparison.faster:
        return KEPT, f"{gain:.1f} % less time a call (noise {noise:.1f} %)"
    if comparison.slower:
        return REFUSED, f"{-gain:.1f} % more time a call (noise {noise:.1f} %)"
    saved = 0 if before is None or after is None else before - after
    if saved <= 0 or before is None or saved < _LEAST_SAVING * before:
        return REFUSED, f"no measured help: {gain:+.1f} % is within the noise of {noise:.1f} %"
    if comparison.noise > _KNOWN_WELL:
        return REFUSED, f"{saved} bytes less memory, but the time is not known: the noise is {noise:.1f} %"
    return KEPT, f"{saved} bytes ({100 * saved / before:.0f} %) less memory, no slower (noise {noise:.1f} %)"
