# SPDX-License-Identifier: Apache-2.0
"""A GPU that is simulated beside PyTorch on the CPU: every operation that a program really calls, every copy and every
value that it fetches moves a clock. What programs do is real, how long it takes is not: no machine's load moves it."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

#: Of no real GPU: multiply-adds a second, bytes a second, seconds.
FLOPS = {"float32": 1e12, "bfloat16": 8e12, "float16": 8e12}
PAGEABLE, PINNED = 3e9, 12e9
LAUNCH = 5e-6
LEAST = 2e-6


class SimulatedGpu(TorchFunctionMode):
    """The marks of a step monitor, as CudaMarks are. The host launches, the GPU works off, fetching a value waits."""

    on_device = True

    def __init__(self, clock: Any, pinned: bool = True) -> None:
        super().__init__()
        self._clock = clock
        self._pinned = pinned
        self._busy_until = 0.0

    def mark(self) -> float:
        return max(self._busy_until, self._clock.now)

    def seconds(self, start: float, end: float) -> float:
        return end - start

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        if name == "item":
            self._clock.now = self.mark()
        elif name == "to":
            self._copy(args[0].numel() * args[0].element_size())
        elif not name.startswith("__"):
            self._clock.now += LAUNCH
            self._busy_until = self.mark() + self._work(args)
        return result

    def _copy(self, size: int) -> None:
        self._busy_until = self.mark() + size / (PINNED if self._pinned else PAGEABLE)
        if not self._pinned:  # the host waits for the driver's buffer
            self._clock.now = self._busy_until

    @staticmethod
    def _work(args: Any) -> float:
        matrices = [one for one in args if hasattr(one, "dim") and one.dim() >= 2]
        if len(matrices) < 2:
            return LEAST
        kind = str(matrices[-1].dtype).replace("torch.", "")
        return max(LEAST, 2.0 * matrices[0].numel() * matrices[1].shape[0] / FLOPS.get(kind, 1e12))
