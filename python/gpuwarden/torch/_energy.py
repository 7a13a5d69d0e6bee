# SPDX-License-Identifier: Apache-2.0
"""What a GPU used, from its own counter, read through gpuwarden."""

from __future__ import annotations

import time
from typing import Any

#: The counter moves in steps of tens of milliseconds; over a shorter time the difference says little.
LEAST_SECONDS = 1.0


class EnergyCounter:
    """The energy of one CUDA device since the driver was loaded, in joules; `why` says why it cannot be read."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.why = ""
        self._uuid = ""
        self._machine: Any = None
        if device.type != "cuda":
            self.why = "only a GPU counts its energy"
            return
        self._uuid = str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))
        if not self._uuid:
            self.why = f"PyTorch {torch.__version__} does not tell which GPU it uses"
            return
        try:
            import gpuwarden

            self._machine = gpuwarden.Machine()
        except Exception as problem:
            self.why = f"the GPU cannot be read: {problem}"

    def joules(self) -> float | None:
        """The counter now; None, with `why` set, where it cannot be read."""
        if self.why:
            return None
        try:
            found = self._machine.snapshot().to_dict()
        except Exception as problem:
            self.why = f"the GPU cannot be read: {problem}"
            return None
        for gpu in found.get("gpus", []):
            if _bytes_of(str(gpu.get("uuid", ""))) == _bytes_of(self._uuid):
                value = (gpu.get("sample") or gpu).get("energy_joules")
                if value is None:
                    self.why = "this GPU has no energy counter"
                return None if value is None else float(value)
        self.why = "gpuwarden does not show the GPU that PyTorch uses"
        return None


def _bytes_of(uuid: str) -> str:
    """ "GPU-1b2c..." and "1b2c..." name the same."""
    return uuid.lower().split("gpu-", 1)[-1]


def joules_per_call(counter: EnergyCounter, work: Any, seconds_per_call: float, clock: Any = time.perf_counter) -> float | None:
    """Calls `work` (which waits for the device) for at least LEAST_SECONDS between two readings."""
    before = counter.joules()
    if before is None:
        return None
    calls = 0
    begin = clock()
    while clock() - begin < LEAST_SECONDS or calls == 0:
        work()
        calls += 1
        if seconds_per_call <= 0 and calls >= 1000:
            break
    after = counter.joules()
    return None if after is None or after < before else (after - before) / calls
