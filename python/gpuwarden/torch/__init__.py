# SPDX-License-Identifier: Apache-2.0
"""For programs that use PyTorch: optimising, benchmarking, memory. PyTorch is imported when one of these is called."""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "Measurement": "optimize",
    "ModelPrecision": "levels",
    "OptimizationLevel": "levels",
    "OptimizationReport": "report",
    "StepResult": "report",
    "optimize_model": "optimize",
    "report_of": "optimize",
    "undo": "optimize",
    "BenchmarkReport": "benchmarking",
    "benchmark": "benchmarking",
    "Publisher": "publishing",
    "publish": "publishing",
    "MemoryStatus": "memory",
    "PoolScope": "memory",
    "memory_fraction": "memory",
    "memory_pool": "memory",
    "memory_status": "memory",
    "memory_summary": "memory",
    "pool_status": "memory",
    "use_pool": "memory",
    "Checkpoints": "checkpoint",
    "LoaderSettings": "loading",
    "MixedPrecision": "precision",
    "Ranks": "parallel",
    "StepMonitor": "steps",
    "StepRecord": "step_records",
    "Verdict": "step_judge",
    "accumulate": "training",
    "available_cpus": "loading",
    "checkpoint_activations": "training",
    "distribute": "parallel",
    "judge": "step_judge",
    "lightning_callback": "step_callbacks",
    "load_checkpoint": "checkpoint",
    "loader_settings": "loading",
    "mixed_precision": "precision",
    "process_group": "parallel",
    "save_checkpoint": "checkpoint",
    "step_monitor": "steps",
    "stop_requested_by": "checkpoint",
    "trainer_callback": "step_callbacks",
    "undo_checkpoint_activations": "training",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_WHERE))
