# SPDX-License-Identifier: Apache-2.0
"""gpuwarden: GPUs to know, judge, choose, run, explain, plan and watch.

    import gpuwarden

    for gpu in gpuwarden.snapshot().gpus:
        print(gpu.index, gpu.name, gpu.memory.free_bytes)

    with gpuwarden.reserve(count=2, min_free_memory="40GiB") as gpus:
        train(gpus.cuda_visible_devices)

No GPU here? `with gpuwarden.simulate("h100x8"): ...`, or GPUWARDEN_SIMULATE=h100x8 in the environment. Nothing of it
imports torch or numpy. What can go wrong raises gpuwarden.Error with code, message and hint.
"""
from __future__ import annotations

import os as _os
from importlib import import_module as _import_module

from gpuwarden._core import version as __version__

# What is asked for is imported then: `import gpuwarden` takes a few milliseconds.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as _Any

    from gpuwarden._error import Error
    from gpuwarden._functions import (
        compat,
        diagnose,
        disable,
        doctor,
        enable,
        fleets,
        gpu_memory,
        leases,
        memory,
        metrics,
        models,
        parse_duration,
        parse_size,
        plan,
        replay,
        reserve,
        run,
        select,
        snapshot,
    )
    from gpuwarden._machine import GpuMemory, Machine, Reservation, default_machine
    from gpuwarden._monitor import Monitor
    from gpuwarden._simulation import Simulation, simulate
    from gpuwarden._values import Snapshot, Value

__all__ = [
    "Error",
    "GpuMemory",
    "Machine",
    "Monitor",
    "Reservation",
    "Simulation",
    "Snapshot",
    "Value",
    "__version__",
    "compat",
    "default_machine",
    "diagnose",
    "disable",
    "doctor",
    "enable",
    "fleets",
    "gpu_memory",
    "leases",
    "memory",
    "metrics",
    "models",
    "parse_duration",
    "parse_size",
    "plan",
    "replay",
    "reserve",
    "run",
    "select",
    "simulate",
    "snapshot",
]

# The modules in which these names are.
_WHERE = {
    "Error": "_error",
    "GpuMemory": "_machine",
    "Machine": "_machine",
    "Monitor": "_monitor",
    "Reservation": "_machine",
    "Simulation": "_simulation",
    "Snapshot": "_values",
    "Value": "_values",
    "default_machine": "_machine",
    "simulate": "_simulation",
}
# Modules that are found here, and whose names stand here as well.
_MODULES = ("distributed", "environment", "gpu", "profile", "torch")


def __getattr__(name: str) -> _Any:
    if name in __all__:
        found = getattr(_import_module(f"gpuwarden.{_WHERE.get(name, '_functions')}"), name)
        globals()[name] = found
        return found
    if name in _MODULES:
        return _import_module(f"gpuwarden.{name}")
    for module in () if name.startswith("_") else _MODULES:
        loaded = _import_module(f"gpuwarden.{module}")
        if name in getattr(loaded, "__all__", ()):
            found = getattr(loaded, name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'gpuwarden' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Every name that can be asked for; the modules are imported for theirs, torch is not."""
    names = (name for module in _MODULES for name in getattr(_import_module(f"gpuwarden.{module}"), "__all__", ()))
    return sorted({*globals(), *__all__, *_MODULES, *names})


# Asked for by the environment: tell `gpuwarden memory` what PyTorch holds in this process.
if _os.environ.get("GPUWARDEN_PUBLISH"):
    _import_module("gpuwarden.torch.publishing").start_if_asked()
