# SPDX-License-Identifier: Apache-2.0
"""Measures named operations: wall and device time, and what the GPUs did meanwhile.

    from gpuwarden.profile import profile_operation, results

    with profile_operation("inference"):
        model(x)

    @profile_operation("load")
    def load(path): ...

    print(results())

Operations may nest, overlap, and run in any thread. Times are in seconds, energy in joules, memory in bytes. A process
that was forked (a worker of a DataLoader) starts with nothing measured.
"""
from __future__ import annotations

import functools
import gzip
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any, Callable, TypeVar, Union, cast

from gpuwarden import _core
from gpuwarden._arguments import text
from gpuwarden._error import Error, invalid
from gpuwarden._values import Value

__all__ = [
    "Operation",
    "Profile",
    "disable",
    "enable",
    "enabled",
    "export_chrome_trace",
    "follow",
    "profile_operation",
    "reset",
    "results",
]

F = TypeVar("F", bound=Callable[..., Any])

_enabled = _core.profile_enabled
_Scope = _core.ProfileScope
_on_torch_stream = False

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_core.profile_after_fork)


class Operation(Value):
    """All runs of one name. `wall` and `device` have count, total_seconds, min_seconds, mean_seconds, max_seconds and
    p95_seconds (within 1/32). `self_seconds` is wall time without that of operations within. `energy_joules`,
    `utilization_percent` and `memory_peak_bytes` come from the readings of follow(), for `runs_told` of the runs."""


class Profile(Value):
    """Every operation, those with most wall time first."""

    _classes = {"operations": Operation}
    _table = "operations"
    _columns = (
        ("operation", "name"),
        ("runs", "wall.count"),
        ("total (s)", "wall.total_seconds"),
        ("mean (s)", "wall.mean_seconds"),
        ("p95 (s)", "wall.p95_seconds"),
        ("device (s)", "device.total_seconds"),
        ("energy (J)", "energy_joules"),
    )

    def operation(self, name: str) -> Operation:
        """The operation of that name. Raises Error (not_found)."""
        for one in self.operations:
            if one.name == name:
                return cast(Operation, one)
        raise Error("not_found", f"no operation '{name}' was measured", "results() names those that were")

    def __str__(self) -> str:
        lines = [f"{'operation':<32}{'runs':>8}{'total':>12}{'mean':>12}{'p95':>12}{'device':>12}{'energy':>12}"]
        for one in self.operations:
            device = one.device.total_seconds if one.device else None
            cells = [one.wall.total_seconds, one.wall.mean_seconds, one.wall.p95_seconds, device]
            energy = "-" if one.energy_joules is None else f"{one.energy_joules:.1f} J"
            times = "".join(f"{_duration(cell):>12}" for cell in cells)
            lines.append(f"{one.name[:31]:<32}{one.wall.count:>8}{times}{energy:>12}")
        return "\n".join(lines)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


class profile_operation:
    """One run of an operation: `with profile_operation("name"):`, or a decorator of a function or coroutine function.

    Raises Error (invalid_argument) where one object is entered again while it is open: make one for each `with`.
    """

    __slots__ = ("_name", "_scope")

    def __init__(self, name: str) -> None:
        self._name = name
        self._scope: Any = None

    def __enter__(self) -> profile_operation:
        if _enabled():
            if self._scope is not None:
                raise invalid(f"the operation '{self._name}' is open already", "make a profile_operation for each `with`")
            try:
                self._scope = _Scope(self._name, _torch_stream()) if _on_torch_stream else _Scope(self._name)
            except TypeError:
                text("an operation's name", self._name)
                raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._scope is not None:
            self._scope.end()
            self._scope = None

    def __call__(self, function: F) -> F:
        name = self._name
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def measured_coroutine(*args: Any, **kwargs: Any) -> Any:
                with profile_operation(name):
                    return await function(*args, **kwargs)

            return cast(F, measured_coroutine)

        @functools.wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            with profile_operation(name):
                return function(*args, **kwargs)

        return cast(F, measured)


def _torch_stream() -> int:
    """PyTorch's current stream where its CUDA has started, else the default one; nothing is started for it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.current_stream().cuda_stream)


def _torch_allocated() -> int | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.memory_allocated())


def enabled() -> bool:
    """Whether operations are measured. They are from the start."""
    return bool(_enabled())


def enable(*, device: bool | str | None = None, memory: bool | None = None, nvtx: bool | str | None = None) -> None:
    """Measures from now on; what is None stays as it was.

    device: time on the GPU by CUDA events in PyTorch's current stream (the default stream without PyTorch); a text is
        the driver library's name. Never starts CUDA. Raises Error (not_found) without the library.
    memory: how much more PyTorch has allocated on its current GPU after an operation than before.
    nvtx: ranges for Nsight Systems; a text is the library's name. Raises Error (not_found) without it.
    """
    global _on_torch_stream
    if device is not None:
        _core.profile_device((device if isinstance(device, str) else "libcuda.so.1") if device else None)
        _on_torch_stream = bool(device)
    if memory is not None:
        _core.profile_memory(_torch_allocated if memory else None)
    if nvtx is not None:
        _core.profile_nvtx((nvtx if isinstance(nvtx, str) else "libnvToolsExt.so.1") if nvtx else None)
    _core.profile_set_enabled(True)


def disable() -> None:
    """Measures nothing from now on; what was measured is kept."""
    _core.profile_set_enabled(False)


def follow(monitor: Any) -> None:
    """Hears the readings of a monitor (gpuwarden's Monitor, the performance_monitor of a GPUManager, or whatever has
    add_reading_callback), from which energy, utilization and memory of operations follow. GPUs are those of the monitor: name the ones that you use."""
    if hasattr(monitor, "feed_profile"):
        monitor.feed_profile()
    else:
        monitor.add_reading_callback(_hear)


def _hear(reading: Any) -> None:
    if isinstance(reading, str):
        _core.profile_hear(reading)
    else:
        _core.profile_hear(json.dumps(reading.to_dict() if isinstance(reading, Value) else reading))


def results() -> Profile:
    """What was measured until now. Waits for the GPU where its time is measured."""
    return Profile(json.loads(_core.profile_results()))


def reset() -> None:
    """Forgets what was measured."""
    _core.profile_reset()


def export_chrome_trace(path: Union[str, os.PathLike[str]], *, torch_trace: Union[str, os.PathLike[str], None] = None) -> None:
    """Writes the latest operations and the GPUs' readings as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing;
    packed where the name ends with .gz.

    torch_trace: a file of torch.profiler's export_chrome_trace(), put on the same timeline. Raises Error (corrupt) where
        it is none; (invalid_argument) beyond 256 MiB. Raises OSError where a file cannot be read or written.
    """
    foreign = ""
    if torch_trace is not None:
        data = Path(torch_trace).read_bytes()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        foreign = data.decode("utf-8", "replace")
        if not foreign.strip():
            raise Error("corrupt", f"'{os.fspath(torch_trace)}' is empty", "take what export_chrome_trace() wrote")
    text = _core.profile_trace(foreign)
    target = Path(path)
    beside = target.with_name(target.name + ".part")
    beside.write_bytes(gzip.compress(text) if target.suffix == ".gz" else text)
    os.replace(beside, target)
