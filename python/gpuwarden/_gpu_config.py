# SPDX-License-Identifier: Apache-2.0
"""What gpuwarden.gpu's managers are told and tell: their configuration, its words, alerts and failures."""
from __future__ import annotations

import dataclasses
import enum
import json
import weakref
from collections.abc import Mapping
from typing import Any, Optional, TypeVar

from gpuwarden import _core
from gpuwarden._error import invalid
from gpuwarden._machine import default_machine
from gpuwarden._values import Value
from gpuwarden.torch.levels import ModelPrecision, OptimizationLevel

T = TypeVar("T")


class AllocationStrategy(str, enum.Enum):
    """How memory is pooled (docs/memory.md)."""

    GREEDY = "greedy"
    BALANCED = "balanced"
    CONSOLIDATED = "consolidated"
    FRAGMENTATION_AWARE = "fragmentation_aware"
    STEADY = "steady"


class AlertLevel(str, enum.Enum):
    """How bad it is; levels compare by that."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

    def _rank(self) -> int:
        return list(AlertLevel).index(self)

    def __lt__(self, other: object) -> Any:
        return self._rank() < other._rank() if isinstance(other, AlertLevel) else NotImplemented

    def __le__(self, other: object) -> Any:
        return self._rank() <= other._rank() if isinstance(other, AlertLevel) else NotImplemented

    def __gt__(self, other: object) -> Any:
        return self._rank() > other._rank() if isinstance(other, AlertLevel) else NotImplemented

    def __ge__(self, other: object) -> Any:
        return self._rank() >= other._rank() if isinstance(other, AlertLevel) else NotImplemented


class DeviceState(str, enum.Enum):
    """What can be done with a GPU: work is given to those that are available or busy."""

    AVAILABLE = "available"
    BUSY = "busy"
    ERROR = "error"
    DISABLED = "disabled"


class Alert(Value):
    """An alert: `level` (AlertLevel), `message`, `next_step`, `rule`, `gpu` (its index), `value`, and `kind`: "began",
    or "repeated" while it lasts."""

    @property
    def level(self) -> AlertLevel:
        return AlertLevel(str(self["level"]).lower())


class DeviceFailure(Value):
    """A failure on a device: `device`, `operation`, `error` (code, message, hint), `attempt`, `will_retry`, and
    `failover`: the device on which the work goes on, or None."""


@dataclasses.dataclass
class GPUConfig:
    """What a GPUManager sets up. A value out of its range raises Error (invalid_argument), which names the key and its
    range.

    device_ids: the GPUs that are managed; None: every visible one.
    memory_fraction: share of a GPU's memory that may be taken, above 0, at most 1; None: all.
    optimization_level, precision: what optimize_model() tries; MIXED needs enable_amp.
    enable_compile, enable_channels_last: without them those steps are left out.
    enable_memory_pooling: memory that is given back is kept for the next allocation, in the pool of memory_manager and in
        torch's cache after device_context(); without it both give it back to the device at once.
    max_memory_cache_ratio: share of the limit, 0 to 1, that may lie idle in a pool or in torch's cache.
    enable_profiling: profile_operation() measures.
    distributed_backend: "nccl" or "gloo"; enable_distributed: GPUManager sets the process up for it.
    """

    device_ids: Optional[list[int]] = None
    memory_fraction: Optional[float] = None
    optimization_level: OptimizationLevel = OptimizationLevel.BASIC
    precision: ModelPrecision = ModelPrecision.MIXED
    enable_amp: bool = True
    enable_compile: bool = True
    enable_channels_last: bool = True
    enable_memory_pooling: bool = True
    enable_monitoring: bool = True
    allocation_strategy: AllocationStrategy = AllocationStrategy.BALANCED
    max_memory_cache_ratio: float = 0.8
    enable_profiling: bool = False
    distributed_backend: str = "nccl"
    enable_distributed: bool = False

    def __post_init__(self) -> None:
        checked = json.loads(_core.gpu_config(json.dumps(self.to_dict())))
        self.optimization_level = OptimizationLevel(checked["optimization_level"])
        self.precision = ModelPrecision(checked["precision"])
        self.allocation_strategy = AllocationStrategy(checked["allocation_strategy"])
        self.distributed_backend = checked["distributed_backend"]

    def to_dict(self) -> dict[str, Any]:
        """Plain Python, with names for the enumerations."""
        return {key.name: _plain(getattr(self, key.name)) for key in dataclasses.fields(self)}


def _plain(value: Any) -> Any:
    """A value that json.dumps takes; what it does not take is named in the library's own complaint."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)


def _options(config: Any) -> str:
    if config is None:
        return "{}"
    if not isinstance(config, Mapping):
        raise invalid(f"a configuration is a dict, not {type(config).__name__}", "for example {'enable_pooling': True}")
    return json.dumps(_plain(config))


def _machine(machine: Any) -> Any:
    return (machine if machine is not None else default_machine())._core


class _Closing:
    """Something that holds threads of the library; ends with the interpreter at the latest."""

    _core: Any

    def _hold(self, core: Any) -> None:
        self._core = core
        self._end = weakref.finalize(self, core.close)

    def close(self) -> None:
        """Ends its threads and gives back what it holds. A second call does nothing."""
        self._end()

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
