# SPDX-License-Identifier: Apache-2.0
"""Moments of a training step: on the host's clock, or in the stream of a GPU."""

from __future__ import annotations

from typing import Any, Callable


class HostMarks:
    """Moments are seconds of a clock: where the host computes, or work is waited for."""

    on_device = False

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def mark(self) -> Any:
        return self._clock()

    def seconds(self, start: Any, end: Any) -> float:
        return float(end - start)


class CudaMarks:
    """Moments are events in PyTorch's current stream: when the GPU got there, not when it was told to."""

    on_device = True

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def mark(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start: Any, end: Any) -> float:
        """Waits until the GPU is there: ask for steps that are long past."""
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3
