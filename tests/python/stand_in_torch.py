# SPDX-License-Identifier: Apache-2.0
"""What gpuwarden.gpu asks of a torch that sees CUDA, as plain Python: a stand-in, where neither torch nor a GPU is. What
a real one does scripts/gpu_acceptance.sh shows (tests/python/pytorch/test_cuda_manager.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

GIB = 2**30


@dataclass(frozen=True)
class Device:
    name: str

    @property
    def type(self) -> str:
        return self.name.partition(":")[0]

    @property
    def index(self) -> int | None:
        number = self.name.partition(":")[2]
        return int(number) if number else None

    def __str__(self) -> str:
        return self.name


class Cuda:
    """`allocated` and `reserved` are bytes by device; `calls` what was asked for."""

    def __init__(self, count: int) -> None:
        self.allocated = [0] * count
        self.reserved = [0] * count
        self.calls: list[tuple[Any, ...]] = []
        self.inside: list[str] = []

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return False

    def device_count(self) -> int:
        return len(self.reserved)

    @staticmethod
    def _number(device: Any) -> int:
        return device if isinstance(device, int) else device.index

    def memory_allocated(self, device: Any) -> int:
        return self.allocated[self._number(device)]

    def memory_reserved(self, device: Any) -> int:
        return self.reserved[self._number(device)]

    def get_device_properties(self, device: Any) -> Any:
        return SimpleNamespace(total_memory=80 * GIB)

    def empty_cache(self) -> None:
        self.calls.append(("empty_cache",))
        self.reserved = list(self.allocated)

    def set_per_process_memory_fraction(self, fraction: float, device: Any) -> None:
        self.calls.append(("fraction", fraction, self._number(device)))

    @contextlib.contextmanager
    def device(self, device: Device) -> Iterator[None]:
        self.inside.append(str(device))
        try:
            yield
        finally:
            self.inside.pop()


class Distributed:
    def __init__(self) -> None:
        self.started: list[tuple[str, dict[str, Any]]] = []

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return bool(self.started)

    def init_process_group(self, backend: str, **options: Any) -> None:
        self.started.append((backend, options))


class Torch:
    __version__ = "2.99.0+stand.in"
    Tensor = object

    def __init__(self, count: int = 8) -> None:
        self.cuda = Cuda(count)
        self.distributed = Distributed()
        self.device = Device


class Model:
    """A model of one parameter of so many bytes on one device, whose memory the stand-in counts."""

    def __init__(self, torch: Torch, device: str, size: int) -> None:
        self._torch = torch
        self._place, self._size = Device(device), size
        torch.cuda.allocated[self._place.index or 0] += size
        torch.cuda.reserved[self._place.index or 0] += size

    def parameters(self) -> list[Any]:
        return [SimpleNamespace(device=self._place, numel=lambda: self._size, element_size=lambda: 1)]

    def buffers(self) -> list[Any]:
        return []

    def to(self, device: str) -> Model:
        assert device == "cpu"
        self._torch.cuda.allocated[self._place.index or 0] -= self._size
        self._place = Device("cpu")
        return self
